//! Malicious or broken clients: slow, endless, too large, too many. The server disconnects them and keeps serving
//! others.

use std::{future::Future, io::ErrorKind, time::Duration};

use punctual_server::RequestLimits;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time,
};

use crate::common::{World, until};

/// A generous timeout for slow machines; no test measures it.
const LONG: Duration = Duration::from_secs(60);

/// Limits short enough for a test.
fn short() -> RequestLimits {
    let patience = Duration::from_millis(200);
    RequestLimits { head_timeout: patience, body_timeout: patience, body_max_bytes: 10_000 }
}

async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.server.address()).await.unwrap()
}

/// Everything that the server sends until it closes the connection; fails if it never does.
async fn remaining_response(stream: &mut TcpStream) -> String {
    let (mut response, mut part) = (Vec::new(), [0; 4_096]);
    let listening = async {
        loop {
            match stream.read(&mut part).await {
                Ok(0) => return,
                Ok(count) => response.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("{error}"),
            }
        }
    };
    time::timeout(LONG, listening).await.expect("the server closes it");
    String::from_utf8_lossy(&response).into_owned()
}

/// The response to a request whose client reads until the connection is closed.
async fn answer(world: &World, request: &[u8]) -> String {
    let mut stream = connect(world).await;
    // The server may have closed the connection before everything was sent.
    let _ = stream.write_all(request).await;
    remaining_response(&mut stream).await
}

/// Sends byte by byte until the server has closed the connection.
async fn drip(mut stream: TcpStream, start: String) -> String {
    stream.write_all(start.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let dripping = async {
        while writer.write_all(b"x").await.is_ok() {
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    let listening = async {
        let mut response = Vec::new();
        let _ = reader.read_to_end(&mut response).await;
        String::from_utf8_lossy(&response).into_owned()
    };
    let either = async {
        tokio::select! {
            response = listening => response,
            () = dripping => String::new(),
        }
    };
    time::timeout(LONG, either).await.expect("the server closes it")
}

/// Sends ordinary requests repeatedly until `slow` is done.
async fn answered_meanwhile<T>(world: &World, slow: impl Future<Output = T>) -> T {
    let asking = async {
        loop {
            assert_eq!(world.get("/v1/stats").await.status, 200);
        }
    };
    tokio::select! {
        done = slow => done,
        never = asking => never,
    }
}

#[tokio::test]
async fn slow_clients_are_disconnected_while_others_are_served() {
    let world = World::with(|server| server.limits(short())).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n";
    // Nothing at all, the first byte of a possible HTTP/2 preface, half of it, all of it, an unfinished line, an
    // unfinished head.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let beginnings = ["", "P", &preface[..16], preface, "GET /v1/st", head];
    let mut silent = JoinSet::new();
    for beginning in beginnings {
        let mut stream = connect(&world).await;
        silent.spawn(async move {
            stream.write_all(beginning.as_bytes()).await.unwrap();
            remaining_response(&mut stream).await;
        });
    }
    let dripping = drip(connect(&world).await, format!("{head}X-Long: "));
    answered_meanwhile(&world, async { tokio::join!(silent.join_all(), dripping) }).await;
}

#[tokio::test]
async fn a_body_that_does_not_end_is_not_waited_for() {
    let world = World::with(|server| server.limits(short())).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let silent = format!("{head}Content-Length: 100\r\n\r\n{{\"name\":");
    let response = answered_meanwhile(&world, answer(&world, silent.as_bytes())).await;
    assert!(response.starts_with("HTTP/1.1 408") && response.contains("\"code\":\"timed_out\""), "{response}");
    let response = drip(connect(&world).await, format!("{head}Content-Length: 9999\r\n\r\n"));
    answered_meanwhile(&world, response).await;
    // Without a length, the body is cut off at the limit.
    let mut endless = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for _ in 0..100 {
        endless.push_str(&format!("3e8\r\n{}\r\n", " ".repeat(1_000)));
    }
    let response = answer(&world, endless.as_bytes()).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 413"), "{response}");
    assert_eq!(world.get("/v1/stats").await.status, 200);
}

#[tokio::test]
async fn requests_above_the_size_limits_are_refused() {
    let world =
        World::with(|server| server.limits(RequestLimits { body_max_bytes: 10_000, ..Default::default() })).await;
    let get = "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    assert!(answer(&world, format!("{get}\r\n").as_bytes()).await.starts_with("HTTP/1.1 200"));
    let fits: String = (0..90).map(|index| format!("X-{index}: y\r\n")).collect();
    assert!(answer(&world, format!("{get}{fits}\r\n").as_bytes()).await.starts_with("HTTP/1.1 200"));
    let many: String = (0..200).map(|index| format!("X-{index}: y\r\n")).collect();
    assert!(answer(&world, format!("{get}{many}\r\n").as_bytes()).await.starts_with("HTTP/1.1 431"));
    // Not more than the server reads, or its response would be lost with the connection.
    let long = format!("{get}X-Long: {}", "y".repeat(64 * 1024));
    let response = answer(&world, long.as_bytes()).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    let body = json!({"name": "x", "payload": "y".repeat(10_000)});
    assert_eq!(world.post("/v1/jobs", body).await.problem(), (413, "too_large"));
    assert_eq!(world.get("/v1/stats").await.status, 200);
}

#[tokio::test]
async fn a_body_is_never_unpacked() {
    let world = World::new().await;
    let packed = world.client.post(world.url("/v1/jobs")).header("Content-Type", "application/json");
    let packed = packed.header("Content-Encoding", "gzip").body(vec![0x1f, 0x8b, 8, 0]);
    assert_eq!(world.send(packed).await.problem(), (415, "not_json"));
    let plain = world.client.post(world.url("/v1/jobs")).header("Content-Encoding", "identity");
    assert_eq!(world.send(plain.json(&json!({"name": "x"}))).await.status, 200);
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_closed_at_once() {
    const MAX: usize = 20;
    // The connections that are held open must not be closed as idle.
    let patient = RequestLimits { head_timeout: LONG * 10, ..RequestLimits::default() };
    let world = World::with(|server| server.connections_max(MAX).limits(patient)).await;
    let mut held = Vec::new();
    for _ in 0..MAX {
        let mut stream = connect(&world).await;
        // A response shows that the connection was accepted.
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut [0; 1]).await.unwrap() == 1);
        held.push(stream);
    }
    for _ in 0..3_000 {
        let mut stream = connect(&world).await;
        assert_eq!(remaining_response(&mut stream).await, "", "the connection is closed without a response");
    }
    let mut first = held.swap_remove(0);
    first.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(remaining_response(&mut first).await.contains("HTTP/1.1 200"), "the first connection is still served");
    drop(held);
    until("room again", async || world.client.get(world.url("/v1/stats")).send().await.is_ok()).await;
}
