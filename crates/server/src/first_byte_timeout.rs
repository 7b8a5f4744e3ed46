//! A timeout for the first bytes of a connection. The HTTP version is detected from these bytes; without a timeout, a
//! client that never sends them would hold its connection forever.

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

/// The preface of an HTTP/2 connection; any other first bytes mean HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Wraps another acceptor, and closes connections whose first bytes do not arrive within a timeout.
#[derive(Debug, Clone)]
pub(crate) struct FirstByteTimeout<A> {
    pub(crate) acceptor: A,
    pub(crate) timeout: Duration,
}

impl<A, I, S> Accept<I, S> for FirstByteTimeout<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = DetectingStream<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let (accepting, timeout) = (self.acceptor.accept(stream, service), self.timeout);
        async move {
            let (stream, service) = accepting.await?;
            Ok((DetectingStream { stream, matched: 0, deadline: Some(Box::pin(time::sleep(timeout))) }, service))
        }
        .boxed()
    }
}

/// A connection whose HTTP version may not be known yet.
#[derive(Debug)]
pub(crate) struct DetectingStream<S> {
    stream: S,
    /// The number of preface bytes received so far.
    matched: usize,
    /// When the HTTP version must be known; none once it is known.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> DetectingStream<S> {
    /// Compares received bytes with the preface.
    fn compare(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.matched..];
        let is_prefix = bytes.len() < expected.len() && expected.starts_with(bytes);
        self.matched += bytes.len().min(expected.len());
        if !is_prefix {
            self.deadline = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DetectingStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not send its first bytes in time",
            )));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        if self.deadline.is_some() {
            self.compare(&into.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DetectingStream<S> {
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
