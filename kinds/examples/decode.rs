//! Measures how long it takes to decode a fat pod with every group of fields of [`Pod`], in both encodings.
//!
//!     cargo run --release --package steersman-kinds --example decode [PODS]
//!
//! Prints nanoseconds for each pod. `perf stat` or `valgrind --tool=callgrind` around it counts instructions.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
#[allow(clippy::disallowed_types, reason = "this measures, and no clock is paused")]
use std::time::Instant;

use serde_json::{Value, json};
use steersman_api::schema;
use steersman_informer::Object;
use steersman_informer::bytes::Bytes;
use steersman_informer::wire::Encoding;
use steersman_kinds::pod::Pod;

#[allow(clippy::disallowed_types, reason = "this measures, and no clock is paused")]
fn main() -> Result<(), Box<dyn Error>> {
    let pods: u32 = std::env::args().nth(1).map_or(Ok(200_000), |pods| pods.parse())?;
    let pod = fat_pod();
    let kind = schema::table().kind("", "v1", "Pod").ok_or("the schema table must have pods")?;
    let protobuf = Bytes::from(schema::to_protobuf(kind, &pod)?);
    let json = Bytes::from(pod.to_string());
    for (body, encoding) in [(protobuf, Encoding::Protobuf), (json, Encoding::Json)] {
        let start = Instant::now();
        for _ in 0..pods {
            black_box(Pod::decode(black_box(&body), encoding, u64::MAX)?);
        }
        let each = start.elapsed().as_nanos() / u128::from(pods);
        writeln!(std::io::stdout(), "{encoding:?}: {each} ns for a pod of {} bytes", body.len())?;
    }
    Ok(())
}

/// A running pod of two containers and a sidecar, as a cluster has it.
fn fat_pod() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "command": ["/bin/server"], "args": ["--listen=:8080", "--log-level=info"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": (0..12).map(|i| json!({"name": format!("VARIABLE_{i}"), "value": "a value of some length"}))
                .collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "ready": true, "started": true, "restartCount": 1,
            "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "imageID": format!("registry.example.com/team/{name}@sha256:{:064}", 7),
            "containerID": format!("containerd://{:064}", 9),
            "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:06Z", "observedGeneration": 1});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(condition);
    let mut sidecar = container("proxy");
    sidecar["restartPolicy"] = json!("Always");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-7d4b9c6f5d-abcde", "generateName": "web-7d4b9c6f5d-", "namespace": "production",
            "uid": "0191e7d2-8a6b-4cde-8f00-1234567890ab", "resourceVersion": "123456", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d", "team": "a"},
            "annotations": {"example.com/configuration-hash": "0123456789abcdef", "example.com/scrape": "true"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "0191e7d2-8a6b-4cde-8f00-1234567890ac", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "containers": [container("web"), container("helper")], "initContainers": [sidecar],
            "nodeName": "node-17", "serviceAccountName": "web", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, "priority": 0,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "volumes": [{"name": "token", "emptyDir": {}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.244.3.17", "podIPs": [{"ip": "10.244.3.17"}], "hostIP": "192.168.0.17",
            "startTime": "2026-01-01T00:00:01Z", "qosClass": "Burstable",
            "conditions": conditions,
            "containerStatuses": [status("web"), status("helper")], "initContainerStatuses": [status("proxy")],
        },
    })
}
