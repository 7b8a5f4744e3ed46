//! `punctual context`, and the current context.

use std::os::unix::fs::PermissionsExt;

use punctual::Role;
use serde_json::json;

use crate::{shell::Shell, world::World};

#[test]
fn a_server_is_used_by_its_name_or_as_the_current_context() {
    let world = World::new();
    let (shell, token) = (&world.shell, world.token(Role::Admin));
    let add = |name: &str, url: &str| shell.ok(&["context", "add", name, "--server", url, "--token", &token]);
    assert!(shell.ok(&["context", "list"]).contains("no contexts"));
    assert_eq!(add("prod", &world.url), "prod added\n");
    assert_eq!(add("staging", "https://staging.example"), "staging added\n");
    let file = shell.path("punctual/contexts.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let list = shell.ok(&["context", "list"]);
    assert!(list.contains("prod") && list.contains("https://staging.example") && !list.contains(&token), "{list}");
    let contexts = shell.json(&["context", "list"])["contexts"].clone();
    assert_eq!(contexts[0], json!({"name": "prod", "server": world.url, "has_token": true, "current": true}));

    // The folder of this shell has a store, which the current context precedes only if it is not configured.
    let elsewhere = Shell::new();
    let run = |args: &[&str]| elsewhere.command(args).env("XDG_CONFIG_HOME", shell.0.path()).output().unwrap();
    assert!(run(&["enqueue", "echo", "1", "--in", "1h"]).status.success());
    assert!(!elsewhere.path("punctual.db").exists(), "the current context was used");
    assert_eq!(shell.json(&["--store", "sqlite:punctual.db", "stats"])["jobs"]["scheduled"], 1);
    assert_eq!(shell.json(&["--context", "prod", "stats"])["jobs"]["scheduled"], 1);
    std::fs::write(elsewhere.path("punctual.toml"), "store = \"sqlite:own.db\"\n").unwrap();
    assert!(run(&["enqueue", "noop"]).status.success() && elsewhere.path("own.db").exists(), "the file precedes it");

    assert_eq!(shell.ok(&["context", "use", "staging"]), "staging is the current context\n");
    assert_eq!(shell.ok(&["context", "remove", "staging"]), "staging removed\n");
    assert_eq!(shell.json(&["context", "list"])["contexts"][0]["current"], false);
    assert_eq!(add("prod", "https://other.example"), "prod changed\n");
}

#[test]
fn wrong_contexts_are_refused() {
    let shell = Shell::new();
    shell.ok(&["context", "add", "prod", "--server", "http://127.0.0.1:1"]);
    for (args, code, problem) in [
        (&["--context", "nope", "stats"][..], 3, "context nope not found"),
        (&["context", "use", "nope"][..], 3, "context nope not found"),
        (&["context", "remove", "nope"][..], 3, "context nope not found"),
        (&["context", "add", "x"][..], 2, "--server: the URL of the server is missing"),
        (&["context", "add", "", "--server", "https://a.example"][..], 2, "invalid name"),
        (&["context", "add", "x", "--server", "sqlite:x"][..], 2, "unsupported scheme"),
        (&["--context", "prod", "--server", "https://a.example", "stats"][..], 2, "both name a server"),
        (&["--context", "prod", "--store", "sqlite:x.db", "stats"][..], 2, "--context a server"),
        (&["--context", "prod", "doctor"][..], 2, "--context: `doctor` needs the store itself"),
        (&["--context", "prod", "stats"][..], 4, "http://127.0.0.1:1"),
    ] {
        let (actual, message) = shell.fails(args);
        assert!(actual == code && message.contains(problem), "{args:?}: {actual}: {message}");
    }
    let file = shell.path("punctual/contexts.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, message) = shell.fails(&["--context", "prod", "stats"]);
    assert!(code == 2 && message.contains("other users can read the tokens; chmod 600"), "{message}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "[contexts.prod]\nserver = 5\ntoken = \"opensesame\"\n").unwrap();
    let (code, message) = shell.fails(&["--context", "prod", "stats"]);
    assert!(code == 2 && message.contains("line 2") && !message.contains("opensesame"), "{message}");
}
