//! A server that receives alerts.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use hmac::{Hmac, KeyInit, Mac};
use punctual::Webhook;
use serde_json::Value;
use sha2::Sha256;

pub(super) const SECRET: &str = "a secret that both sides know";

/// A request that was received.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The time of the request in its signature.
    pub(super) fn signed_at(&self) -> i64 {
        let signature = &self.headers["punctual-signature"];
        let (time, mac) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let mut expected = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        expected.update(format!("{time}.{}", self.body).as_bytes());
        let hex: String = expected.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(mac, hex, "the signature is right");
        time.parse().unwrap()
    }
}

/// A server that records requests and sends the configured responses, or 204 if none is configured.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) address: String,
    pub(super) got: Arc<Mutex<Vec<Request>>>,
    pub(super) answers: Arc<Mutex<VecDeque<&'static str>>>,
}

impl Receiver {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let receiver = Self { address, got: Arc::default(), answers: Arc::default() };
        let own = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut lines = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if line.trim().is_empty() {
                        break;
                    }
                    lines.push(line.trim().to_owned());
                }
                let header =
                    |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
                let headers: BTreeMap<String, String> = lines.iter().skip(1).filter_map(header).collect();
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let path = lines[0].split(' ').nth(1).unwrap().to_owned();
                own.got.lock().unwrap().push(Request { path, headers, body: String::from_utf8(body).unwrap() });
                let answer = own.answers.lock().unwrap().pop_front().unwrap_or("204 No Content\r\n\r\n");
                let _ = write!(reader.into_inner(), "HTTP/1.1 {answer}");
            }
        });
        receiver
    }

    pub(super) fn webhook(&self) -> Webhook {
        Webhook::new("ops", format!("http://{}/hook?team=a", self.address), SECRET)
    }

    pub(super) fn answer(&self, answers: &[&'static str]) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(super) fn got(&self) -> Vec<Request> {
        self.got.lock().unwrap().clone()
    }
}
