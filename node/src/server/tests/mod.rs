//! The server on loopback, with certificates of authorities of its own, reviewers that say what they are told to, and a
//! streaming server that is none.

mod access;
mod endpoints;
mod hostile;
mod identities;
mod streams;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use parking_lot::Mutex;
use prometheus::Registry;
use rustls::pki_types::ServerName;
use serde_json::json;
use steersman_api::Uid;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::auth::{
    AccessReviewer, Attributes, Auth, AuthConfig, Authorization, ClientCa, Decision, ResourceAttributes,
    ReviewError, TokenReviewer, Tokens, User,
};
use super::tls::{SelfSigned, ServingCertificate, Spoken, serving_certificate_files};
use super::*;
use crate::cri::v1;
use crate::kuberuntime::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::runtime::RuntimeService;
use crate::runtime::simulated::{Logs, SimulatedConfig, SimulatedRuntime};
use identities::{Authority, Identity, client_config, client_config_with_chain};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Knows two tokens, `good` and `other`, and lets the user of the first one do everything. Fails for `broken`.
#[derive(Default)]
struct Reviewer {
    asked: Mutex<Vec<String>>,
    /// Users who may do what has one of these subresources.
    allowed: Mutex<Vec<(String, &'static str)>>,
}

impl Reviewer {
    fn allow(&self, user: &str, subresource: &'static str) {
        self.allowed.lock().push((user.to_owned(), subresource));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

#[async_trait]
impl TokenReviewer for Reviewer {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.asked.lock().push(format!("token {token}"));
        let user = |name: &str| User { name: name.to_owned(), ..User::default() };
        match token {
            "good" => Ok(Some(user("alice"))),
            "other" => Ok(Some(user("bob"))),
            "broken" => Err(ReviewError("no API server".to_owned())),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl AccessReviewer for Reviewer {
    async fn review(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let Attributes::Resource(ResourceAttributes { verb, resource: "nodes", subresource, name }) =
            attributes
        else {
            panic!("{attributes:?} must be about a node")
        };
        self.asked.lock().push(format!("{} {verb} {name}/{subresource}", user.name));
        if user.name == "unlucky" {
            return Err(ReviewError("no API server".to_owned()));
        }
        let allowed = self.allowed.lock();
        let allowed = user.name == "alice" || allowed.contains(&(user.name.clone(), *subresource));
        Ok(if allowed { Decision::allowed() } else { Decision::denied("") })
    }
}

/// One pod, `p`, in which a container `c` runs, which writes no log by itself.
struct Agent {
    pod: Arc<Pod>,
    status: Mutex<Option<PodStatus>>,
    late: Mutex<bool>,
}

impl Host for Agent {
    fn node_usage(&self) -> Result<NodeUsage, String> {
        Ok(NodeUsage { cpu: 1_000_000_000, working_set: 2048, swap: 0, at: jiff::Timestamp::UNIX_EPOCH })
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        vec![self.pod.clone()]
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        (namespace == "ns" && name == "p").then(|| self.pod.clone())
    }

    fn pod_status(&self, _: &Pod) -> Option<PodStatus> {
        self.status.lock().clone()
    }

    fn translate_pod_uid(&self, uid: &Uid) -> Uid {
        if *uid == Uid::from("mirror") { Uid::from("u") } else { uid.clone() }
    }

    fn sync_loop_health(&self) -> Result<(), String> {
        if *self.late.lock() { Err("sync Loop took longer than expected".to_owned()) } else { Ok(()) }
    }

    fn configuration(&self) -> serde_json::Value {
        json!({ "kind": "KubeletConfiguration" })
    }
}

/// A server that serves, and all that it stands on.
struct Node {
    address: SocketAddr,
    authority: Authority,
    reviewer: Arc<Reviewer>,
    agent: Arc<Agent>,
    runtime: SimulatedRuntime,
    container_id: String,
    folder: TempDir,
    registry: Registry,
    probe_registry: Registry,
    stop: CancellationToken,
    serving: JoinSet<Result<(), Error>>,
}

impl Node {
    async fn start() -> Self {
        Self::start_with(|_, _| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut Parts, &mut AuthConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let ca_path = folder.path().join("ca.crt");
        std::fs::write(&ca_path, authority.pem()).unwrap();
        let (runtime, container_id) = runtime(&folder).await;
        let (reviewer, registry, probe_registry) =
            (Arc::new(Reviewer::default()), Registry::new(), Registry::new());
        let agent = Arc::new(Agent {
            pod: Arc::new(pod(&container_id)),
            status: Mutex::default(),
            late: Mutex::default(),
        });
        let names = SelfSigned { common_name: "node-1".to_owned(), names: vec!["node-1".to_owned()] };
        let pki = folder.path().join("pki");
        let (certificate, key) = serving_certificate_files(&pki, "kubelet", &names).unwrap();
        let mut config = AuthConfig {
            node: "node-1".to_owned(),
            anonymous: false,
            client_ca: Some(Arc::new(ClientCa::load(ca_path).unwrap())),
            tokens: Some(Tokens { reviewer: reviewer.clone(), ttl: Duration::from_secs(120) }),
            authorization: Authorization::Webhook {
                reviewer: reviewer.clone(),
                allowed_ttl: Duration::from_secs(300),
                denied_ttl: Duration::from_secs(30),
            },
        };
        let mut parts = Parts {
            host: agent.clone(),
            runtime: Arc::new(runtime.clone()),
            auth: Auth::new(AuthConfig::default()),
            certificate: Arc::new(ServingCertificate::load(certificate, key).unwrap()),
            tls: Spoken::default(),
            metrics: Metrics::new(),
            registry: registry.clone(),
            probe_registry: probe_registry.clone(),
            handlers: Handlers::All,
            max_connections: 50,
        };
        parts.metrics.register(&registry).unwrap();
        change(&mut parts, &mut config);
        parts.auth = Auth::new(config);
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, stop, mut serving) =
            (listener.local_addr().unwrap(), CancellationToken::new(), JoinSet::new());
        serving.spawn(serve(listener, parts, stop.clone()));
        Self {
            address,
            authority,
            reviewer,
            agent,
            runtime,
            container_id,
            folder,
            registry,
            probe_registry,
            stop,
            serving,
        }
    }

    /// A connection with TLS, showing a certificate or none, and speaking `alpn`.
    async fn connect(&self, config: rustls::ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("node-1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// What one request by nobody gets: status and text.
    async fn ask(&self, request: Request<Empty<Bytes>>) -> (u16, String) {
        self.ask_as(client_config(None), request).await
    }

    async fn ask_as(&self, config: rustls::ClientConfig, request: Request<Empty<Bytes>>) -> (u16, String) {
        let mut client = Client::over(self.connect(config).await.unwrap()).await;
        client.ask(request).await
    }

    /// What `alice`, who may do everything, gets.
    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(request("GET", path, "good")).await
    }

    /// Ends the server, and waits for it.
    async fn stop(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.serving.join_next()).await.expect("it must end");
        ended.unwrap().unwrap().unwrap();
    }
}

/// One connection over HTTP/1.1.
struct Client {
    sender: SendRequest<Empty<Bytes>>,
    _connection: JoinSet<()>,
}

impl Client {
    async fn over(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // What went wrong shows in the answers.
            let _ = connection.with_upgrades().await;
        });
        Self { sender, _connection: tasks }
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        tokio::time::timeout(PATIENCE, self.sender.send_request(request))
            .await
            .expect("an answer must come")
            .unwrap()
    }

    async fn ask(&mut self, request: Request<Empty<Bytes>>) -> (u16, String) {
        let answer = self.send(request).await;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// A request with a token, or without one where it is empty.
fn request(method: &str, path: &str, token: &str) -> Request<Empty<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header("host", "node-1");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Empty::new()).unwrap()
}

fn pod(container_id: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
        "spec": { "containers": [{ "name": "c" }, { "name": "waits", "tty": true }] },
        "status": { "containerStatuses": [
            {
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": format!("simulated://{container_id}"), "state": { "running": {} },
            },
            {
                "name": "waits", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ContainerCreating" } },
            },
        ] },
    }))
    .unwrap()
}

/// Appends a line to the container's log.
fn log(node: &Node, second: u32, text: &str) {
    let mut file = OpenOptions::new().append(true).open(node.folder.path().join("0.log")).unwrap();
    writeln!(file, "2026-11-21T10:00:{second:02}Z stdout F {text}").unwrap();
}

/// A runtime in which the container runs, and its id.
async fn runtime(folder: &TempDir) -> (SimulatedRuntime, String) {
    let runtime = SimulatedRuntime::new(SimulatedConfig {
        images: vec!["app".into()],
        logs: Logs::Written,
        ..Default::default()
    });
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let of_pod = [(POD_UID, "u"), (POD_NAME, "p"), (POD_NAMESPACE, "ns")];
    let sandbox_config = v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: "p".into(),
            namespace: "ns".into(),
            uid: "u".into(),
            attempt: 0,
        }),
        labels: labels(&of_pod),
        log_directory: folder.path().to_str().unwrap().into(),
        ..Default::default()
    };
    let sandbox = runtime.run_pod_sandbox(&sandbox_config, "").await.unwrap();
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "c".into(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: "app".into(), ..Default::default() }),
        labels: labels(&[&of_pod[..], &[(CONTAINER_NAME, "c")]].concat()),
        log_path: "0.log".into(),
        ..Default::default()
    };
    let id = runtime.create_container(&sandbox, &config, &sandbox_config).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    (runtime, id)
}
