//! What a node's server reads of a client that may do everything: requests for all that it offers, broken, as bytes over TLS.
//!
//! It runs for a second, or for as long as `HOSTILE_SECONDS` says. An input takes a connection of its own, so there are fewer than
//! a hundred in a second.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it did"
)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hostile::{Effort, MEMORY, Surface};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::client::ConfigExt;
use peak_alloc::PeakAlloc;
use prometheus::Registry;
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

/// A server for everybody.
async fn node(folder: &TempDir, serving: &mut JoinSet<()>) -> SocketAddr {
    let (runtime, id) = runtime(folder).await;
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
        runtime: Arc::new(runtime),
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
    address
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
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (folder, mut serving) = (tempfile::tempdir().unwrap(), JoinSet::new());
    let address = runtime.block_on(node(&folder, &mut serving));
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    let connector = config.rustls_https_connector().unwrap();
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
