//! `punctual verify`, on every engine that tests can start.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shell;

use nix::sys::signal::Signal;
use punctual::postgres::sqlx::{self, Connection, PgConnection};
use punctual_servers::Redis;
use serde_json::Value;
use shell::{Server, Shell, until};

fn postgres() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it")
}

/// The schemas of a purpose that exist in the database.
#[tokio::main(flavor = "current_thread")]
async fn schemas(url: &str, purpose: &str) -> Vec<String> {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let names = sqlx::query_scalar("select nspname::text from pg_namespace where starts_with(nspname::text, $1)");
    names.bind(format!("punctual_{purpose}_")).fetch_all(&mut connection).await.unwrap()
}

fn assert_all_held(report: &Value) {
    assert_eq!(report["ok"], true, "{report:#}");
    for guarantee in report["guarantees"].as_array().unwrap() {
        assert_eq!(guarantee["violated"], 0, "{report:#}");
    }
    let exercised = |number: usize| report["guarantees"][number]["exercised"].as_u64().unwrap();
    assert_eq!(exercised(0), report["jobs"].as_u64().unwrap());
    assert!(exercised(2) >= exercised(0), "each job was executed");
}

#[test]
fn a_file_is_verified_and_nothing_is_left() {
    let shell = Shell::new();
    let report = shell.json(&["verify", "--seconds", "5"]);
    assert_all_held(&report);
    assert!(report["behaviours"].as_u64().unwrap() > 150, "{report:#}");
    let left: Vec<_> = std::fs::read_dir(shell.0.path()).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    let (code, output) = shell.fails(&["verify", "--seconds", "1"]);
    assert_eq!((code, output.contains("5..=3600")), (2, true), "{output}");
}

#[test]
fn a_database_with_redis_in_front_is_verified_and_nothing_is_left_in_either() {
    let (shell, redis, url) = (Shell::new(), Redis::start().unwrap(), postgres());
    let args = ["verify", "--skip-suite", "--seconds", "5", "--seed", "7", "--store", &url, "--dispatch", &redis.url()];
    let report = shell.json(&args);
    assert_all_held(&report);
    assert_eq!((&report["behaviours"], &report["seed"]), (&0.into(), &7.into()));
    // Keys that announce a process expire by themselves.
    let of_process = |key: &String| key.ends_with(":owner") || key.contains(":worker:");
    let keys: Vec<String> =
        redis.execute("KEYS punctual:*").unwrap().into_iter().filter(|key| !of_process(key)).collect();
    assert!(keys.is_empty(), "{keys:?}");
    interrupted(&shell, &url);
    assert_eq!(schemas(&url, "verify"), Vec::<String>::new());
}

/// An interrupted `verify` removes what it has created.
fn interrupted(shell: &Shell, url: &str) {
    let mut verify = Server::start(shell, &["verify", "--skip-suite", "--seconds", "3600", "--store", url]);
    until("a schema", || schemas(url, "verify").iter().any(|schema| schema.ends_with("chaos")));
    verify.signal(Signal::SIGINT);
    assert_eq!(verify.0.wait().unwrap().code(), Some(1));
    let output = std::fs::read_to_string(shell.path("stderr")).unwrap();
    assert!(output.contains("interrupted"), "{output}");
}
