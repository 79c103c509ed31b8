//! The parts of PodConfig together.

mod merge;
mod mirrors;
mod sources;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A pod of that name, whose uid is its name.
pub(super) fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "generation": 1 },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Pending" },
    })
}

pub(super) fn read(pod: Value) -> Pod {
    serde_json::from_value(pod).expect("the pod of a test must be one")
}
