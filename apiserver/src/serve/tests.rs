//! What strangers do to a socket. Most sockets are pipes here, so that time can be paused.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use rustls::ServerConfig;
use steersman_api::ObjectKey;
use steersman_serving::auth::ClientCa;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::*;
use crate::access::{Access, Guard, Signer};
use crate::monitoring::Monitoring;
use crate::rest::{Outbound, Settings};
use crate::store::EncryptionKeys;

const SECOND: Duration = Duration::from_secs(1);
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces?watch=1&timeoutSeconds=1000000";

fn serving() -> Serving {
    let server = ApiServer::new(Settings::default(), Outbound::new(None, None).unwrap());
    Serving { server, tls: None, limits: Some(Limits::default()), drain: CancellationToken::new() }
}

/// A connection and the task that serves it; `room` is how many bytes wait to be read at the most.
fn connect(serving: Serving, room: usize) -> (DuplexStream, JoinSet<()>) {
    let (ours, theirs) = duplex(room);
    let mut task = JoinSet::new();
    task.spawn(serving.connected(theirs, Accepted::at(LOCAL, Arc::default())));
    (ours, task)
}

/// How long it takes until the server is done with a connection.
async fn lasts(mut task: JoinSet<()>) -> Duration {
    let began = Instant::now();
    timeout(SECOND * 36_000, task.join_next()).await.expect("it must end").unwrap().unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn who_sends_nothing_or_half_a_request_is_cut_off() {
    for beginning in ["", "G", "GET / HTTP/1.1\r\nA: b", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let (mut client, task) = connect(serving(), 1024);
        client.write_all(beginning.as_bytes()).await.unwrap();
        let lasted = lasts(task).await;
        assert!(SECOND * 90 <= lasted && lasted <= SECOND * 90 + LEAVING, "{beginning:?}: {lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_trickles_in_is_no_request() {
    let (mut client, task) = connect(serving(), 1024);
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let mut ticking = JoinSet::new();
    ticking.spawn(async move {
        while client.write_all(b"A: b\r\n").await.is_ok() {
            sleep(SECOND * 10).await;
        }
    });
    assert_eq!(lasts(task).await, SECOND * 90 + LEAVING);
}

#[tokio::test(start_paused = true)]
async fn who_is_idle_over_http2_is_told_that_the_connection_ends() {
    let limits = Some(Limits { ping: SECOND * 1000, ..Limits::default() });
    let (mut client, task) = connect(Serving { limits, ..serving() }, 1024);
    let (frame_head, go_away) = (9, 7);
    let no_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&no_settings).await.unwrap();
    let (began, mut told) = (Instant::now(), Vec::new());
    client.read_to_end(&mut told).await.unwrap();
    assert_eq!(began.elapsed(), SECOND * 90 + LEAVING, "it takes no note");
    let mut kinds = Vec::new();
    let mut rest = told.as_slice();
    while let Some(head) = rest.get(..frame_head) {
        kinds.push(head[3]);
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        rest = &rest[frame_head + len..];
    }
    assert!(kinds.contains(&go_away), "{kinds:?}");
    lasts(task).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_in_is_refused_in_time() {
    let (client, task) = connect(serving(), 1024);
    let (mut reads, mut writes) = tokio::io::split(client);
    let head =
        "POST /api/v1/namespaces HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    writes.write_all(head.as_bytes()).await.unwrap();
    let mut ticking = JoinSet::new();
    ticking.spawn(async move {
        while writes.write_all(b" ").await.is_ok() {
            sleep(SECOND).await;
        }
    });
    let (began, mut answer) = (Instant::now(), String::new());
    reads.read_to_string(&mut answer).await.unwrap();
    assert_eq!(began.elapsed(), SECOND * 60);
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains("request did not complete within the allotted timeout"), "{answer}");
    lasts(task).await;
}

/// A request over HTTP/2; whoever gets the answer may read a little of it at once, and more as it is read.
async fn get(client: impl Stream, path: &str) -> (http2::SendRequest<Empty<Bytes>>, Response<Incoming>) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(100);
    let (mut sender, driver) = builder.handshake(TokioIo::new(client)).await.unwrap();
    let request = Request::get(path).body(Empty::new()).unwrap();
    let answer = tokio::select! {
        answer = sender.send_request(request) => answer.unwrap(),
        _ = driver => panic!("it must go on"),
    };
    assert_eq!(answer.status(), StatusCode::OK);
    (sender, answer)
}

/// Makes the ConfigMaps `a`, `b` and `c`, each larger than what waits on its way to a client.
async fn make_maps(server: &ApiServer) {
    for name in ["a", "b", "c"] {
        let map = serde_json::json!({"metadata": {"name": name}, "data": {"k": "v".repeat(500_000)}});
        let request = Request::post(MAPS).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(map.to_string()))).unwrap();
        let made = read_and_answer(server, request).await.unwrap();
        assert_eq!(made.status(), StatusCode::CREATED);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_is_given_up() {
    let serving = serving();
    make_maps(&serving.server).await;
    let (client, task) = connect(serving, 1024);
    let _unread = get(client, MAPS).await;
    assert_eq!(lasts(task).await, SECOND * 60);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_for_as_long_as_somebody_listens() {
    let (client, _task) = connect(serving(), 1024);
    let (_sender, answer) = get(client, WATCH).await;
    let mut events = answer.into_body();
    // Those that are there come at once; then nothing is to be told for hours.
    while let Ok(event) = timeout(SECOND * 36_000, events.frame()).await {
        event.expect("it must go on").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_reads_is_given_up_and_no_other_request_of_its_connection() {
    let serving = serving();
    make_maps(&serving.server).await;
    let store = Arc::clone(serving.server.store());
    let (client, _task) = connect(serving, 1024);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(100);
    let (mut sender, driver) = builder.handshake(TokioIo::new(client)).await.unwrap();
    let mut driving = JoinSet::new();
    driving.spawn(driver);
    let mut ask = async |path: &str| {
        let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
        sender.send_request(request).await.unwrap().into_body()
    };
    let mut listened_to = ask(WATCH).await;
    let mut unread = ask(&format!("{MAPS}?watch=1&timeoutSeconds=1000000")).await;
    // The last that the watch is to tell is gone meanwhile, and forgotten.
    let last = store.get(&"configmaps".into(), &ObjectKey::new("default", "c")).unwrap();
    store.remove(&last).unwrap();
    store.forget(Instant::now() + SECOND);
    let last = {
        let weak = Arc::downgrade(&last);
        drop(last);
        weak
    };
    assert!(last.upgrade().is_some(), "the watch must have it to tell, or nothing is shown");
    let mut events = JoinSet::new();
    events.spawn(async move { while listened_to.frame().await.expect("it must go on").is_ok() {} });
    sleep(SECOND * 61).await;
    assert!(
        last.upgrade().is_none(),
        "a watch that nobody has read for a minute keeps an object that is gone"
    );
    let broken = async { while unread.frame().await.expect("it must not end cleanly").is_ok() {} };
    timeout(SECOND, broken).await.expect("its client must be told that it was given up");
    assert!(events.try_join_next().is_none(), "another watch of the connection must go on");
    ask("/healthz").await.frame().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_dead_is_found_out() {
    let (mut near, task) = connect(serving(), 1024);
    let (client, mut far) = duplex(1024);
    let mut wire = pin!(tokio::io::copy_bidirectional(&mut far, &mut near));
    let _watch = tokio::select! {
        watch = get(client, WATCH) => watch,
        _ = wire.as_mut() => panic!("it must go on"),
    };
    // From here on nobody carries anything: no ping is answered.
    assert_eq!(lasts(task).await, SECOND * 50);
}

/// Nobody gets as far as to ask for one.
#[derive(Debug)]
struct NoCertificate;

impl rustls::server::ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_its_time() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_no_client_auth().with_cert_resolver(Arc::new(NoCertificate));
    let authority = rcgen::generate_simple_self_signed(vec!["authority".to_owned()]).unwrap().cert.pem();
    let client_ca = Arc::new(ClientCa::from_pem(authority.as_bytes()).unwrap());
    let tls = Tls { config: Arc::new(tls), client_ca };
    let (mut client, task) = connect(Serving { tls: Some(tls), ..serving() }, 1024);
    client.write_all(&[0x16, 3, 1]).await.unwrap();
    assert_eq!(lasts(task).await, SECOND * 32);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_answered_when_the_server_stops() {
    let serving = serving();
    let drain = serving.drain.clone();
    let (mut client, task) = connect(serving, 1024);
    let head =
        "POST /api/v1/namespaces HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    sleep(SECOND).await;
    drain.cancel();
    sleep(SECOND).await;
    client.write_all(b"{\"metadata\": {\"name\": \"a\"}}").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(lasts(task).await, Duration::ZERO, "and no more is asked");
}

/// One request over a connection that stays.
async fn ask(stream: &mut TcpStream) -> String {
    ask_with(stream, "accept: */*").await
}

async fn ask_with(stream: &mut TcpStream, header: &str) -> String {
    let request = format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n");
    // A connection that the server has closed gives no answer.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = vec![0; 1024];
    let len = stream.read(&mut answer).await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

/// A server that lets in those only whom rules allow it, and the administrator by the token `secret`.
fn guarded(folder: &std::path::Path) -> ApiServer {
    let opened = ApiServer::opening(folder, EncryptionKeys::default()).unwrap();
    let access = Access::Guarded(Arc::new(Guard::new("secret")));
    let outbound = Outbound::new(None, None).unwrap();
    ApiServer::open(
        Settings::default(),
        folder,
        opened,
        access,
        Signer::fleeting(),
        outbound,
        Monitoring::without_audit(),
    )
    .unwrap()
}

/// Serves at most so many connections.
async fn limited(server: ApiServer, connections: usize) -> Listening {
    let manner = Manner { limits: Some(Limits { connections, ..Limits::default() }), tls: None };
    Listening::open(server, (LOCAL, 0).into(), manner).await.unwrap()
}

/// Reads until the server closes the connection.
async fn closed(stream: &mut TcpStream) {
    let end = stream.read(&mut [0; 8]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_the_oldest_stranger() {
    let folder = tempfile::tempdir().unwrap();
    let listening = limited(guarded(folder.path()), 3).await;
    let connect = || TcpStream::connect(listening.address());
    let admin = "authorization: Bearer secret";
    let mut known = connect().await.unwrap();
    assert!(ask_with(&mut known, admin).await.starts_with("HTTP/1.1 200 "));
    let mut oldest = connect().await.unwrap();
    assert!(ask(&mut oldest).await.starts_with("HTTP/1.1 200 "));
    let mut other = connect().await.unwrap();
    for stream in [&mut other, &mut oldest] {
        assert!(ask(stream).await.starts_with("HTTP/1.1 200 "));
    }
    let mut newcomer = connect().await.unwrap();
    let answer = ask_with(&mut newcomer, admin).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "a newcomer was turned away for a stranger: {answer:?}");
    closed(&mut oldest).await;
    for stream in [&mut known, &mut other] {
        assert!(ask(stream).await.starts_with("HTTP/1.1 200 "));
    }
    // An authenticated client's connection stays, even if it has been idle for longer.
    let mut next = connect().await.unwrap();
    assert!(ask_with(&mut next, admin).await.starts_with("HTTP/1.1 200 "));
    closed(&mut other).await;
    for stream in [&mut known, &mut newcomer, &mut next] {
        assert!(ask(stream).await.starts_with("HTTP/1.1 200 "));
    }
    listening.close().await;
}

#[tokio::test]
async fn a_flood_from_one_address_displaces_no_stranger_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let listening = limited(guarded(folder.path()), 4).await;
    let connect = async |from: [u8; 4]| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(listening.address()).await.unwrap()
    };
    // Idle longest, and not authenticated yet.
    let mut stranger = connect([127, 0, 0, 2]).await;
    assert!(ask(&mut stranger).await.starts_with("HTTP/1.1 200 "));
    let mut flood = Vec::new();
    for _ in 0..8 {
        let mut one = connect([127, 0, 0, 1]).await;
        assert!(ask(&mut one).await.starts_with("HTTP/1.1 200 "));
        flood.push(one);
    }
    assert!(ask(&mut stranger).await.starts_with("HTTP/1.1 200 "), "the flood displaced a stranger");
    // A newcomer from elsewhere gets in as well.
    let mut newcomer = connect([127, 0, 0, 3]).await;
    assert!(ask(&mut newcomer).await.starts_with("HTTP/1.1 200 "));
    assert!(ask(&mut stranger).await.starts_with("HTTP/1.1 200 "));
    for (n, one) in flood.iter_mut().enumerate() {
        let is_open = ask(one).await.starts_with("HTTP/1.1 200 ");
        assert_eq!(is_open, n >= 6, "{n}: the oldest of the flood must go first");
    }
    listening.close().await;
}

#[tokio::test]
async fn one_connection_too_many_closes_the_one_that_has_been_idle_longest() {
    let listening = limited(serving().server, 2).await;
    let connect = || TcpStream::connect(listening.address());
    let (mut first, mut second) = (connect().await.unwrap(), connect().await.unwrap());
    for stream in [&mut first, &mut second] {
        assert!(ask(stream).await.starts_with("HTTP/1.1 200 "));
    }
    let mut third = connect().await.unwrap();
    assert!(ask(&mut third).await.starts_with("HTTP/1.1 200 "));
    closed(&mut first).await;
    assert!(ask(&mut second).await.starts_with("HTTP/1.1 200 "));
    listening.close().await;
}

#[tokio::test]
async fn one_connection_too_many_waits_while_all_others_have_requests_unless_half_are_of_one_origin() {
    let listening = limited(serving().server, 2).await;
    let connect = async |from: [u8; 4]| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(listening.address()).await.unwrap()
    };
    let watch = async |from| {
        let mut watching = connect(from).await;
        let watch = b"GET /api/v1/namespaces?watch=true HTTP/1.1\r\nhost: a\r\n\r\n";
        watching.write_all(watch).await.unwrap();
        let mut head = [0; 12];
        watching.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        watching
    };
    let (one, mut other) = (watch([127, 0, 0, 1]).await, watch([127, 0, 0, 2]).await);
    let mut next = connect([127, 0, 0, 2]).await;
    {
        let mut answer = pin!(ask(&mut next));
        timeout(SECOND / 2, answer.as_mut()).await.expect_err("there is no room");
        drop(one);
        // The server notices the end of the watch a little later.
        let answer = timeout(SECOND * 10, answer).await.expect("there must be room again");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(next);
    // Both are from one address now.
    let _watching = watch([127, 0, 0, 2]).await;
    let mut last = connect([127, 0, 0, 3]).await;
    assert!(ask(&mut last).await.starts_with("HTTP/1.1 200 "));
    // The rest of its first events, then the end.
    let mut rest = Vec::new();
    timeout(SECOND * 10, other.read_to_end(&mut rest)).await.expect("the oldest must be closed").ok();
    listening.close().await;
}
