//! Probes: what they decide, in tables, and at work.

mod courses;
mod grpc;
mod http;
mod manager;
mod readiness;
mod socket;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use super::prober::{Outcome, State};
use crate::container::ContainerId;

/// When the agents of these tests begin, in seconds.
const BEGINNING: i64 = 1_700_000_000;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON of a test must fit its type")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod with a container `c`, to which these members are added.
fn pod(members: Value) -> Arc<Pod> {
    let mut container = json!({ "name": "c", "image": "i" });
    for (name, value) in members.as_object().unwrap() {
        container[name] = value.clone();
    }
    Arc::new(read(json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "u" },
        "spec": { "containers": [container] },
    })))
}

fn container_of(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

/// The container `c`, id `r://<id>`, with these members.
fn container_status(id: &str, members: Value) -> ContainerStatus {
    let mut status = json!({
        "name": "c", "image": "i", "imageID": "", "restartCount": 0, "ready": false,
        "containerID": format!("r://{id}"),
    });
    for (name, value) in members.as_object().unwrap() {
        status[name] = value.clone();
    }
    read(status)
}

fn running(id: &str, since: i64, started: bool) -> ContainerStatus {
    container_status(
        id,
        json!({ "started": started, "state": { "running": { "startedAt": at(since).to_string() } } }),
    )
}

fn status_with(container: ContainerStatus) -> PodStatus {
    PodStatus {
        phase: Some("Running".into()),
        pod_ip: Some("127.0.0.1".into()),
        container_statuses: Some(vec![container]),
        ..PodStatus::default()
    }
}

fn id(id: &str) -> ContainerId {
    ContainerId::new("r", id)
}

fn outcome(state: State, output: &str) -> Outcome {
    Outcome::new(state, output)
}
