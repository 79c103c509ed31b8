//! The status manager, in tables and at work.

mod decisions;
mod generated;
mod phases;
mod resources;
mod restart_of_all;
mod writes;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON of a test must fit its type")
}

/// A pod with the spec's members given.
pub(super) fn pod(spec: Value) -> Pod {
    read(json!({
        "metadata": { "name": "p", "namespace": "default", "uid": "u", "generation": 3 },
        "spec": spec,
        "status": { "phase": "Pending" },
    }))
}

/// Containers of those names.
pub(super) fn containers(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name, "image": "i" })).collect()
}

pub(super) fn running(name: &str) -> ContainerStatus {
    status(name, json!({ "ready": true, "started": true, "state": { "running": {} } }))
}

pub(super) fn ended(name: &str, exit_code: i32) -> ContainerStatus {
    status(name, json!({ "ready": false, "state": { "terminated": { "exitCode": exit_code } } }))
}

pub(super) fn waiting(name: &str) -> ContainerStatus {
    status(name, json!({ "ready": false, "state": { "waiting": {} } }))
}

/// Waits to be started again.
pub(super) fn backing_off(name: &str, exit_code: i32) -> ContainerStatus {
    let last = json!({ "terminated": { "exitCode": exit_code } });
    status(name, json!({ "ready": false, "state": { "waiting": {} }, "lastState": last }))
}

fn status(name: &str, mut members: Value) -> ContainerStatus {
    for (member, value) in
        [("name", json!(name)), ("image", json!("i")), ("imageID", json!("")), ("restartCount", json!(0))]
    {
        members[member] = value;
    }
    read(members)
}
