//! Options of the sockets.

use std::time::Duration;

use rustix::io::Result;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay};
use tokio::net::TcpStream;

/// After how long without a packet the system probes the other end, and how often (as Go's listeners and dialers).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Makes the system notice when the other end is gone, and send data without delay.
///
/// # Errors
/// If the connection has ended.
pub fn prepare(stream: &TcpStream) -> Result<()> {
    set_tcp_nodelay(stream, true)?;
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEP_ALIVE)?;
    set_tcp_keepintvl(stream, KEEP_ALIVE)
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{socket_keepalive, tcp_keepidle, tcp_keepintvl, tcp_nodelay};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn who_is_gone_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream).unwrap();
        assert!(tcp_nodelay(&stream).unwrap() && socket_keepalive(&stream).unwrap());
        assert_eq!(
            (tcp_keepidle(&stream).unwrap(), tcp_keepintvl(&stream).unwrap()),
            (KEEP_ALIVE, KEEP_ALIVE)
        );
    }
}
