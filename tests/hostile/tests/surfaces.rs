//! What the program reads that others make: each surface for a second, or for as long as `HOSTILE_SECONDS` says.
//!
//! `HOSTILE_SECONDS=600 HOSTILE_SEED=$RANDOM cargo test -p steersman-hostile -- --nocapture` looks for more.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it did"
)]

#[allow(dead_code, reason = "the tests of the API server use all of it")]
#[path = "../../../apiserver/fuzz/attack.rs"]
mod attack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use hostile::{Effort, MEMORY, Surface};
use http_body_util::BodyExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use parking_lot::{Mutex, MutexGuard};
use peak_alloc::PeakAlloc;
use prost::Message;
use serde_json::Value;
use steersman_api::{FieldSelector, GoDuration, LabelSelector, Quantity, schema};
use steersman_apiserver::{SavedSnapshot, TestServer};
use steersman_informer::wire::frames::RawEvent;
use steersman_informer::wire::frames::{
    JsonList, JsonWatch, ListPart, ProtobufList, ProtobufWatch, Splitter,
};
use steersman_informer::wire::object::{Decoded, Encoding};
use steersman_kinds::pod::Pod;
use steersman_node::configuration::{Sources, load};
use steersman_node::cri::v1;
use steersman_node::images::{credentials::Keyring, reference};
use steersman_node::pod_config::manifest::{self, Origin};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: PeakAlloc = MEMORY;

/// Ceilings are a few times what inputs of this length cost: they catch what grows faster than its input.
const MIB: usize = 1 << 20;

/// Only one test at a time: the memory of the whole process is counted.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// Attacks a surface with its corpus and these samples.
fn attack_surface(name: &'static str, ceiling: usize, samples: Vec<Vec<u8>>, take: impl Fn(&[u8])) {
    let report = hostile::attack(&Surface { name, ceiling, samples }, Effort::wanted(), take);
    println!("{name}: {} inputs, at most {} KiB for one", report.inputs, report.most / 1024);
}

/// A file whose content is written anew for each input.
struct InputFile {
    path: PathBuf,
    _folder: TempDir,
}

impl InputFile {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join(name), _folder: folder }
    }

    fn with(&self, input: &[u8]) -> &Path {
        std::fs::write(&self.path, input).unwrap();
        &self.path
    }
}

#[test]
fn selectors_quantities_and_durations() {
    let _turn = turn();
    attack_surface("selectors", 2 * MIB, Vec::new(), |input| {
        let text = String::from_utf8_lossy(input);
        let _ = text.parse::<LabelSelector>();
        let _ = text.parse::<FieldSelector>();
        let _ = text.parse::<Quantity>();
        let _ = text.parse::<GoDuration>();
    });
}

#[test]
fn objects_in_protobuf() {
    let _turn = turn();
    // The corpus is JSON, so that people can read it.
    let encoded = |json: Vec<u8>| schema::encode(&serde_json::from_slice::<Value>(&json).unwrap()).unwrap();
    let samples = hostile::corpus("objects").into_iter().map(encoded).collect();
    attack_surface("protobuf", 4 * MIB, samples, |input| {
        if let Ok(value) = schema::decode(input) {
            schema::encode(&value).unwrap();
        }
    });
}

/// Splits the bytes, in pieces of each of these lengths, and hands over the parts.
fn split<S: Splitter + Default>(input: &[u8], mut see: impl FnMut(S::Part)) {
    for length in [1, 7, usize::MAX] {
        let mut splitter = S::default();
        let mut good = true;
        for piece in input.chunks(length.min(input.len()).max(1)) {
            splitter.push(Bytes::copy_from_slice(piece));
            while good {
                match splitter.next() {
                    Ok(Some(part)) => see(part),
                    Ok(None) => break,
                    Err(_) => good = false,
                }
            }
        }
        let _ = splitter.finish();
    }
}

fn decode_pod(object: &Bytes, encoding: Encoding) {
    let _ = Decoded::<Pod>::decode(object, encoding, u64::MAX);
}

/// What an API server answers.
async fn answer(server: &TestServer, path: &str, accept: &str) -> Vec<u8> {
    let request =
        http::Request::get(path).header("accept", accept).body(kube::client::Body::empty()).unwrap();
    let answer = server.in_memory().oneshot(request).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[test]
fn lists_and_watches() {
    let _turn = turn();
    let samples = paused().block_on(async {
        let server = TestServer::start().await;
        let pod: Value = serde_json::from_slice(include_bytes!("../corpus/objects/pod.json")).unwrap();
        let request = http::Request::post("/api/v1/namespaces/default/pods").header("content-type", "application/json");
        let request = request.body(kube::client::Body::from(pod.to_string().into_bytes())).unwrap();
        assert_eq!(server.in_memory().oneshot(request).await.unwrap().status(), 201);
        let mut samples = Vec::new();
        for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
            samples.push(answer(&server, "/api/v1/pods", accept).await);
            let watch = "/api/v1/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true\
                         &resourceVersionMatch=NotOlderThan";
            samples.push(answer(&server, watch, accept).await);
        }
        samples
    });
    attack_surface("frames", 4 * MIB, samples, |input| {
        let item = |encoding| {
            move |part| match part {
                ListPart::Item(object) | ListPart::Meta(object) => decode_pod(&object, encoding),
            }
        };
        split::<JsonList>(input, item(Encoding::Json));
        split::<ProtobufList>(input, item(Encoding::Protobuf));
        let event = |encoding| {
            move |event| match event {
                RawEvent::Added(object)
                | RawEvent::Modified(object)
                | RawEvent::Deleted(object)
                | RawEvent::Bookmark(object)
                | RawEvent::Error(object) => decode_pod(&object, encoding),
            }
        };
        split::<JsonWatch>(input, event(Encoding::Json));
        split::<ProtobufWatch>(input, event(Encoding::Protobuf));
    });
}

#[test]
fn kubeconfigs() {
    let _turn = turn();
    let file = InputFile::new("kubeconfig");
    attack_surface("kubeconfigs", 4 * MIB, Vec::new(), |input| {
        let _ = steersman_client::config_from(Some(file.with(input)), None);
    });
}

#[test]
fn manifests_of_static_pods() {
    let _turn = turn();
    attack_surface("manifests", 4 * MIB, Vec::new(), |input| {
        let _ = manifest::decode(input, Origin::File("/pods/a.yaml"), "n");
    });
}

#[test]
fn registry_logins() {
    let _turn = turn();
    attack_surface("logins", 4 * MIB, Vec::new(), |input| {
        for (kind, key) in [
            ("kubernetes.io/dockerconfigjson", ".dockerconfigjson"),
            ("kubernetes.io/dockercfg", ".dockercfg"),
        ] {
            let data = [(key.to_owned(), ByteString(input.to_vec()))].into();
            let secret = Secret { type_: Some(kind.to_owned()), data: Some(data), ..Secret::default() };
            if let Ok(keyring) = Keyring::from_secrets(&[secret]) {
                keyring.lookup("registry.example.com/team/app");
            }
        }
    });
}

#[test]
fn settings_of_the_node() {
    let _turn = turn();
    let file = InputFile::new("config.yaml");
    attack_surface("settings", 4 * MIB, Vec::new(), |input| {
        let path = file.with(input).to_owned();
        let _ = load(&Sources { file: Some(path), directory: None, flags: Vec::new() });
    });
}

#[test]
fn names_of_images() {
    let _turn = turn();
    attack_surface("images", 2 * MIB, Vec::new(), |input| {
        let text = String::from_utf8_lossy(input);
        let _ = reference::parse(&text);
        let _ = reference::with_default_tag(&text);
        let _ = reference::without_tag_and_digest(&text);
    });
}

#[test]
fn answers_of_a_container_runtime() {
    let _turn = turn();
    let metadata = || Some(v1::ContainerMetadata { name: "app".into(), attempt: 1 });
    let labels: BTreeMap<String, String> =
        [("io.kubernetes.pod.name".into(), "web".into()), ("io.kubernetes.pod.uid".into(), "u".into())]
            .into();
    let container = v1::Container {
        id: "c1".into(),
        pod_sandbox_id: "s1".into(),
        metadata: metadata(),
        labels: labels.clone(),
        created_at: 1,
        ..Default::default()
    };
    let status = v1::ContainerStatus {
        id: "c1".into(),
        metadata: metadata(),
        labels,
        exit_code: 3,
        ..Default::default()
    };
    let samples = vec![
        v1::ListContainersResponse { containers: vec![container] }.encode_to_vec(),
        v1::ContainerStatusResponse { status: Some(status), ..Default::default() }.encode_to_vec(),
    ];
    attack_surface("answers", 4 * MIB, samples, |input| {
        let _ = v1::ListContainersResponse::decode(input);
        let _ = v1::ListPodSandboxResponse::decode(input);
        let _ = v1::ContainerStatusResponse::decode(input);
        let _ = v1::PodSandboxStatusResponse::decode(input);
        let _ = v1::ImageStatusResponse::decode(input);
        let _ = v1::ListContainerStatsResponse::decode(input);
    });
}

#[test]
fn snapshots() {
    let _turn = turn();
    let file = InputFile::new("snapshot");
    let whole =
        paused().block_on(async { answer(&TestServer::start().await, "/debug/snapshot", "*/*").await });
    attack_surface("snapshots", 4 * MIB, vec![whole], |input| {
        let _ = SavedSnapshot::check(file.with(input));
    });
}

#[test]
fn requests_to_the_api_server() {
    let _turn = turn();
    let runtime = paused();
    let server = runtime.block_on(attack::server());
    // Of an input, the first byte chooses the way; the rest fills its gap.
    let sample = |(at, way): (usize, &attack::Way)| [vec![u8::try_from(at).unwrap()], way.sample()].concat();
    let samples = attack::WAYS.iter().enumerate().map(sample).collect();
    attack_surface("requests", 16 * MIB, samples, |input| {
        let Some((at, payload)) = input.split_first() else { return };
        let way = &attack::WAYS[usize::from(*at) % attack::WAYS.len()];
        runtime.block_on(attack::carry_out(&server, way, payload));
    });
}

/// A runtime whose clock is paused: watches end at once.
fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}
