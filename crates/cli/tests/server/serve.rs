//! `punctual serve` and `up --workers`.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use punctual_servers::{Care, Postgres};
use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};

use crate::shell::{Server, Shell, get, until};

fn workers(shell: &Shell) -> Vec<Value> {
    shell.json(&["workers", "list"])["workers"].as_array().unwrap().clone()
}

fn status(shell: &Shell, id: &str) -> Value {
    shell.json(&["jobs", "show", id])["job"]["status"].clone()
}

#[test]
fn serve_works_in_processes_and_drains_after_a_stop_signal() {
    let shell = Shell::with_store();
    let mut server = Server::start(&shell, &["serve", "--workers", "2", "--queues", "default"]);
    until("two workers, and one for jobs that were running at a crash", || workers(&shell).len() == 3);
    let mut pids: Vec<u64> = workers(&shell).iter().map(|worker| worker["pid"].as_u64().unwrap()).collect();
    pids.push(server.0.id().into());
    assert_eq!(BTreeSet::from_iter(pids).len(), 4, "each in a process of its own");
    let id = shell.ok(&["enqueue", "sleep", r#"{"ms": 4000}"#]).trim().to_owned();
    until("the job to run", || status(&shell, &id) == "processing");
    server.signal(Signal::SIGTERM);
    assert!(server.0.wait().unwrap().success());
    assert_eq!(status(&shell, &id), "succeeded", "what runs may end");
    assert!(workers(&shell).is_empty());
    let output = std::fs::read_to_string(shell.path("stderr")).unwrap();
    let executed: Value = output.lines().find(|line| line.contains("\"executed\"")).unwrap().parse().unwrap();
    assert_eq!(executed["job"], id);
    assert_eq!(executed["name"], "sleep");
    assert_eq!(executed["queue"], "default");
    assert_eq!(executed["result"], "succeeded");
    assert!(executed["attempt"].as_str().unwrap().starts_with("att_") && executed["duration_ms"].as_f64() > Some(0.0));
}

#[test]
fn a_second_stop_signal_ends_at_once() {
    let shell = Shell::with_store();
    let mut server = Server::start(&shell, &["up", "--workers", "2"]);
    until("two workers, and one for jobs that were running at a crash", || workers(&shell).len() == 3);
    let id = shell.ok(&["enqueue", "sleep", r#"{"ms": 600000}"#]).trim().to_owned();
    until("the job to run", || status(&shell, &id) == "processing");
    server.signal(Signal::SIGINT);
    until("it drains", || {
        std::fs::read_to_string(shell.path("stderr")).unwrap().contains("interrupt again to end now")
    });
    server.signal(Signal::SIGINT);
    assert!(server.0.wait().unwrap().success());
    assert_eq!(status(&shell, &id), "queued", "it was given back at once");
    assert_eq!(shell.json(&["jobs", "show", &id])["job"]["crash_count"], 1, "its end was not awaited");
}

#[test]
fn settings_that_no_process_could_start_with_are_refused_at_once() {
    let shell = Shell::new();
    for (args, expected) in [
        (vec!["serve", "--lease", "1ms"], "lease: must be between 100ms and 1d, not 1ms"),
        (vec!["up", "--workers", "5000"], "workers: must be between 1 and 1000, not 5000"),
        (vec!["work", "--supervised"], "--supervised is for processes that"),
    ] {
        let (code, output) = shell.fails(&args);
        assert!(code == 2 && output.contains(expected), "{args:?}: {code} {output}");
    }
    for (config, expected) in [
        ("[handlers.x]\ncommand = []", "handlers.x.command: must not be empty"),
        ("[handlers.x]\nshell = 'true'\ncommand = ['true']", "handlers.x.shell: not allowed with command"),
        ("[handlers.x]\ncommand = ['true']\nmemory = 'lots'", "key handlers.x.memory: expected a size"),
        ("[handlers.x]\ncommand = ['true']\ndirectory = 'absent'", "handlers.x.directory: directory"),
        ("[handlers.x]\ncommand = ['true']\nuser = 'no-such-user'", "handlers.x.user: user `no-such-user` not found"),
        ("[handlers.x]\ncommand = ['true']\nresult = 'mail'", "key handlers.x.result: expected line, file or none"),
    ] {
        std::fs::write(shell.path("punctual.toml"), config).unwrap();
        for args in [["serve"].as_slice(), &["work", "--until-empty"]] {
            let (code, output) = shell.fails(args);
            assert!(code == 2 && output.contains(expected), "{config}: {code} {output}");
        }
    }
}

#[tokio::test]
async fn serve_listens_while_its_database_is_read_only_and_works_once_it_is_not() {
    let (shell, database) = (Shell::new(), Postgres::start(Care::None).unwrap());
    let url = database.url();
    shell.ok(&["--store", &url, "migrate"]);
    let alter = async |setting: &'static str| {
        let mut operator = PgConnection::connect(&url).await.unwrap();
        operator.execute(setting).await.unwrap();
        operator.execute("select pg_reload_conf()").await.unwrap();
    };
    alter("alter system set default_transaction_read_only = on").await;
    let server = Server::start(&shell, &["--store", &url, "serve", "--workers", "1"]);
    let address = server.url(&shell);
    assert_eq!(get(&address, "/healthz").unwrap().0, 200);
    let (status, answer) = get(&address, "/readyz").unwrap();
    assert!(status == 503 && answer.contains("read-only (standby?)"), "{status}: {answer}");
    alter("alter system reset default_transaction_read_only").await;
    until("it is ready", || get(&address, "/readyz").is_some_and(|(status, _)| status == 200));
    let id = shell.ok(&["--store", &url, "enqueue", "noop"]).trim().to_owned();
    until("the job is done", || shell.json(&["--store", &url, "jobs", "show", &id])["job"]["status"] == "succeeded");
}
