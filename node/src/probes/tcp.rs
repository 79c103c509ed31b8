//! Probes that open a connection.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::prober::{Attempt, Outcome, State};
use crate::container::port;

/// Opens a connection and closes it.
pub(super) async fn probe(host: &str, port: u16, limit: Duration) -> Attempt {
    let late = || format!("dial tcp {}: i/o timeout", port::join(host, port));
    Ok(match within(limit, connect(host, port), late).await {
        Ok(_) => Outcome::new(State::Success, ""),
        Err(why) => Outcome::new(State::Failure, why),
    })
}

async fn within<T>(
    limit: Duration,
    connecting: impl Future<Output = Result<T, String>>,
    late: impl FnOnce() -> String,
) -> Result<T, String> {
    timeout(limit, connecting).await.unwrap_or_else(|_| Err(late()))
}

/// Opens a connection.
///
/// Does not set `SO_LINGER`. Upstream sets it to one second, for fewer connections in TIME_WAIT. On Linux a connection stays
/// in TIME_WAIT for a minute either way, but `close` would block its thread until the server acknowledges, for up to that
/// second. Zero seconds would leave no TIME_WAIT, but the server would read "connection reset" where it now reads the end.
///
/// # Errors
/// In the words of Go, which events have.
pub(super) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((host, port)).await;
    let stream =
        stream.map_err(|error| format!("dial tcp {}: {}", port::join(host, port), dialled(&error)))?;
    // A probe is one small request: nothing is gained by waiting for more of it.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

fn dialled(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_that_is_up_fails() {
        let connecting = std::future::pending::<Result<(), String>>();
        let found = within(Duration::from_secs(1), connecting, || "late".to_owned()).await;
        assert_eq!(found, Err("late".to_owned()));
    }
}
