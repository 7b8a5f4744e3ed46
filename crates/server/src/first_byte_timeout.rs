//! A connection has to begin. Which version of HTTP it speaks is seen from its first bytes, and whoever never sends
//! them would be waited for without end.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum_server::accept::Accept;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{self, Sleep},
};

/// What a connection of HTTP/2 begins with; any other beginning is one of HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Takes connections as another one does, and gives each so long to begin.
#[derive(Debug, Clone)]
pub(crate) struct FirstByteTimeout<A> {
    pub(crate) acceptor: A,
    pub(crate) within: Duration,
}

impl<A, I, S> Accept<I, S> for FirstByteTimeout<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = Beginning<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let (accepting, within) = (self.acceptor.accept(stream, service), self.within);
        async move {
            let (stream, service) = accepting.await?;
            Ok((Beginning { stream, seen: 0, deadline: Some(Box::pin(time::sleep(within))) }, service))
        }
        .boxed()
    }
}

/// A connection that has perhaps not begun.
#[derive(Debug)]
pub(crate) struct Beginning<S> {
    stream: S,
    /// How much of the preface has come.
    seen: usize,
    /// Until when it has to be clear which version it speaks; nothing once it is.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Beginning<S> {
    /// Takes note of what has come.
    fn note(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.seen..];
        let goes_on = bytes.len() < expected.len() && expected.starts_with(bytes);
        self.seen += bytes.len().min(expected.len());
        if !goes_on {
            self.deadline = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Beginning<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection did not begin in time")));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        if self.deadline.is_some() {
            self.note(&into.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Beginning<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
