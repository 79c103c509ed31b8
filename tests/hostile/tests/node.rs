//! What a node's server reads of others: of a client that may do everything, requests for all that it offers, broken, as bytes over
//! TLS; of a container runtime, answers that are good protobuf and wrong in all else.
//!
//! Each test runs for a second, or for as long as `HOSTILE_SECONDS` says. A broken request takes a connection of its own, so there
//! are fewer than a hundred in a second.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it did"
)]

#[allow(dead_code, reason = "the test of the whole agent uses all of it")]
#[path = "runtime/answers.rs"]
mod answers;
#[path = "runtime/hostile_runtime.rs"]
mod hostile_runtime;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hostile::{Effort, MEMORY, Surface, panics, protobuf};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::client::ConfigExt;
use parking_lot::{Mutex, MutexGuard};
use peak_alloc::PeakAlloc;
use prometheus::Registry;
use prost::Message as _;
use serde_json::{Value, json};
use steersman_api::Uid;
use steersman_node::cri::v1;
use steersman_node::runtime::RuntimeService;
use steersman_node::runtime::simulated::{Logs, SimulatedConfig, SimulatedRuntime};
use steersman_node::server::auth::{Auth, AuthConfig, Authorization};
use steersman_node::server::tls::{SelfSigned, ServingCertificate, Spoken, serving_certificate_files};
use steersman_node::server::{Handlers, Host, Metrics, NodeUsage, Parts, bind, serve};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use self::answers::Answers;
use self::hostile_runtime::HostileRuntime;

#[global_allocator]
static ALLOCATOR: PeakAlloc = MEMORY;

/// The connection's buffers, on both sides, are in it.
const CEILING: usize = 2 << 20;
/// An answer that is not there by then, such as one to half a request, or goes on, such as a log that is followed, is left.
const PATIENCE: Duration = Duration::from_millis(100);

/// An agent with one pod, `ns/p`, in whose container `c` something runs.
struct Agent(Arc<Pod>);

impl Host for Agent {
    fn pods(&self) -> Vec<Arc<Pod>> {
        vec![Arc::clone(&self.0)]
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        (namespace == "ns" && name == "p").then(|| Arc::clone(&self.0))
    }

    fn pod_status(&self, _: &Pod) -> Option<PodStatus> {
        None
    }

    fn translate_pod_uid(&self, uid: &Uid) -> Uid {
        uid.clone()
    }

    fn sync_loop_health(&self) -> Result<(), String> {
        Ok(())
    }

    fn node_usage(&self) -> Result<NodeUsage, String> {
        Ok(NodeUsage { cpu: 1_000_000_000, working_set: 2048, swap: 0, at: jiff::Timestamp::UNIX_EPOCH })
    }

    fn configuration(&self) -> Value {
        json!({ "kind": "KubeletConfiguration" })
    }
}

/// A runtime in which the container runs, and the container's id.
async fn runtime(folder: &TempDir) -> (SimulatedRuntime, String) {
    let runtime = SimulatedRuntime::new(SimulatedConfig {
        images: vec!["app".into()],
        logs: Logs::Written,
        ..SimulatedConfig::default()
    });
    let metadata =
        v1::PodSandboxMetadata { name: "p".into(), namespace: "ns".into(), uid: "u".into(), attempt: 0 };
    let labels = [
        ("io.kubernetes.pod.name", "p"),
        ("io.kubernetes.pod.namespace", "ns"),
        ("io.kubernetes.pod.uid", "u"),
        ("io.kubernetes.container.name", "c"),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sandbox_config = v1::PodSandboxConfig {
        metadata: Some(metadata),
        labels: labels.clone().into(),
        log_directory: folder.path().to_str().unwrap().into(),
        ..v1::PodSandboxConfig::default()
    };
    let sandbox = runtime.run_pod_sandbox(&sandbox_config, "").await.unwrap();
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "c".into(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: "app".into(), ..v1::ImageSpec::default() }),
        labels: labels.into(),
        log_path: "0.log".into(),
        ..v1::ContainerConfig::default()
    };
    let id = runtime.create_container(&sandbox, &config, &sandbox_config).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    let lines: String =
        (0..20).map(|second| format!("2026-11-21T10:00:{second:02}Z stdout F a line\n")).collect();
    std::fs::write(folder.path().join("0.log"), lines).unwrap();
    (runtime, id)
}

/// A server for everybody, and its runtime.
async fn node(folder: &TempDir, serving: &mut JoinSet<()>) -> (SocketAddr, HostileRuntime) {
    let (runtime, id) = runtime(folder).await;
    let runtime = HostileRuntime::over(runtime);
    let pod = json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
        "spec": { "containers": [{ "name": "c" }] },
        "status": { "containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "containerID": format!("simulated://{id}"), "state": { "running": {} },
        }] },
    });
    let names = SelfSigned { common_name: "n".to_owned(), names: vec!["n".to_owned()] };
    let (certificate, key) =
        serving_certificate_files(&folder.path().join("pki"), "kubelet", &names).unwrap();
    let parts = Parts {
        host: Arc::new(Agent(Arc::new(serde_json::from_value(pod).unwrap()))),
        runtime: Arc::new(runtime.clone()),
        auth: Auth::new(AuthConfig {
            node: "n".to_owned(),
            anonymous: true,
            authorization: Authorization::AlwaysAllow,
            ..AuthConfig::default()
        }),
        certificate: Arc::new(ServingCertificate::load(certificate, key).unwrap()),
        tls: Spoken::default(),
        metrics: Metrics::new(),
        registry: Registry::new(),
        probe_registry: Registry::new(),
        handlers: Handlers::All,
        max_connections: 50,
    };
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    serving.spawn(async move { serve(listener, parts, CancellationToken::new()).await.unwrap() });
    (address, runtime)
}

/// For a client that believes the server.
fn client_config(address: SocketAddr) -> kube::Config {
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config
}

/// One test at a time: the memory and the panics of the whole process are counted.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// A request for each thing that a node offers.
fn samples() -> Vec<Vec<u8>> {
    let upgrade =
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
    let requests = [
        ("GET", "/healthz/syncloop", ""),
        ("GET", "/pods", "Accept: application/json\r\n"),
        ("GET", "/runningpods/", ""),
        ("GET", "/configz", ""),
        ("GET", "/metrics", "Accept: application/openmetrics-text\r\n"),
        ("GET", "/metrics/resource", ""),
        ("GET", "/metrics/probes", ""),
        (
            "GET",
            "/containerLogs/ns/p/c?tailLines=5&limitBytes=100&timestamps=true&sinceTime=2026-11-21T10:00:03Z",
            "",
        ),
        ("GET", "/containerLogs/ns/p/c?sinceSeconds=10&previous=true&stream=All", ""),
        ("POST", "/exec/ns/p/u/c?command=ls&command=%2Fetc&input=1&output=1&error=1&tty=1", upgrade),
        ("GET", "/attach/ns/p/c?output=1", socket),
        ("POST", "/portForward/ns/p/u?port=80", upgrade),
        ("POST", "/run/ns/p/c?cmd=echo%20a", ""),
        ("GET", "/logs/messages", "Authorization: Bearer a.b.c\r\n"),
    ];
    let whole = |(method, path, head): (&str, &str, &str)| {
        // So the end of the connection tells the end of the answer.
        let close = if head.contains("Connection") { "" } else { "Connection: close\r\n" };
        format!("{method} {path} HTTP/1.1\r\nHost: n\r\n{head}{close}\r\n").into_bytes()
    };
    requests.into_iter().map(whole).collect()
}

#[test]
fn requests_to_a_node() {
    let _turn = turn();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (folder, mut serving) = (tempfile::tempdir().unwrap(), JoinSet::new());
    let (address, _) = runtime.block_on(node(&folder, &mut serving));
    let connector = client_config(address).rustls_https_connector().unwrap();
    let uri: http::Uri = format!("https://{address}").parse().unwrap();
    let serving = RefCell::new(serving);
    // The beginning of the answer.
    let ask = |input: &[u8]| {
        runtime.block_on(async {
            let stream = connector.clone().oneshot(uri.clone()).await.unwrap();
            let mut stream = TokioIo::new(stream);
            let mut answer = Vec::new();
            // The server may have closed it already.
            let exchange = async {
                stream.write_all(input).await?;
                let mut more = [0; 4096];
                loop {
                    let read = stream.read(&mut more).await?;
                    if read == 0 {
                        return std::io::Result::Ok(());
                    }
                    answer.extend_from_slice(&more[..read.min(100 - answer.len().min(100))]);
                }
            };
            let _ = timeout(PATIENCE, exchange).await;
            assert!(serving.borrow_mut().try_join_next().is_none(), "the server has ended");
            String::from_utf8_lossy(&answer).into_owned()
        })
    };
    for sample in samples() {
        let answer = ask(&sample);
        let is_found =
            answer.starts_with("HTTP/1.1 ") && !answer.contains(" 401 ") && !answer.contains(" 404 ");
        assert!(is_found, "{} is answered with {answer:?}", String::from_utf8_lossy(&sample));
    }
    let surface = Surface { name: "node", ceiling: CEILING, samples: samples() };
    let report = hostile::attack(&surface, Effort::wanted(), |input| drop(ask(input)));
    println!("node: {} inputs, at most {} KiB for one", report.inputs, report.most / 1024);
}

/// What is hostile in a runtime's answers here.
const TEXTS: &[&str] = &[
    "ns",
    "p",
    "u",
    "c",
    "a\"b",
    "a\\",
    "a\nb",
    "a\rb",
    "a,b=\"c\"",
    "io.kubernetes.pod.uid",
    "http://127.0.0.1:1/",
];

/// Fails if the text is none of Prometheus's: a scrape fails as a whole if one line of it does, or if two have one name.
fn check_metrics(text: &str) {
    let mut names = BTreeSet::new();
    for line in text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name_ends = line.rfind('}').map_or_else(|| line.find(' ').unwrap(), |at| at + 1);
        let (name, values) = line.split_at(name_ends);
        let values: Vec<f64> = values.split_whitespace().map(|value| value.parse().unwrap()).collect();
        assert!(matches!(values.len(), 1 | 2) && values[0].is_finite(), "{line}");
        assert!(names.insert(name), "{name} is there twice");
    }
}

#[test]
fn answers_of_a_runtime_as_the_node_serves_them() {
    let _turn = turn();
    panics::watch();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (folder, mut serving) = (tempfile::tempdir().unwrap(), JoinSet::new());
    let (address, hostile) = runtime.block_on(node(&folder, &mut serving));
    let client = runtime.block_on(async { kube::Client::try_from(client_config(address)).unwrap() });
    let ask = |method: &str, path: &str| {
        let request = http::Request::builder().method(method).uri(path).body(Vec::new()).unwrap();
        runtime.block_on(client.request_text(request))
    };
    let sample = runtime.block_on(Answers::of(&hostile)).encode_to_vec();
    let surface = Surface { name: "served", ceiling: CEILING, samples: vec![sample] };
    let decodes = |input: &[u8]| Answers::decode(input).is_ok();
    let broken = |corpus: &[Vec<u8>], random| protobuf::broken(corpus, TEXTS, decodes, random);
    let report = hostile::attack_with(&surface, Effort::wanted(), broken, |input| {
        hostile.answer(Some(Answers::decode(input).unwrap()));
        check_metrics(&ask("GET", "/metrics/resource").unwrap());
        let pods: Value = serde_json::from_str(&ask("GET", "/runningpods/").unwrap()).unwrap();
        assert!(pods["items"].is_array(), "{pods}");
        // These may be refused.
        for (method, path) in [
            ("GET", "/containerLogs/ns/p/c?tailLines=5"),
            ("POST", "/run/ns/p/c?cmd=a"),
            ("POST", "/exec/ns/p/c?command=a&output=1"),
        ] {
            let _ = ask(method, path);
        }
        let panics = panics::take();
        assert!(panics.is_empty(), "{}", panics.join("\n"));
    });
    println!("served: {} inputs, at most {} KiB for one", report.inputs, report.most / 1024);
}
