//! `punctual health`.

use nix::sys::signal::Signal;

use crate::shell::{Server, Shell, until};

#[test]
fn health_succeeds_while_the_server_answers() {
    let shell = Shell::new();
    let mut server = Server::start(&shell, &["serve", "--workers", "0"]);
    let url = server.url(&shell);
    assert_eq!(shell.ok(&["health", "--url", &url]), "ok\n");
    assert_eq!(shell.json(&["health", "--url", &url])["healthy"], true);
    until("it is ready", || shell.run(&["health", "--ready", "--url", &url]).status.success());
    let of_variable = |listen: &str| shell.command(&["health"]).env("PUNCTUAL_LISTEN", listen).output().unwrap();
    let port = url.rsplit_once(':').unwrap().1;
    for listen in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
        assert!(of_variable(&listen).status.success(), "{listen}");
    }
    server.signal(Signal::SIGTERM);
    assert!(server.0.wait().unwrap().success());
    let (code, message) = shell.fails(&["health", "--url", &url]);
    assert!(code == 1 && message.contains("cannot reach http://127.0.0.1:"), "{code}: {message}");
}

#[test]
fn health_rejects_urls_that_it_cannot_request() {
    let shell = Shell::new();
    for url in ["127.0.0.1:7878", "https://127.0.0.1:7878", "http://", "http://127.0.0.1:7878/healthz"] {
        let (code, message) = shell.fails(&["health", "--url", url]);
        assert!(code == 2 && message.contains("expected http://HOST:PORT"), "{url}: {code} {message}");
    }
}
