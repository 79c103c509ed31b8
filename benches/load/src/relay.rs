//! A network that a script can cut: a relay of TCP connections, which passes nothing while its process is stopped.

use std::io;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;

/// Relays each connection that comes in at `at` to the server at `to`, for ever.
///
/// # Errors
/// The address can't be bound.
pub(crate) async fn run(at: &str, to: &str) -> io::Result<()> {
    let listener = TcpListener::bind(at).await?;
    let mut connections = JoinSet::new();
    crate::report("ready");
    loop {
        select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(relay(client, to.to_owned()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection until either side ends it.
async fn relay(mut client: TcpStream, to: String) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    // The end of either side ends the other one; how it ended does not matter.
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
