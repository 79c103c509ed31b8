//! Hooks by HTTP, against servers on the loopback; the other kinds are shown where containers are started and stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::cri::v1;
use crate::events::testing::Kept;
use crate::kuberuntime::labels;
use crate::runtime::simulated::{PREFIX, SimulatedConfig, SimulatedRuntime};

/// Answers every request, and keeps what was asked.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Server {
    /// `answer` says what is answered to the request of that number, from 0.
    async fn start(tls: Option<TlsAcceptor>, answer: fn(usize) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let mut task = JoinSet::new();
        task.spawn({
            let asked = Arc::clone(&asked);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    match &tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &asked, answer).await;
                            }
                        }
                        None => serve(stream, &asked, answer).await,
                    }
                }
            }
        });
        Self { address, asked, _task: task }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    asked: &Mutex<Vec<String>>,
    answer: fn(usize) -> String,
) {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => request.extend(&part[..read]),
            _ => return,
        }
        if !request.is_ascii() || request.first().is_some_and(|first| !first.is_ascii_alphabetic()) {
            // Somebody speaks TLS here; the words are a Go server's.
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent TLS\n").await;
            return;
        }
    }
    let number = {
        let mut asked = asked.lock();
        asked.push(String::from_utf8_lossy(&request).into_owned());
        asked.len() - 1
    };
    let _ = stream.write_all(answer(number).as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn fine(_number: usize) -> String {
    "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()
}

fn self_signed() -> TlsAcceptor {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["elsewhere".into()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

struct World {
    runner: HookRunner,
    runtime: SimulatedRuntime,
    events: Arc<Kept>,
    metrics: Metrics,
}

impl World {
    fn new() -> Self {
        let runtime = SimulatedRuntime::new(SimulatedConfig::default());
        let (events, metrics) = (Arc::new(Kept::default()), Metrics::new().unwrap());
        let runner = HookRunner::new(Arc::new(runtime.clone()), events.clone(), metrics.clone());
        Self { runner, runtime, events, metrics }
    }

    async fn get(&self, request: Value) -> Result<(), String> {
        let hook: LifecycleHandler = serde_json::from_value(json!({"httpGet": request})).unwrap();
        let container: Container =
            serde_json::from_value(json!({"name": "app", "ports": [{"name": "admin", "containerPort": 0}]}))
                .unwrap();
        let id = ContainerId::new("test", "c");
        self.runner.run(&id, &pod(), &container, &hook).await.map_err(|error| error.0)
    }
}

fn pod() -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}})).unwrap()
}

fn to(server: &Server, more: Value) -> Value {
    let mut request = json!({"host": "127.0.0.1", "port": server.address.port(), "path": "/bye"});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

#[tokio::test]
async fn a_request_is_the_one_that_the_hook_describes() {
    let (world, server) = (World::new(), Server::start(None, fine).await);
    let headers = json!([
        {"name": "X-Two", "value": "1"}, {"name": "X-Two", "value": "2"}, {"name": "Host", "value": "shop.example"},
        {"name": "Accept", "value": ""}, {"name": "User-Agent", "value": "mine"},
    ]);
    world.get(to(&server, json!({}))).await.unwrap();
    world.get(to(&server, json!({"path": "a b?x=1&y=%20#z", "httpHeaders": headers}))).await.unwrap();
    let asked = server.asked();
    let lines = |request: &str| request.trim_end().split("\r\n").map(str::to_owned).collect::<Vec<_>>();
    let plain = lines(&asked[0]);
    assert_eq!(plain[0], "GET /bye HTTP/1.1");
    assert!(plain.contains(&"user-agent: kube-lifecycle/1.36".to_owned()), "{plain:?}");
    assert!(plain.contains(&"accept: */*".to_owned()), "{plain:?}");
    assert!(plain.contains(&format!("host: 127.0.0.1:{}", server.address.port())), "{plain:?}");
    let full = lines(&asked[1]);
    assert_eq!(full[0], "GET /a%20b?x=1&y=%20 HTTP/1.1");
    for line in ["x-two: 1", "x-two: 2", "host: shop.example", "user-agent: mine"] {
        assert!(full.contains(&line.to_owned()), "{line} in {full:?}");
    }
    assert!(!full.iter().any(|line| line.starts_with("accept")), "{full:?}");
}

#[tokio::test]
async fn without_a_host_the_pod_itself_is_asked() {
    let (world, server) = (World::new(), Server::start(None, fine).await);
    let request = json!({"port": server.address.port().to_string(), "path": "/"});
    let failed = world.get(request.clone()).await.unwrap_err();
    assert_eq!(
        failed,
        "HTTP lifecycle hook (/) for Container \"app\" in Pod \"web_shop(u-1)\" failed - error: \
         failed to find networking container: it has no address"
    );
    let sandbox = v1::PodSandboxConfig {
        labels: labels::new_pod_labels(&pod()),
        annotations: [(format!("{PREFIX}sandbox-ip"), "127.0.0.1".to_owned())].into(),
        ..Default::default()
    };
    world.runtime.run_pod_sandbox(&sandbox, "").await.unwrap();
    world.get(request).await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn any_answer_will_do_and_none_will_not() {
    let bad = |_| "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned();
    let (world, server) = (World::new(), Server::start(None, bad).await);
    world.get(to(&server, json!({}))).await.unwrap();
    // A port that nobody has any more.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let failed = world.get(json!({"host": "127.0.0.1", "port": port})).await.unwrap_err();
    assert!(failed.contains("failed - error: Get \"http://127.0.0.1:"), "{failed}");
    assert!(failed.contains("refused"), "{failed}");
}

#[tokio::test]
async fn ports_that_are_none_are_refused() {
    let world = World::new();
    for (port, problem) in [
        (json!("admin"), "invalid port number: 0"),
        (json!("unknown"), "strconv.Atoi: parsing \"unknown\": invalid syntax"),
        (json!(65536), "invalid port number: 65536"),
        (json!(-1), "invalid port number: -1"),
    ] {
        let failed = world.get(json!({"host": "127.0.0.1", "port": port})).await.unwrap_err();
        assert!(failed.ends_with(problem), "{failed}");
    }
}

#[tokio::test]
async fn a_redirect_is_followed_on_the_same_host_alone() {
    let answer = |number| match number {
        0 => "HTTP/1.1 302 Found\r\nlocation: next?a=http://b\r\ncontent-length: 0\r\n\r\n".to_owned(),
        1 => "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
        _ => "HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    let (world, server) = (World::new(), Server::start(None, answer).await);
    world.get(to(&server, json!({}))).await.unwrap();
    let first_lines = |asked: Vec<String>| -> Vec<String> {
        asked.iter().filter_map(|request| request.lines().next().map(str::to_owned)).collect()
    };
    assert_eq!(first_lines(server.asked()), ["GET /bye HTTP/1.1", "GET /next?a=http://b HTTP/1.1"]);
    let endless = world.get(to(&server, json!({}))).await.unwrap_err();
    assert!(endless.ends_with("stopped after 10 redirects"), "{endless}");
    assert_eq!(server.asked().len(), 12);
}

#[tokio::test]
async fn https_is_spoken_with_whoever_is_there() {
    let (world, server) = (World::new(), Server::start(Some(self_signed()), fine).await);
    world.get(to(&server, json!({"scheme": "HTTPS"}))).await.unwrap();
    assert_eq!(server.asked().len(), 1);
    assert_eq!(world.events.all(), []);
}

#[tokio::test]
async fn who_answers_https_in_http_is_asked_again_in_http_without_credentials() {
    let (world, server) = (World::new(), Server::start(None, fine).await);
    let headers = json!([{"name": "Authorization", "value": "Bearer x"}, {"name": "X-Kept", "value": "1"}]);
    world.get(to(&server, json!({"scheme": "HTTPS", "httpHeaders": headers}))).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("x-kept: 1") && !asked[0].contains("authorization"), "{asked:?}");
    let said = world.events.all();
    let text = format!(
        "request to HTTPS lifecycle hook 127.0.0.1:{} got HTTP response, retry with HTTP succeeded",
        server.address.port()
    );
    assert_eq!((said[0].reason, said[0].message.as_str()), ("LifecycleHTTPFallback", text.as_str()));
    assert_eq!(world.metrics.http_fallbacks.get(), 1);
}
