//! Tests of the HTTP port over sockets.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Long enough for anything on one machine.
const SOON: Duration = Duration::from_secs(10);
/// Long enough for a request, on a busy machine as well.
const MOMENT: Duration = Duration::from_secs(1);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
const ROOMY: Limits = Limits { connections: 8, first_request: LONG, next_request: LONG };

struct Port {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Port {
    async fn open(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = Served {
            metrics: Registry::new(),
            disabled_metrics: Arc::new(["secret_total".to_owned()].into()),
            live: Arc::new(Checks::new([])),
            ready: Arc::new(Checks::new([])),
            slis: Slis::new().unwrap(),
            configz: Value::Null,
            controllers: Arc::new(controllers::report::Report::default),
            debug: DebugPages::default(),
        };
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(listen::serve(listener, plain(served), limits, stop.clone()));
        Self { address, stop, tasks }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Opens a connection and sends half of a request.
    async fn half(&self) -> Client {
        let mut client = self.connect().await;
        client.send("GET /livez HTTP/1.1\r\nHost: ").await;
        client
    }
}

struct Client(TcpStream);

impl Client {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// The body of the answer to a probe.
    async fn answer(&mut self) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let read = timeout(SOON, self.0.read_buf(&mut answer)).await.expect("an answer must come");
            assert!(read.unwrap() > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8(answer).unwrap()
    }

    async fn probe(&mut self) {
        self.send("GET /livez HTTP/1.1\r\nHost: steersman\r\n\r\n").await;
        assert!(self.answer().await.starts_with("HTTP/1.1 200 OK\r\n"));
    }

    /// Waits until the server closes the connection.
    async fn closed(mut self) {
        // A reset says the same as the end of the stream.
        assert_eq!(self.0.read(&mut [0; 1024]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn half_requests_keep_no_probe_out() {
    let port = Port::open(ROOMY).await;
    let mut halves = Vec::new();
    for _ in 0..20 {
        halves.push(port.half().await);
    }
    let mut probe = port.connect().await;
    probe.probe().await;
    let mut newest = halves.split_off(13);
    for (nth, oldest) in halves.into_iter().enumerate() {
        timeout(SOON, oldest.closed()).await.unwrap_or_else(|_| panic!("half request {nth} keeps its place"));
    }
    // Seven of them and the probe fill the eight places.
    for half in &mut newest {
        half.send("steersman\r\n\r\n").await;
        half.answer().await;
    }
    probe.probe().await;
}

#[tokio::test]
async fn a_client_that_asks_again_is_not_the_longest_idle() {
    let port = Port::open(ROOMY).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = port.connect().await;
        client.probe().await;
        clients.push(client);
    }
    clients[0].probe().await;
    let mut another = port.connect().await;
    another.probe().await;
    timeout(SOON, clients.remove(1).closed()).await.expect("the longest idle connection leaves");
    clients[0].probe().await;
}

#[tokio::test]
async fn a_client_that_never_ends_its_first_request_is_given_up() {
    let port = Port::open(Limits { first_request: MOMENT, ..ROOMY }).await;
    let mut collector = port.connect().await;
    collector.probe().await;
    timeout(SOON, port.half().await.closed()).await.expect("the connection must be closed");
    // A connection that has sent a request has more time.
    collector.probe().await;
}

#[tokio::test]
async fn a_client_that_asks_no_more_is_given_up() {
    let port = Port::open(Limits { next_request: MOMENT, ..ROOMY }).await;
    let mut client = port.connect().await;
    client.probe().await;
    timeout(SOON, client.closed()).await.expect("the connection must be closed");
}

#[tokio::test]
async fn half_requests_do_not_hold_up_a_stop() {
    let mut port = Port::open(ROOMY).await;
    let halves = [port.half().await, port.half().await];
    port.connect().await.probe().await;
    port.stop.cancel();
    timeout(SOON, port.tasks.join_next()).await.expect("the server must end").unwrap().unwrap();
    drop(halves);
}
