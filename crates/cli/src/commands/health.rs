//! `punctual health`: the health of a server, for images that contain no HTTP client.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

use crate::{
    args::{Cli, Health},
    exit::Usage,
    output::print_json,
};

/// Timeout of the whole request.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum length of the answer that is read.
const ANSWER_MAX_BYTES: u64 = 16 << 10;
/// The server's default.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7878);

pub(crate) async fn run(cli: &Cli, args: &Health) -> Result<()> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => format!("http://{}", reachable(args.listen.0.unwrap_or(DEFAULT_ADDRESS))),
    };
    let host = host(&url)?;
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let answer = time::timeout(ANSWER_MAX, get(&host, path)).await;
    let answer = answer.map_err(|_| anyhow!("{url} did not answer within {} s", ANSWER_MAX.as_secs()))?;
    let answer = answer.with_context(|| format!("cannot reach {url}"))?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    let status = status.with_context(|| format!("the answer of {url} is not HTTP"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    ensure!(status == 200, "{url}{path} returned status {status}: {body}");
    if cli.json {
        return print_json(&json!({ "healthy": true }));
    }
    println!("{body}");
    Ok(())
}

/// The address at which a client on this machine reaches a server that listens on all addresses.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// The host and port of a URL.
fn host(url: &str) -> Result<String> {
    let wrong = || Usage(format!("invalid URL `{url}`: expected http://HOST:PORT, such as http://127.0.0.1:7878"));
    let host = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
        return Err(wrong().into());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { host.to_owned() } else { format!("{host}:80") })
}

/// Sends a request; HTTP/1.0, so that the body has no encoding and ends with the connection.
async fn get(host: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
