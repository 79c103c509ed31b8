use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::HTTPGetAction;
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{outcome, read};
use crate::probes::http;
use crate::probes::prober::{Attempt, ProbeError, State};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that answers each path with bytes, as they are, and closes the connection.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

type Answers = fn(&str) -> String;

/// At the end of an answer: what is missing does not come.
const MORE: &str = "...";

impl Server {
    async fn new(answers: Answers) -> Self {
        Self::start(answers, None).await
    }

    async fn over_tls(answers: Answers) -> Self {
        Self::start(answers, Some(acceptor(&[]))).await
    }

    async fn start(answers: Answers, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&requests);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, tls) = (Arc::clone(&seen), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => answer(stream, answers, &seen).await,
                        Some(tls) => answer(tls.accept(stream).await.unwrap(), answers, &seen).await,
                    }
                });
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    async fn probed(&self, get: Value) -> Attempt {
        self.probed_within(get, PATIENCE).await
    }

    async fn probed_within(&self, mut get: Value, limit: Duration) -> Attempt {
        get["port"] = json!(self.address.port());
        let get: HTTPGetAction = read(get);
        http::probe(&get, "127.0.0.1", self.address.port(), limit, &http::tls()).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

/// TLS with a certificate for another host.
fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["elsewhere".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: Answers,
    seen: &Mutex<Vec<String>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    seen.lock().push(request);
    let answer = answers(&path);
    // Whoever asked may have read enough.
    let _ = stream.write_all(answer.trim_end_matches(MORE).as_bytes()).await;
    if answer.ends_with(MORE) {
        let _ = stream.flush().await;
        std::future::pending::<()>().await;
    }
    let _ = stream.shutdown().await;
}

fn said(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_status_says_how_the_container_is() {
    let server = Server::new(|path| match path {
        "/ok" => said("200 OK", "", "well"),
        "/created" => said("201 Created", "", ""),
        "/cached" => said("304 Not Modified", "", ""),
        "/missing" => said("404 Not Found", "", "secret"),
        _ => said("500 Internal Server Error", "", "secret"),
    })
    .await;
    for (path, expected) in [
        ("/ok", outcome(State::Success, "well")),
        ("/created", outcome(State::Success, "")),
        ("/cached", outcome(State::Warning, "Probe terminated redirects, Response body: ")),
        ("/missing", outcome(State::Failure, "HTTP probe failed with statuscode: 404")),
        ("/other", outcome(State::Failure, "HTTP probe failed with statuscode: 500")),
    ] {
        assert_eq!(server.probed(json!({ "path": path })).await, Ok(expected), "{path}");
    }
}

#[tokio::test]
async fn requests_are_the_kubelets() {
    let server = Server::new(|_| said("200 OK", "", "")).await;
    server.probed(json!({ "path": "/a?b=c" })).await.unwrap();
    let headers = json!([
        { "name": "Host", "value": "web.example" },
        { "name": "X-A", "value": "1" },
        { "name": "X-A", "value": "2" },
        { "name": "Accept", "value": "" },
        { "name": "User-Agent", "value": "mine" },
    ]);
    server.probed(json!({ "path": "/", "httpHeaders": headers })).await.unwrap();
    let requests: Vec<String> = server.requests().iter().map(|request| request.to_lowercase()).collect();
    let address = server.address.to_string();
    assert!(requests[0].starts_with("get /a?b=c http/1.1\r\n"), "{requests:?}");
    for line in [
        &*format!("host: {address}\r\n"),
        "user-agent: kube-probe/1.36\r\n",
        "accept: */*\r\n",
        "connection: close\r\n",
    ] {
        assert!(requests[0].contains(line), "{line} {requests:?}");
    }
    for line in ["host: web.example\r\n", "x-a: 1\r\n", "x-a: 2\r\n", "user-agent: mine\r\n"] {
        assert!(requests[1].contains(line), "{line} {requests:?}");
    }
    assert!(!requests[1].contains("accept:") && !requests[1].contains(&address), "{requests:?}");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let server = Server::new(|path| match path {
        "/near" => said("302 Found", "Location: /ok\r\n", ""),
        "/far" => said("301 Moved Permanently", "Location: http://example.com/ok\r\n", "there"),
        "/query" => said("302 Found", "Location: ok?from=http://elsewhere/\r\n", ""),
        "/odd" => said("302 Found", "Location: ftp://127.0.0.1/ok\r\n", ""),
        "/nowhere" => said("307 Temporary Redirect", "", "where?"),
        "/round" => said("302 Found", "Location: /round\r\n", ""),
        _ => said("200 OK", "", "well"),
    })
    .await;
    let probed = |path: &'static str| server.probed(json!({ "path": path }));
    assert_eq!(probed("/near").await, Ok(outcome(State::Success, "well")));
    let referer = format!("referer: http://{}/near", server.address);
    assert!(server.requests()[1].to_lowercase().contains(&referer), "{:?}", server.requests());
    assert_eq!(probed("/query").await, Ok(outcome(State::Success, "well")));
    assert!(server.requests()[3].starts_with("GET /ok?from=http://elsewhere/ "), "{:?}", server.requests());
    let odd = "Get \"ftp://127.0.0.1/ok\": unsupported protocol scheme \"ftp\"";
    assert_eq!(probed("/odd").await, Ok(outcome(State::Failure, odd)));
    let ended =
        |body: &str| outcome(State::Warning, &format!("Probe terminated redirects, Response body: {body}"));
    assert_eq!(probed("/far").await, Ok(ended("there")));
    assert_eq!(probed("/nowhere").await, Ok(ended("where?")));
    let before = server.requests().len();
    let round = format!("Get \"http://{}/round\": stopped after 10 redirects", server.address);
    assert_eq!(probed("/round").await, Ok(outcome(State::Failure, &round)));
    assert_eq!(server.requests().len() - before, 10);
}

#[tokio::test]
async fn only_the_first_10_kib_of_an_answer_are_read() {
    let server = Server::new(|_| said("200 OK", "", &"x".repeat(20 << 10))).await;
    assert_eq!(server.probed(json!({})).await.unwrap().output, "x".repeat(10 << 10));
}

#[tokio::test]
async fn no_certificate_is_too_bad() {
    let server = Server::over_tls(|_| said("200 OK", "", "well")).await;
    let get = json!({ "scheme": "HTTPS", "path": "/" });
    assert_eq!(server.probed(get).await, Ok(outcome(State::Success, "well")));
}

#[tokio::test]
async fn servers_that_speak_http2_are_asked_by_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor(&[b"h2"]).accept(stream).await.unwrap();
        let service = service_fn(async |request: Request<Incoming>| {
            let said = format!("{:?} {}", request.version(), request.uri());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(said))))
        });
        let served = http2::Builder::new(TokioExecutor::new());
        let _ = served.serve_connection(TokioIo::new(stream), service).await;
    });
    let headers = json!([{ "name": "Host", "value": "web.example" }]);
    let get = read(json!({ "scheme": "HTTPS", "path": "/a?b", "port": port, "httpHeaders": headers }));
    let probed = http::probe(&get, "127.0.0.1", port, PATIENCE, &http::tls()).await;
    assert_eq!(probed, Ok(outcome(State::Success, "HTTP/2.0 https://web.example/a?b")));
}

#[tokio::test]
async fn who_does_not_answer_fails_in_gos_words() {
    let server = Server::new(|_| MORE.to_owned()).await;
    let url = format!("http://{}/", server.address);
    let probed = server.probed_within(json!({ "path": "/" }), Duration::from_millis(50)).await;
    let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(probed, Ok(outcome(State::Failure, &format!("Get {url:?}: {why}"))));
    let server = Server::new(|_| String::new()).await;
    let url = format!("http://{}/", server.address);
    assert_eq!(
        server.probed(json!({ "path": "/" })).await,
        Ok(outcome(State::Failure, &format!("Get {url:?}: EOF")))
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_or_stalls_says_nothing_of_the_container() {
    let server = Server::new(|path| match path {
        "/broken" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nwe".to_owned(),
        "/stalled" => format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nwe{MORE}"),
        "/ill" => format!("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 10\r\n\r\n{MORE}"),
        // Who is sent on need not read why.
        "/near" => "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 10\r\n\r\nthe".to_owned(),
        _ => said("200 OK", "", "well"),
    })
    .await;
    let stalled = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    for (path, limit, why) in [
        ("/broken", PATIENCE, "unexpected EOF"),
        ("/stalled", Duration::from_millis(200), stalled),
        ("/ill", Duration::from_millis(200), stalled),
    ] {
        let probed = server.probed_within(json!({ "path": path }), limit).await;
        assert_eq!(probed, Err(ProbeError::new(State::Failure, why)), "{path}");
    }
    assert_eq!(server.probed(json!({ "path": "/near" })).await, Ok(outcome(State::Success, "well")));
}
