//! Those who want no good, or know no better.

use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::server::tls::MinVersion;

async fn healthy(node: &Node) {
    assert_eq!(node.ask(request("GET", "/healthz", "")).await, (200, "ok".into()));
}

/// What bytes over TLS are answered with until the connection ends.
async fn raw(node: &Node, bytes: &[u8]) -> String {
    let mut stream = node.connect(client_config(None)).await.unwrap();
    let sent = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it must end");
    assert!(sent.is_ok() || read.is_err() || !answer.is_empty());
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn one_malformed_request_hurts_nobody() {
    let node = Node::start().await;
    let mut neighbour = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    assert!(raw(&node, b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    assert!(raw(&node, b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(2 << 20));
    let answer = raw(&node, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let mut long = request("GET", &format!("/pods?{}", "x".repeat(60_000)), "good");
    long.headers_mut().insert("x", "y".repeat(150_000).parse().unwrap());
    let identity = node.authority.client("alice", "team");
    assert_eq!(node.ask_as(client_config(Some(identity)), long).await.0, 200, "as long as one may be");
    let many: String = (0..5000).map(|n| format!("x{n}: y\r\n")).collect();
    let answer = raw(&node, format!("GET /healthz HTTP/1.1\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // Not TLS at all.
    let mut plain = TcpStream::connect(node.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
    plain.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(neighbour.ask(request("GET", "/healthz", "")).await, (200, "ok".into()));
    healthy(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn strangers_are_answered_once_and_their_bodies_are_not_waited_for() {
    let node = Node::start().await;
    let request = "POST /exec/ns/p/c HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
    let answer = raw(&node, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close\r\n"), "{answer}");
    healthy(&node).await;
}

/// A connection on which alice has been let in.
async fn known(node: &Node) -> Client {
    let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    assert_eq!(client.ask(request("GET", "/pods", "good")).await.0, 200);
    client
}

/// A connection on which alice follows a log, after its first line.
async fn following(node: &Node) -> (Client, Response<Incoming>) {
    let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    let mut answer = client.send(request("GET", "/containerLogs/ns/p/c?follow=true", "good")).await;
    next_line(&mut answer).await;
    (client, answer)
}

async fn next_line(answer: &mut Response<Incoming>) {
    let frame = tokio::time::timeout(PATIENCE, answer.frame()).await.expect("a line must come");
    assert!(frame.unwrap().unwrap().is_data());
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_while_all_of_their_address_have_requests() {
    let node = Node::start_with(|parts, _| parts.max_connections = 2).await;
    log(&node, 1, "one");
    let mut busy = [following(&node).await, following(&node).await];
    node.connect(client_config(None)).await.map(drop).expect_err("there must be no room");
    log(&node, 2, "two");
    for (_, answer) in &mut busy {
        next_line(answer).await;
    }
    node.runtime.exit_container(&node.container_id, 0, None);
    for (_, answer) in &mut busy {
        tokio::time::timeout(PATIENCE, answer.collect()).await.expect("the log must end").unwrap();
    }
    tokio::time::timeout(PATIENCE, healthy(&node)).await.expect("there is room now");
}

#[tokio::test]
async fn idle_connections_of_known_clients_make_room_where_there_are_no_strangers() {
    let node = Node::start_with(|parts, _| parts.max_connections = 2).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(tokio::time::timeout(PATIENCE, known(&node)).await.expect("there must be room"));
    }
    for client in &mut clients[2..] {
        assert_eq!(client.ask(request("GET", "/pods", "good")).await.0, 200, "the others stay");
    }
}

#[tokio::test]
async fn strangers_make_room_for_those_who_come() {
    let node = Node::start_with(|parts, _| parts.max_connections = 3).await;
    let mut known = known(&node).await;
    let mut strangers = Vec::new();
    for _ in 0..2 {
        strangers.push(Client::over(node.connect(client_config(None)).await.unwrap()).await);
    }
    // However busy they are.
    let asking = async {
        loop {
            for stranger in &mut strangers {
                match stranger.sender.send_request(request("GET", "/healthz", "")).await {
                    Ok(answer) => _ = answer.into_body().collect().await,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        }
    };
    let comes = async {
        for _ in 0..3 {
            healthy(&node).await;
        }
    };
    tokio::select! {
        done = tokio::time::timeout(PATIENCE, comes) => done.expect("there must be room"),
        () = asking => {}
    }
    assert_eq!(known.ask(request("GET", "/healthz", "")).await.0, 200, "others stay");
    node.stop().await;
}

#[tokio::test]
async fn who_may_do_nothing_takes_nobodys_place() {
    let node = Node::start_with(|parts, auth| (parts.max_connections, auth.anonymous) = (3, true)).await;
    node.reviewer.allow("system:anonymous", "metrics");
    let mut places = Vec::new();
    for (token, path, status) in [("other", "/pods", 403), ("", "/metrics", 200), ("other", "/metrics", 403)]
    {
        let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
        assert_eq!(client.ask(request("GET", path, token)).await.0, status);
        places.push(client);
    }
    for _ in 0..3 {
        places.push(tokio::time::timeout(PATIENCE, known(&node)).await.expect("there must be room"));
    }
}

#[tokio::test]
async fn http_2_is_spoken_with_those_who_ask_for_it() {
    let node = Node::start().await;
    let mut config = client_config(None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = node.connect(config).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.await;
    });
    for (path, token, status) in [
        ("/healthz", "", 200),
        ("/pods", "", 401),
        ("/pods", "good", 200),
        ("/exec/ns/p/c?output=1", "good", 500),
    ] {
        let request = Request::builder()
            .uri(format!("https://node-1{path}"))
            .header("authorization", format!("Bearer {token}"))
            .body(Full::default())
            .unwrap();
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }
    node.stop().await;
}

#[tokio::test]
async fn old_tls_is_refused_where_it_is_to_be() {
    let node = Node::start_with(|parts, _| parts.tls.min_version = MinVersion::Tls13).await;
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
    assert!(node.connect(config).await.unwrap_err().to_string().contains("ProtocolVersion"));
    healthy(&node).await;
}

/// The values of the settings that the server begins HTTP/2 with, by the numbers of RFC 9113.
async fn settings(node: &Node, identity: Option<Identity>) -> BTreeMap<u16, u32> {
    let mut config = client_config(identity);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut stream = node.connect(config).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame must be SETTINGS");
    let mut body = vec![0; usize::from(head[2])];
    stream.read_exact(&mut body).await.unwrap();
    let (settings, []) = body.as_chunks() else { panic!("a setting has six bytes") };
    settings
        .iter()
        .map(|[a, b, c, d, e, f]| (u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*c, *d, *e, *f])))
        .collect()
}

#[tokio::test]
async fn only_a_verified_client_certificate_gives_room_for_many_requests_and_long_ones() {
    let node = Node::start().await;
    let verified = || Some(node.authority.client("carol", "team"));
    let foreign = || Some(Authority::new().client("carol", "team"));
    let expired = || Some(node.authority.expired("carol"));
    const STREAMS: u16 = 3;
    const HEAD: u16 = 6;
    const WINDOW: u16 = 4;
    for (identity, streams, head) in [
        (verified(), 250, 256 << 10),
        (None, 8, 16 << 10),
        (foreign(), 8, 16 << 10),
        (expired(), 8, 16 << 10),
    ] {
        let settings = settings(&node, identity).await;
        assert_eq!((settings[&STREAMS], settings[&HEAD]), (streams, head));
        assert_eq!(settings.get(&WINDOW).copied().unwrap_or(65_535), 65_535, "bodies are not read");
    }
    for (identity, length, fits) in
        [(verified(), 200_000, true), (None, 10_000, true), (None, 20_000, false), (foreign(), 20_000, false)]
    {
        let mut client = Client::over(node.connect(client_config(identity)).await.unwrap()).await;
        let mut request = request("GET", "/healthz", "");
        request.headers_mut().insert("x", "y".repeat(length).parse().unwrap());
        match tokio::time::timeout(PATIENCE, client.sender.send_request(request)).await.unwrap() {
            Ok(answer) => assert_eq!(answer.status(), if fits { 200 } else { 431 }, "{length}"),
            // The server closed while the client was sending.
            Err(error) => assert!(!fits, "{length}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_long_or_large_chain_of_certificates_is_refused_in_the_handshake() {
    let node = Node::start().await;
    let stranger = Authority::new();
    for (length, size, answer) in [(4, 0, Some(401)), (5, 0, None), (1, 15_000, Some(401)), (1, 17_000, None)]
    {
        let (certificate, key) = stranger.client("carol", &"x".repeat(size));
        let mut chain = vec![certificate];
        chain.extend((1..length).map(|_| Authority::new().certificate()));
        let stream = node.connect(client_config_with_chain(chain, key)).await;
        let answered = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream.ok()?)).await.ok()?;
            let mut tasks = JoinSet::new();
            tasks.spawn(connection);
            Some(sender.send_request(request("GET", "/pods", "")).await.ok()?.status().as_u16())
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await.expect("it must be over soon");
        assert_eq!(answered, answer, "{length} {size}");
    }
    healthy(&node).await;
}

#[tokio::test]
async fn reviews_beyond_those_that_may_wait_are_refused_at_once() {
    let slow = Arc::new(Slow::default());
    let node = Node::start_with(|parts, auth| {
        parts.max_connections = 200;
        auth.tokens = Some(Tokens { reviewer: slow.clone(), ttl: Duration::ZERO });
    })
    .await;
    let mut waiting = JoinSet::new();
    for n in 0..16 + 64 {
        let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
        waiting.spawn(async move { client.ask(request("GET", "/pods", &format!("token-{n}"))).await.0 });
    }
    let refused = async {
        loop {
            let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
            // Waits itself as long as some of those before are on their way.
            let asked = client.send(request("GET", "/pods", "one-more"));
            if let Ok(answer) = tokio::time::timeout(Duration::from_millis(200), asked).await {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await.expect("nobody may wait in a full queue");
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    slow.go.add_permits(1000);
    let answers: Vec<u16> = waiting.join_all().await;
    assert!(answers.iter().all(|status| matches!(status, 401 | 429)), "{answers:?}");
    assert!(answers.contains(&401), "those under way are answered");
    assert_eq!(node.ask(request("GET", "/pods", "one-more")).await.0, 401);
}

/// Knows nobody, and takes its time to say so.
struct Slow {
    go: tokio::sync::Semaphore,
}

impl Default for Slow {
    fn default() -> Self {
        Self { go: tokio::sync::Semaphore::new(0) }
    }
}

#[async_trait]
impl TokenReviewer for Slow {
    async fn review(&self, _: &str) -> Result<Option<User>, ReviewError> {
        self.go.acquire().await.unwrap().forget();
        Ok(None)
    }
}
