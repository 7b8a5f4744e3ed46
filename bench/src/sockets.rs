//! Measures many idle subscribers of a server: their memory, whether the server keeps them, and how soon all of them
//! receive an event.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use punctual_server::raise_file_limit;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
    time,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use crate::{OnProgress, Settings, StoreFactory, object};

/// Number of connections opened concurrently.
const COMING: usize = 64;
/// Longer than the server's timeout for silent clients.
const HOLD: Duration = Duration::from_secs(70);
/// Number of open files that a process needs in addition to its sockets.
const OTHER_FILES: u64 = 200;

/// Opens sockets to a server in a process of its own, each for another user.
pub(crate) async fn sockets(
    stores: &StoreFactory,
    settings: &Settings,
    count: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let files = raise_file_limit().context("cannot raise the limit of open files")?;
    ensure!(
        files >= count as u64 + OTHER_FILES,
        "the system allows {files} open files, which are too few for {count} sockets: raise the hard limit with `ulimit -Hn`"
    );
    let url = stores.fresh_url("sockets").await?;
    let punctual = punctual::Punctual::connect(&url).await?;
    let (mut server, address) = start(settings, &url).await?;
    let pid = server.id().context("the server has gone")?;
    // One connection first, so that memory allocated for the first connection only is not counted.
    drop(open(&address, 0).await?);
    let before = memory_kib(pid)?;
    let began = Instant::now();
    let received = Arc::new(AtomicUsize::new(0));
    let (gone, mut readers) = (watch::Sender::new(0_usize), JoinSet::new());
    for first in (0..count).step_by(COMING) {
        let coming = (first..count.min(first + COMING)).map(|number| open(&address, number));
        for socket in futures_util::future::try_join_all(coming).await? {
            readers.spawn(listen(socket, Arc::clone(&received), gone.clone()));
        }
        on_progress("sockets", first as u64, count as u64);
    }
    let opened_s = began.elapsed().as_secs_f64();
    let opened = memory_kib(pid)?;
    on_progress("holding", count as u64, count as u64);
    time::sleep(HOLD).await;
    let held = memory_kib(pid)?;
    ensure!(*gone.borrow() == 0, "the server closed {} of {count} idle sockets", *gone.borrow());
    let began = Instant::now();
    punctual.broadcast(&"hello").await?;
    while received.load(Ordering::Relaxed) < count {
        ensure!(began.elapsed() < HOLD, "{} of {count} received it", received.load(Ordering::Relaxed));
        time::sleep(Duration::from_millis(1)).await;
    }
    let all_received_s = began.elapsed().as_secs_f64();
    readers.shutdown().await;
    server.kill().await?;
    Ok(object(json!({
        "sockets": count,
        "open_s": opened_s,
        "server_mib_before": before / 1024.0,
        "server_mib_opened": opened / 1024.0,
        "server_mib_held": held / 1024.0,
        "kib_per_socket": (held.max(opened) - before) / count as f64,
        "held_s": HOLD.as_secs(),
        "broadcast_to_all_s": all_received_s,
    })))
}

/// Starts a server without workers; returns the address that it reports.
async fn start(settings: &Settings, url: &str) -> Result<(Child, String)> {
    let mut server = Command::new(&settings.program)
        .args(["serve", "--workers", "0", "--listen", "127.0.0.1:0", "--store", url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a server")?;
    let stderr = server.stderr.take().context("the server has no standard error")?;
    let mut lines = BufReader::new(stderr).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, address)) = line.split_once("listening on http://") {
            let address = address.trim().to_owned();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((server, address));
        }
    }
    bail!("the server ended before it listened")
}

type Socket = WebSocketStream<TcpStream>;

async fn open(address: &str, number: usize) -> Result<Socket> {
    let stream = TcpStream::connect(address).await?;
    let url = format!("ws://{address}/v1/stream?user=user-{number}");
    let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(1024);
    let (mut socket, _) = client_async_with_config(url, stream, Some(config)).await?;
    match socket.next().await {
        Some(Ok(Message::Text(_))) => Ok(socket),
        other => bail!("expected the first message of the server, found {other:?}"),
    }
}

/// Answers pings, and waits for the broadcast.
async fn listen(mut socket: Socket, received: Arc<AtomicUsize>, gone: watch::Sender<usize>) {
    while let Some(Ok(frame)) = socket.next().await {
        if frame.to_text().is_ok_and(|text| text.contains("\"broadcast\"")) {
            received.fetch_add(1, Ordering::Relaxed);
        }
    }
    gone.send_modify(|gone| *gone += 1);
}

/// The resident memory of a process.
fn memory_kib(pid: u32) -> Result<f64> {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("cannot read the status of the server")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS not found")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
