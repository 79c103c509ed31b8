//! What nodes get over plain HTTP: images of a registry, and manifests.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where manifests of pods are.
pub const MANIFEST: &str = "/manifest";

/// Who may pull what is private.
const USER: &str = "somebody:secret";
/// What the paths of private images begin with.
const PRIVATE: &str = "/v2/private/";

/// A server on the loopback, which runtimes take for a registry without TLS. It ends when this is dropped.
pub struct Web {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    pages: Mutex<BTreeMap<String, Page>>,
    /// The paths that were asked for, in order.
    asked: Mutex<Vec<String>>,
}

/// What is at a path.
#[derive(Clone)]
struct Page {
    kind: &'static str,
    body: Vec<u8>,
}

impl Web {
    /// One with no image, and no pod in its manifest.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port must be free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::<Shared>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let web = Self { address, shared, _serving: serving };
        web.put("/v2/", "application/json", b"{}".to_vec());
        web.set_manifest(&[]);
        web
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the pods of [`MANIFEST`].
    pub fn set_manifest(&self, pods: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "PodList", "items": pods });
        self.put(MANIFEST, "application/json", list.to_string().into_bytes());
    }

    /// Puts an image of busybox into the registry, and tells its whole name. Who pulls `private/...` must show the
    /// [`login`](Self::login).
    pub fn push(&self, name: &str) -> String {
        let layer = layer();
        let layer_digest = sha256(&layer);
        let config = json!({
            "architecture": architecture(), "os": "linux", "config": { "Cmd": ["sh"], "Labels": { "name": name } },
            "rootfs": { "type": "layers", "diff_ids": [&layer_digest] },
        });
        let config = config.to_string().into_bytes();
        let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": sha256(bytes), "size": bytes.len() });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": IMAGE,
            "config": part("application/vnd.oci.image.config.v1+json", &config),
            "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        for blob in [layer, config] {
            self.put(&format!("/v2/{name}/blobs/{}", sha256(&blob)), "application/octet-stream", blob);
        }
        for reference in [sha256(&manifest), "1".to_owned()] {
            self.put(&format!("/v2/{name}/manifests/{reference}"), IMAGE, manifest.clone());
        }
        self.image(name)
    }

    /// The whole name of an image, whether it is there or not.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}:1", self.address)
    }

    /// The data of a pull secret that opens what is private.
    pub fn login(&self) -> Value {
        let auths = json!({ "auths": { self.address.to_string(): { "auth": BASE64.encode(USER) } } });
        json!({ ".dockerconfigjson": auths.to_string() })
    }

    /// How often an image was looked for.
    pub fn pulls(&self, name: &str) -> usize {
        let looked_for = format!("/v2/{name}/manifests/1");
        self.shared.asked.lock().iter().filter(|path| **path == looked_for).count()
    }

    fn put(&self, path: &str, kind: &'static str, body: Vec<u8>) {
        self.shared.pages.lock().insert(path.to_owned(), Page { kind, body });
    }
}

const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    shared.asked.lock().push(path.clone());
    let login = format!("Basic {}", BASE64.encode(USER));
    let shown = request.headers().get(header::AUTHORIZATION);
    if path.starts_with(PRIVATE) && shown.is_none_or(|shown| *shown != login) {
        let mut answer = status(StatusCode::UNAUTHORIZED);
        let realm = HeaderValue::from_static("Basic realm=\"test\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        return answer;
    }
    let Some(page) = shared.pages.lock().get(&path).cloned() else { return status(StatusCode::NOT_FOUND) };
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, page.kind)
        .header(header::CONTENT_LENGTH, page.body.len())
        .header("Docker-Content-Digest", sha256(&page.body));
    answer.body(Body::from(page.body)).expect("it is an answer")
}

fn status(status: StatusCode) -> Response {
    Response::builder().status(status).body(Body::empty()).expect("it is an answer")
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The root file system of an image, as a tar archive: busybox, which is linked statically, and some of its names.
fn layer() -> Vec<u8> {
    let busybox = busybox();
    let busybox = std::fs::read(&busybox).unwrap_or_else(|error| panic!("{}: {error}", busybox.display()));
    let mut archive = Vec::new();
    entry(&mut archive, "bin/", b'5', "", &[]);
    entry(&mut archive, "bin/busybox", b'0', "", &busybox);
    for name in ["sh", "cat", "sleep", "true"] {
        entry(&mut archive, &format!("bin/{name}"), b'2', "busybox", &[]);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[allow(clippy::disallowed_methods, reason = "that is where programs are")]
fn busybox() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("busybox")).find(|path| path.exists());
    found.expect("busybox must be on the PATH")
}

/// One entry of a tar archive.
fn entry(archive: &mut Vec<u8>, name: &str, kind: u8, link: &str, content: &[u8]) {
    let mut head = [0u8; 512];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000755\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    // The checksum counts its own place as blanks.
    put(148, "        ");
    put(157, link);
    put(257, "ustar\x0000");
    head[156] = kind;
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend(head);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}
