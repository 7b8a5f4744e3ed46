//! Detects whether the client of a connection is still connected.
//!
//! A client may close its sending side after a request and still read the answer, and a dead client looks the same:
//! requests of both are answered. Only a claim that waits for jobs is abandoned, since jobs that are sent to a dead
//! client have to wait for their lease to expire.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time,
};

/// How often a waiting claim checks the connection.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A connection whose state its requests can check.
#[derive(Debug)]
pub(crate) struct Connection(Arc<Mutex<TcpStream>>);

/// The client of a connection. Does not keep the connection open.
#[derive(Debug, Clone)]
pub(crate) struct Peer(Weak<Mutex<TcpStream>>);

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer(Arc::downgrade(&self.0))
    }

    fn stream(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    /// Waits until the client has closed its sending side or the connection is closed.
    pub(crate) async fn closed(&self) {
        while !self.has_closed() {
            time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn has_closed(&self) -> bool {
        let Some(stream) = self.0.upgrade() else { return true };
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = stream.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.map_or(true, |ready| ready.is_read_closed()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }
}
