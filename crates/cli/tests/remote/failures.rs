//! Servers that cannot be reached, or are none of Punctual's.

use std::{net::TcpListener, process::Stdio};

use punctual_server::Tls;

use crate::{
    shell::Shell,
    world::{Fake, Reply, SERVER, World},
};

fn fails(url: &str, args: &[&str]) -> (i32, String) {
    Shell::new().fails(&[&["--server", url], args].concat())
}

#[test]
fn a_url_that_names_no_server_is_a_usage_error() {
    for (url, problem) in [
        ("punctual.example", "relative URL without a base"),
        ("sqlite:punctual.db", "unsupported scheme `sqlite`"),
        ("postgres://ada:opensesame@db/app", "unsupported scheme `postgres`"),
        ("https://ada:opensesame@punctual.example", "it contains a user or a password"),
    ] {
        let (code, message) = fails(url, &["stats"]);
        assert!(code == 2 && message.contains(problem) && !message.contains("opensesame"), "{url}: {message}");
    }
}

#[test]
fn a_server_that_is_down_is_named_with_the_cause() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}");
    for command in [&["stats"][..], &["enqueue", "echo"], &["top", "--once"]] {
        let (code, message) = fails(&url, command);
        assert!(code == 4 && message.contains(&url) && message.contains("Connection refused"), "{code}: {message}");
    }
}

#[test]
fn answers_of_others_are_not_taken_for_those_of_punctual() {
    const HTML: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>";
    const MOVED: &str = "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://punctual.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const OLD: &str = r#"{"version":"9.0.0","store":"x","now":"2026-03-01T12:00:00Z"}"#;
    for (reply, problem) in [
        (HTML, "answered 200 OK (text/html), which is not an answer of Punctual's API"),
        (MOVED, "redirects to https://punctual.example/; use that URL"),
        ("nonsense\r\n\r\n", "if it speaks TLS, use https://"),
    ] {
        let fake = Fake::start(move |_, _| Reply::Raw(reply));
        let (code, message) = fails(&fake.url, &["stats"]);
        assert!(code == 4 && message.contains(&fake.url) && message.contains(problem), "{code}: {message}");
    }
    let fake = Fake::start(|_, _| Reply::Json(OLD));
    let (code, message) = fails(&fake.url, &["stats"]);
    assert!(code == 4 && message.contains("has version 9.0.0, but this program has version"), "{code}: {message}");
    let fake = Fake::start(|_, before| Reply::Json(if before == 0 { SERVER } else { "{}" }));
    let (code, message) = fails(&fake.url, &["stats"]);
    assert!(code == 4 && message.contains("cannot be read: missing field"), "{code}: {message}");
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for_without_end() {
    let fake = Fake::start(|_, _| Reply::Silence);
    let (code, message) = fails(&fake.url, &["stats", "--request-timeout", "300ms"]);
    assert!(
        code == 4 && message.contains(&format!("no answer from the server {} within 300ms", fake.url)),
        "{message}"
    );
}

#[test]
fn a_lost_enqueue_is_repeated_with_its_key_and_other_writes_are_not_repeated() {
    const ENQUEUED: &str = r#"{"id":"job_00000000000070008000000000000001","existing":false,"updated":false}"#;
    let fake = Fake::start(|request, before| match (request.split(' ').nth(1), before) {
        (Some("/v1/server"), _) => Reply::Json(SERVER),
        (Some("/v1/jobs"), 1) => Reply::Close,
        (Some("/v1/jobs"), _) => Reply::Json(ENQUEUED),
        _ => Reply::Json("[]"),
    });
    let output = Shell::new().ok(&["--server", &fake.url, "enqueue", "echo", "1"]);
    assert_eq!(output, "job_00000000000070008000000000000001\n");
    let requests = fake.requests.lock().unwrap().clone();
    let sent: Vec<&String> = requests.iter().filter(|request| request.starts_with("post /v1/jobs")).collect();
    let key = |request: &str| request.lines().find(|line| line.starts_with("idempotency-key: ")).unwrap().to_owned();
    assert_eq!(sent.len(), 2);
    assert_eq!(key(sent[0]), key(sent[1]));

    let fake = Fake::start(|_, before| if before == 0 { Reply::Json(SERVER) } else { Reply::Close });
    let (code, message) = fails(&fake.url, &["queues", "pause", "mail"]);
    assert!(code == 4 && message.contains("the request may have been carried out"), "{code}: {message}");
    assert_eq!(fake.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_certificate_of_the_operator_is_trusted_by_name_only() {
    let world = World::with(|shell| {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (shell.path("cert.pem"), shell.path("key.pem"));
        std::fs::write(&certificate, own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        Some(Tls { certificate, key })
    });
    assert!(world.url.starts_with("https://localhost:"), "{}", world.url);
    assert_eq!(world.json(&["stats", "--ca-file", "cert.pem"])["jobs"]["queued"], 0);
    for wrong in ["absent.pem", "key.pem"] {
        let (code, message) = world.fails(&["stats", "--ca-file", wrong]);
        assert!(code == 2 && message.contains("--ca-file: "), "{code}: {message}");
    }
    // Another certificate than the server's.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.shell.path("other.pem"), other.cert.pem()).unwrap();
    let (code, message) = world.fails(&["stats", "--ca-file", "other.pem"]);
    assert!(code == 4 && message.contains(&world.url) && message.contains("name the certificate"), "{code}: {message}");
}

#[test]
fn commands_that_need_the_store_refuse_a_server() {
    let shell = Shell::new();
    for command in [
        "up",
        "serve",
        "work",
        "migrate",
        "doctor",
        "backup copy.db",
        "restore copy.db",
        "bench lifecycle",
        "verify",
        "tokens open",
        "move --from sqlite:a.db --to sqlite:b.db",
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let (code, message) = shell.fails(&[&["--server", "http://127.0.0.1:1"], args.as_slice()].concat());
        let expected = ["--server: ", "needs the store itself, not a server: it "];
        assert!(code == 2 && expected.iter().all(|part| message.contains(part)), "{command}: {code}: {message}");
    }
    assert!(!shell.path("punctual.db").exists(), "nothing was touched");
}

#[test]
fn a_store_and_a_server_exclude_each_other_unless_one_is_given_by_flag() {
    let world = World::new();
    world.shell.ok(&["enqueue", "noop"]);
    let (code, message) = world.fails(&["stats", "--store", "sqlite:other.db"]);
    assert!(code == 2 && message.contains("--store names a store and --server a server"), "{code}: {message}");
    let run = |env: &[(&str, &str)], args: &[&str]| {
        let mut command = world.shell.command(&[args, &["stats", "--json"]].concat());
        let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let (server, store) = (("PUNCTUAL_SERVER", world.url.as_str()), ("PUNCTUAL_STORE", "sqlite:absent/absent.db"));
    assert_eq!(run(&[server], &[]).0, 0);
    assert_eq!(run(&[store], &["--server", &world.url]).0, 0, "the flag overrides the variable");
    assert_eq!(run(&[server], &["--store", "sqlite:absent/absent.db"]).0, 4, "the store is used");
    let (code, message) = run(&[server, store], &[]);
    assert!(code == 2 && message.contains("PUNCTUAL_STORE names a store and PUNCTUAL_SERVER a server"), "{message}");
    std::fs::write(world.shell.path("url"), "sqlite:absent/absent.db\n").unwrap();
    let (code, message) = run(&[server, ("PUNCTUAL_STORE_FILE", "url")], &[]);
    assert!(code == 2 && message.contains("PUNCTUAL_STORE_FILE names a store and PUNCTUAL_SERVER"), "{message}");
    let (code, message) = run(&[], &["--token", "punctual_x"]);
    assert!(code == 2 && message.contains("--token is for a server"), "{message}");
}
