//! What annotations, images and faults make of the simulated runtime; the contract's cases hold as well.

mod containers;
mod events;
mod faults;
mod images;
mod sandboxes;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::runtime::{ImageService, RuntimeService};

/// 2024-05-06T07:08:09Z, in nanoseconds.
const BEGINNING: i64 = 1_714_979_289_000_000_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn config() -> SimulatedConfig {
    SimulatedConfig {
        images: vec!["app".into()],
        wall: Timestamp::from_nanosecond(BEGINNING.into()).unwrap(),
        ..Default::default()
    }
}

fn runtime() -> SimulatedRuntime {
    SimulatedRuntime::new(config())
}

fn pod(name: &str, annotations: &[(&str, &str)]) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: name.into(),
            uid: format!("uid-{name}"),
            namespace: "default".into(),
            attempt: 0,
        }),
        annotations: annotated(annotations),
        ..Default::default()
    }
}

fn annotated(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect()
}

fn container(name: &str, attempt: u32) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: name.into(), attempt }),
        image: Some(image("app")),
        ..Default::default()
    }
}

fn image(name: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: name.into(), ..Default::default() }
}

/// A sandbox with these annotations, and in it a container `main`.
async fn created(runtime: &SimulatedRuntime, annotations: &[(&str, &str)]) -> (String, String) {
    let pod = pod("a", annotations);
    let sandbox = runtime.run_pod_sandbox(&pod, "").await.unwrap();
    let container = runtime.create_container(&sandbox, &container("main", 0), &pod).await.unwrap();
    (sandbox, container)
}

async fn started(runtime: &SimulatedRuntime, annotations: &[(&str, &str)]) -> String {
    let (_, container) = created(runtime, annotations).await;
    runtime.start_container(&container).await.unwrap();
    container
}

async fn status(runtime: &SimulatedRuntime, id: &str) -> v1::ContainerStatus {
    runtime.container_status(id).await.unwrap().status.unwrap()
}
