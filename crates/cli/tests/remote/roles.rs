//! The role of the token decides.

use std::process::Stdio;

use punctual::Role;

use crate::world::World;

fn outcome(world: &World, token: &str, args: &[&str]) -> (i32, String) {
    let output = world.run_as(token, args);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(token), "the token is printed: {text}");
    (output.status.code().unwrap(), text)
}

#[test]
fn a_command_needs_its_role_and_changes_are_recorded_with_the_name_of_the_token() {
    let world = World::new();
    let (read, enqueue, admin) = (world.token(Role::Read), world.token(Role::Enqueue), world.token(Role::Admin));

    let (code, id) = outcome(&world, &enqueue, &["enqueue", "echo", "1", "--in", "1h"]);
    assert_eq!(code, 0, "{id}");
    let (code, refused) = outcome(&world, &enqueue, &["jobs", "list"]);
    assert!(code == 5 && refused.contains(&world.url) && refused.contains("the role read"), "{code}: {refused}");

    assert_eq!(outcome(&world, &read, &["jobs", "show", id.trim()]).0, 0);
    for command in
        [&["jobs", "cancel", id.trim()][..], &["queues", "pause", "default"], &["tokens", "list"], &["cleanup"]]
    {
        let (code, refused) = outcome(&world, &read, command);
        assert!(code == 5 && refused.contains("the role admin"), "{command:?}: {code}: {refused}");
    }

    assert_eq!(outcome(&world, &admin, &["jobs", "cancel", id.trim()]).0, 0);
    let shown = world.shell.json(&["jobs", "show", id.trim()]);
    assert_eq!(shown["job"]["created_by"], "token:enqueue");
    assert_eq!(shown["events"].as_array().unwrap().last().unwrap()["actor"], "token:admin");
}

#[test]
fn tokens_are_managed_over_http() {
    let world = World::new();
    let admin = world.token(Role::Admin);
    let (code, secret) = outcome(&world, &admin, &["tokens", "create", "reader", "--role", "read", "--expires", "90d"]);
    let secret = secret.lines().find(|line| line.starts_with("punctual_")).unwrap().to_owned();
    assert_eq!((code, outcome(&world, &secret, &["stats"]).0), (0, 0));
    let (_, list) = outcome(&world, &admin, &["tokens", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let id = |name: &str| {
        let tokens = list["tokens"].as_array().unwrap();
        tokens.iter().find(|token| token["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome(&world, &admin, &["tokens", "revoke", &id("reader")]).0, 0);
    assert_eq!(outcome(&world, &secret, &["stats"]).0, 5);
    let (code, refused) = outcome(&world, &admin, &["tokens", "revoke", &id("admin")]);
    assert!(code == 5 && refused.contains("--allow-last-admin"), "{refused}");
}

#[test]
fn a_missing_or_wrong_token_is_told_apart() {
    let world = World::new();
    world.token(Role::Admin);
    let (code, refused) = world.fails(&["stats"]);
    assert!(code == 5 && refused.contains("requires a token: set PUNCTUAL_TOKEN"), "{code}: {refused}");
    let (code, refused) = outcome(&world, "punctual_wrong", &["stats"]);
    assert!(code == 5 && refused.contains("rejects the token: invalid, expired or revoked"), "{code}: {refused}");
    let (code, refused) = world.fails(&["stats", "--json", "--token", "punctual_wrong"]);
    assert!(code == 5 && refused.contains("\"exit_code\":5") && !refused.contains("punctual_wrong"), "{refused}");
}

#[test]
fn the_token_may_be_in_a_file() {
    let world = World::new();
    std::fs::write(world.shell.path("token"), format!("{}\n", world.token(Role::Read))).unwrap();
    let run = |variables: &[(&str, &str)]| {
        let mut command = world.shell.command(&["--server", &world.url, "stats"]);
        let output = command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&[("PUNCTUAL_TOKEN_FILE", "token")]), (Some(0), String::new()));
    let (code, message) = run(&[("PUNCTUAL_TOKEN_FILE", "token"), ("PUNCTUAL_TOKEN", "punctual_wrong")]);
    assert!(code == Some(2) && message.contains("are both set; set one of them"), "{code:?}: {message}");
}
