//! One connection through the proxy.

use std::{future, io, sync::Arc, sync::Mutex, sync::PoisonError};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time,
};

use super::{
    Direction, Fault, Network,
    answers::{Conversation, Piece},
};

const BUFFER_BYTES: usize = 16 * 1024;

/// Relays the bytes between a client and its server, until both have ended or the network fails.
pub(super) async fn serve(mut client: TcpStream, network: Arc<Network>) {
    let refused = matches!(*network.fault.borrow(), Some(Fault::Refuse));
    let server = if refused { None } else { TcpStream::connect(network.server).await.ok() };
    let Some(mut server) = server else { return reset(client) };
    if relay(&mut client, &mut server, &network).await.is_err() {
        reset(client);
        reset(server);
    }
}

/// Closes a connection with a reset, so that the other side gets an error.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}

/// Relays both directions. An error means that both connections are to be reset.
async fn relay(client: &mut TcpStream, server: &mut TcpStream, network: &Network) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let conversation = Mutex::new(network.protocol.conversation());
    let (mut resets, forgets) = (network.resets.subscribe(), *network.forgets.borrow());
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let to_server = Pump { network, conversation: &conversation, direction: Direction::ToServer, forgets };
    let to_client = Pump { direction: Direction::ToClient, ..to_server };
    tokio::select! {
        _ = resets.changed() => Err(io::ErrorKind::ConnectionReset.into()),
        ended = async {
            tokio::try_join!(to_server.run(client_reads, server_writes), to_client.run(server_reads, client_writes))
        } => ended.map(drop),
    }
}

/// Relays the bytes of one direction.
#[derive(Clone, Copy)]
struct Pump<'a> {
    network: &'a Network,
    conversation: &'a Mutex<Box<dyn Conversation>>,
    direction: Direction,
    /// The counter of forgotten connections when this connection began.
    forgets: u64,
}

impl Pump<'_> {
    async fn run(self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                self.wait_while_swallowed().await;
                return to.shutdown().await;
            }
            for Piece { bytes, answers } in self.pieces(&buffer[..read]) {
                if answers.is_some_and(|request| self.network.loses(&request)) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                self.pass(&mut to, &bytes).await?;
            }
        }
    }

    fn pieces(&self, bytes: &[u8]) -> Vec<Piece> {
        let mut conversation = self.conversation.lock().unwrap_or_else(PoisonError::into_inner);
        if self.direction == Direction::ToClient {
            return conversation.server_sent(bytes);
        }
        conversation.client_sent(bytes);
        vec![Piece::plain(bytes)]
    }

    async fn pass(&self, to: &mut WriteHalf<'_>, bytes: &[u8]) -> io::Result<()> {
        self.wait_while_swallowed().await;
        let fault = self.network.fault.borrow().clone();
        let (chunk, pause) = match fault {
            Some(Fault::Delay(pause)) => (bytes.len(), Some(pause)),
            Some(Fault::Throttle { bytes, pause }) => (bytes, Some(pause)),
            _ => (bytes.len(), None),
        };
        for chunk in bytes.chunks(chunk.max(1)) {
            if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
                time::sleep(pause).await;
            }
            to.write_all(chunk).await?;
        }
        Ok(())
    }

    async fn wait_while_swallowed(&self) {
        let mut fault = self.network.fault.subscribe();
        let passes =
            |fault: &Option<Fault>| !matches!(fault, Some(Fault::Swallow(what)) if what.includes(self.direction));
        let _ = fault.wait_for(passes).await;
        if *self.network.forgets.borrow() != self.forgets {
            future::pending::<()>().await;
        }
    }
}
