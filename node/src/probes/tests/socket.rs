use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::outcome;
use crate::probes::prober::State;
use crate::probes::tcp;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_port_that_takes_connections_is_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(tcp::probe("127.0.0.1", port, PATIENCE).await, Ok(outcome(State::Success, "")));
}

#[tokio::test]
async fn one_that_does_not_fails_in_gos_words() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(tcp::probe("127.0.0.1", port, PATIENCE).await, Ok(outcome(State::Failure, &refused)));
}

#[tokio::test]
async fn a_probe_ends_its_connection_without_an_error_for_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tcp::probe("127.0.0.1", port, PATIENCE).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    assert_eq!(accepted.read(&mut [0; 1]).await.unwrap(), 0);
}
