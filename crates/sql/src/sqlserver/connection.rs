//! Opens connections, and runs texts on them.

use std::io;

use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{StoreError, StoreResult};
use socket2::{SockRef, TcpKeepalive};
use tiberius::error::Error;
use tokio::{
    net::TcpStream,
    time::{self, Duration},
};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::{
    error::{LOCK_TIMEOUT_MS, store_error},
    options::Options,
    statements::own,
};
use crate::db::Row;

/// A connection.
pub type Client = tiberius::Client<Compat<TcpStream>>;

/// How long a connection may be silent before it is probed, and the interval of the probes.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long a statement waits for its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The time that it may wait for a lock, plus the time for the answer.
    Usual,
    /// For migrations.
    Long,
}

impl Patience {
    fn limit(self, options: &Options) -> Duration {
        let usual = options.answer_timeout + Duration::from_millis(LOCK_TIMEOUT_MS);
        match self {
            Self::Usual => usual,
            Self::Long => 10 * usual,
        }
    }
}

impl Options {
    /// Opens a connection for the caller's own use, such as for transactions in which jobs are enqueued.
    pub async fn connect(&self) -> StoreResult<Client> {
        open(self, Patience::Usual).await
    }

    /// Runs a statement on a connection of its own, for example to create a database.
    pub async fn run(&self, text: &str) -> StoreResult<()> {
        let mut client = self.connect().await?;
        let done = async { client.simple_query(text).await?.into_results().await };
        done.await.map(drop).map_err(|error| store_error(&self.location, &error))
    }

    /// Drops a database of this server, even if it has open connections.
    pub async fn drop_database(&self, name: &str) -> StoreResult<()> {
        // Not every server supports this statement; a server that needs it and does not support it rejects the drop.
        let _ = self.run(&format!("alter database {name} set single_user with rollback immediate")).await;
        self.run(&format!("drop database {name}")).await
    }
}

/// Opens a connection.
pub(crate) async fn open(options: &Options, patience: Patience) -> StoreResult<Client> {
    // If a build contains several TLS providers, rustls needs an explicit choice. The embedding program may have
    // made it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let location = &options.location;
    let unreachable = |reason: String| StoreError::Unreachable { store: location.clone(), reason };
    let mut config = options.config.clone();
    // A connection that did not answer in time cannot be reused.
    config.command_timeout(Some(patience.limit(options)));
    let mut address = config.get_addr();
    for _ in 0..3 {
        let connect = async {
            let stream = connect(&address).await.map_err(|error| unreachable(error.to_string()))?;
            Ok::<_, StoreError>(tiberius::Client::connect(config.clone(), stream.compat_write()).await)
        };
        let connected = time::timeout(options.connect_timeout, connect).await;
        match connected.map_err(|_| unreachable("it does not answer".to_owned()))?? {
            Ok(mut client) => {
                run(&mut client, own::SETTINGS).await.map_err(|error| store_error(location, &error))?;
                return Ok(client);
            }
            // The server redirects to another one of its group.
            Err(Error::Routing { host, port }) => {
                address = format!("{host}:{port}");
                config.host(&host);
                config.port(port);
            }
            Err(error) => return Err(store_error(location, &error)),
        }
    }
    Err(unreachable("it names one server after the other".to_owned()))
}

/// Opens a TCP connection with keepalive probes.
async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    Ok(stream)
}

/// Runs a text that returns no rows.
pub(crate) async fn run<S>(client: &mut tiberius::Client<S>, text: &str) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    client.simple_query(text).await?.into_results().await.map(drop)
}

/// The rows of the last result set of a text.
pub(crate) async fn rows<S>(client: &mut tiberius::Client<S>, text: &str) -> Result<Vec<tiberius::Row>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    Ok(client.simple_query(text).await?.into_results().await?.pop().unwrap_or_default())
}

/// The server's version string.
pub(crate) async fn version(client: &mut Client, store: &str) -> StoreResult<String> {
    let rows = rows(client, own::VERSION).await.map_err(|error| store_error(store, &error))?;
    let row: &dyn Row = rows.first().ok_or_else(|| StoreError::Other("it has no version".to_owned()))?;
    Ok(row.get::<&str>(0)?.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_is_probed_while_it_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect(&listener.local_addr().unwrap().to_string()).await.unwrap();
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
