//! What pods are allocated, as tables and as courses.

mod checkpoints;
mod courses;
mod texts;

use serde_json::{Value, json};

use k8s_openapi::api::core::v1::Pod;

/// A pod of that uid with one container `c` that asks for this.
fn pod(uid: &str, cpu: &str) -> Pod {
    whole(uid, json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] }))
}

fn whole(uid: &str, spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "uid": uid, "name": uid, "namespace": "ns", "generation": 1 },
        "spec": spec,
    }))
    .unwrap()
}
