//! The proxy injects faults into every protocol that it supports.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use punctual_servers::{Direction, Fault, Proxy, Redis};

/// Long enough to distinguish silence from slowness on a busy machine, short enough to wait for.
const SILENCE: Duration = Duration::from_millis(300);

fn connect(proxy: &Proxy, url: &str) -> TcpStream {
    let url = proxy.url_of(url).unwrap();
    let stream = TcpStream::connect(url.split_once("://").unwrap().1.trim_end_matches("/")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn send(stream: &mut TcpStream, arguments: &[&str]) -> std::io::Result<()> {
    let text: String = arguments.iter().map(|argument| format!("${}\r\n{argument}\r\n", argument.len())).collect();
    stream.write_all(format!("*{}\r\n{text}", arguments.len()).as_bytes())
}

fn expect(stream: &mut TcpStream, expected: &str) {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), expected);
}

#[test]
fn swallowed_bytes_come_late_and_connections_stay_open() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::before(&redis.url()).unwrap();
    let mut stream = connect(&proxy, &redis.url());
    for (direction, done_meanwhile) in [(Direction::Both, "0"), (Direction::ToServer, "0"), (Direction::ToClient, "1")]
    {
        redis.execute("SET number 0").unwrap();
        proxy.set(Fault::Swallow(direction));
        send(&mut stream, &["INCR", "number"]).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(redis.execute("GET number").unwrap(), [done_meanwhile], "{direction:?}");
        proxy.heal();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        expect(&mut stream, ":1\r\n");
    }
}

#[test]
fn an_answer_is_lost_after_the_server_has_executed_the_request() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::before(&redis.url()).unwrap();
    proxy.set(Fault::LoseAnswer { after: 1, to: "incr number".to_owned() });
    let mut stream = connect(&proxy, &redis.url());
    send(&mut stream, &["INCR", "other"]).unwrap();
    expect(&mut stream, ":1\r\n");
    send(&mut stream, &["INCR", "number"]).unwrap();
    expect(&mut stream, ":1\r\n");
    send(&mut stream, &["INCR", "number"]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!((redis.execute("GET number").unwrap(), proxy.lost()), (vec!["2".to_owned()], 1));
    let mut stream = connect(&proxy, &redis.url());
    send(&mut stream, &["INCR", "number"]).unwrap();
    expect(&mut stream, ":3\r\n");
}

#[test]
fn connections_are_refused_reset_and_throttled() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::before(&redis.url()).unwrap();
    let mut old = connect(&proxy, &redis.url());
    send(&mut old, &["PING"]).unwrap();
    expect(&mut old, "+PONG\r\n");
    proxy.set(Fault::Refuse);
    assert_eq!(connect(&proxy, &redis.url()).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.set(Fault::Throttle { bytes: 3, pause: Duration::from_millis(1) });
    send(&mut old, &["ECHO", "0123456789"]).unwrap();
    expect(&mut old, "$10\r\n0123456789\r\n");
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    send(&mut old, &["PING"]).unwrap();
    expect(&mut old, "+PONG\r\n");
    proxy.reset();
    assert_eq!(old.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// A packet of SQL Server's protocol, marked as the last of its message.
fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
    [&[kind, 1, length[0], length[1], 0, 0, 1, 0], body].concat()
}

fn batch(text: &str) -> Vec<u8> {
    let text: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    packet(1, &[&4_u32.to_le_bytes(), text.as_slice()].concat())
}

#[test]
fn an_answer_of_sql_server_is_lost_after_its_done_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("sqlserver://{}", listener.local_addr().unwrap());
    let done = packet(4, &[0xFD, 0, 0, 0xC1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (answered, answers) = mpsc::channel();
    let answer = done.clone();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        while let Ok(1..) = stream.read(&mut request) {
            // In two parts: an answer is lost as a whole.
            stream.write_all(&answer[..5]).unwrap();
            stream.write_all(&answer[5..]).unwrap();
            answered.send(()).unwrap();
        }
    });
    let proxy = Proxy::before(&url).unwrap();
    proxy.set(Fault::LoseAnswer { after: 0, to: "commit".to_owned() });
    let mut stream = connect(&proxy, &url);
    stream.write_all(&batch("begin transaction")).unwrap();
    let mut received = vec![0; done.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, done);
    stream.write_all(&batch("commit")).unwrap();
    assert_eq!(stream.read(&mut received).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!((answers.iter().take(2).count(), proxy.lost()), (2, 1));
}

#[test]
fn connections_that_are_forgotten_stay_open_and_silent_and_new_ones_work() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::before(&redis.url()).unwrap();
    let mut old = connect(&proxy, &redis.url());
    send(&mut old, &["PING"]).unwrap();
    expect(&mut old, "+PONG\r\n");
    proxy.forget();
    let mut new = connect(&proxy, &redis.url());
    send(&mut old, &["INCR", "number"]).unwrap();
    send(&mut new, &["PING"]).unwrap();
    expect(&mut new, "+PONG\r\n");
    old.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(old.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(redis.execute("GET number").unwrap(), Vec::<String>::new());
}
