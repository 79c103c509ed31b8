//! The node's own port, and what the node says of itself.

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

use crate::pods::{Pods, staying};

/// The status of an answer.
fn status(method: &str, url: &str, further: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-X", method, url])
        .args(further)
        .output()
        .expect("curl must start");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub async fn a_command_without_credentials_is_refused(pods: Pods) {
    pods.run("works", json!({ "containers": [staying()] })).await;
    let address = pods.ready("works").await.status.unwrap().host_ip.unwrap();
    let base = format!("https://{address}:{}", pods.world.agent.port);
    let exec = format!("{base}/exec/{}/works/main?command=id&output=1", pods.namespace);
    assert_eq!(status("POST", &exec, &[]), "401");
    assert_eq!(status("POST", &exec, &["-H", "Authorization: Bearer nobody"]), "401");
    assert_eq!(status("GET", &format!("{base}/pods"), &[]), "401");
    assert_eq!(status("GET", &format!("{base}/containerLogs/{}/works/main", pods.namespace), &[]), "401");
    // A node is somebody, but may not look into others, nor into itself.
    let own = pods.world.server.folder();
    let (certificate, key) = (own.join("node.crt"), own.join("node.key"));
    let node = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(status("POST", &exec, &node), "403");
    let (certificate, key) = (own.join("toward-nodes.crt"), own.join("toward-nodes.key"));
    let api_server = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(status("GET", &format!("{base}/pods"), &api_server), "200");
    assert_eq!(status("GET", &format!("{base}/metrics"), &api_server), "200");
}

pub async fn the_node_is_ready_and_holds_its_lease(pods: Pods) {
    let node = pods.world.node().await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels.get("test.steersman.dev/here").map(String::as_str), Some("yes"));
    let status = node.status.unwrap();
    let capacity = status.capacity.unwrap();
    let processors = std::thread::available_parallelism().unwrap();
    assert_eq!(capacity["cpu"].0, processors.to_string());
    assert_eq!(
        status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port,
        i32::from(pods.world.agent.port)
    );
    assert!(status.node_info.unwrap().container_runtime_version.starts_with("containerd://"));
    let images = status.images.unwrap();
    assert!(
        images.iter().flat_map(|image| image.names.iter().flatten()).any(|name| name.contains("busybox"))
    );
    let leases = Api::<Lease>::namespaced(pods.world.client("default"), "kube-node-lease");
    let lease = leases.get(&pods.world.agent.node).await.expect("the lease must be there");
    assert_eq!(lease.spec.unwrap().holder_identity, Some(pods.world.agent.node.clone()));
}
