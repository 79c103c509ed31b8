//! Work for the controllers of nodes, volumes, devices, autoscalers and certificates.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use support::Cluster;
use support::cron_jobs::minutes_ago;
use support::devices::{Devices, consumer, shared};
use support::nodes::{NOT_READY, UNREACHABLE, tolerate};
use support::user::{User, items, template};

const REQUESTS: &str = "apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLASSES: &str = "apis/storage.k8s.io/v1/storageclasses";
const SLICES: &str = "apis/resource.k8s.io/v1/resourceslices";

/// Creates a node whose kubelet reported once and is silent since, with a pod that tolerates the node's taint for a second.
pub(super) async fn silent_node(user: &User) {
    // Keeps the pods of DaemonSets away.
    let apart = json!([{"key": "example.com/apart", "effect": "NoSchedule"}]);
    let spec = json!({"unschedulable": true, "taints": apart});
    user.create("api/v1/nodes", json!({"metadata": {"name": "silent"}, "spec": spec})).await;
    let time = "2026-01-01T00:00:00Z";
    let ready =
        json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time, "lastTransitionTime": time});
    user.patch("api/v1/nodes/silent/status", json!({"status": {"conditions": [ready]}})).await;
    // The API server taints new nodes as not ready.
    user.patch("api/v1/nodes/silent", json!({"spec": {"taints": apart}})).await;
    let mut spec = template("left")["spec"].clone();
    spec["nodeName"] = json!("silent");
    spec["tolerations"] = json!([tolerate(UNREACHABLE, Some(1)), tolerate(NOT_READY, Some(1))]);
    user.create("api/v1/*/pods", json!({"metadata": {"name": "left"}, "spec": spec})).await;
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
    let running = json!({"status": {"phase": "Running", "conditions": [ready]}});
    user.patch("api/v1/*/pods/left/status", running).await;
}

/// Waits until the silent node is marked, and its pod is gone.
pub(super) async fn silence_is_noticed(user: &User) {
    user.sees("the silent node is marked", "api/v1/nodes/silent", |node| {
        let conditions = node["status"]["conditions"].as_array();
        let taints = node["spec"]["taints"].as_array();
        conditions
            .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "Unknown"))
            && taints.is_some_and(|all| {
                all.iter().any(|one| one["key"] == UNREACHABLE && one["effect"] == "NoExecute")
            })
    })
    .await;
    user.misses("api/v1/*/pods/left").await;
}

/// Releases the volumes that `furniture::furnish` has put in use, deletes protected objects, and expands a claim.
pub(super) async fn volumes(user: &User) {
    // The kubelet lets the disk go with its pod.
    user.delete("api/v1/*/pods/uses-disk", "Background").await;
    user.misses("api/v1/*/pods/uses-disk").await;
    user.patch("api/v1/nodes/n1/status", json!({"status": {"volumesInUse": []}})).await;
    user.sees("the disk is detached", "apis/storage.k8s.io/v1/volumeattachments", |all| {
        items(all).is_empty()
    })
    .await;
    user.delete("api/v1/*/pods/uses-one", "Background").await;
    user.misses("api/v1/*/persistentvolumeclaims/one").await;
    user.delete("api/v1/persistentvolumes/unused", "Background").await;
    user.misses("api/v1/persistentvolumes/unused").await;
    let class = "apis/storage.k8s.io/v1/volumeattributesclasses/gold";
    user.delete(class, "Background").await;
    user.misses(class).await;

    user.create(
        CLASSES,
        json!({
            "metadata": {"name": "grows"}, "provisioner": "csi.example.com", "allowVolumeExpansion": true,
        }),
    )
    .await;
    let size = json!({"storage": "1Gi"});
    user.create(
        "api/v1/persistentvolumes",
        json!({"metadata": {"name": "grows"}, "spec": {
            "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "grows",
            "persistentVolumeReclaimPolicy": "Retain", "awsElasticBlockStore": {"volumeID": "v"},
        }}),
    )
    .await;
    user.create(
        "api/v1/*/persistentvolumeclaims",
        json!({"metadata": {"name": "grows"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "grows", "resources": {"requests": size},
        }}),
    )
    .await;
    let path = "api/v1/*/persistentvolumeclaims/grows";
    user.sees("the claim is bound", path, |claim| claim["status"]["phase"] == "Bound").await;
    user.patch(path, json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})).await;
    user.sees("the claim names its resizer", path, |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"] == "ebs.csi.aws.com"
    })
    .await;
}

/// Creates an autoscaler whose target has fewer replicas than its minimum, which it corrects without metrics.
pub(super) async fn autoscaler(user: &User) {
    user.create(
        "apis/autoscaling/v2/*/horizontalpodautoscalers",
        json!({
            "metadata": {"name": "rc"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "rc"},
                "minReplicas": 2, "maxReplicas": 4,
            },
        }),
    )
    .await;
    user.sees("the target is scaled", "api/v1/*/replicationcontrollers/rc", |rc| rc["spec"]["replicas"] == 2)
        .await;
}

/// Creates a pod whose device is tainted, and waits until the pod is evicted and its claim is free again.
pub(super) async fn devices(cluster: &Cluster, user: &User) {
    let devices = Devices::of(&cluster.client(), user.namespace());
    devices.publish("a", 1, Value::Null).await;
    devices.claim("broken").await;
    let uid = devices.pod("broken", "n1", &[shared("gpu", "broken")]).await;
    devices.allocate("broken", "gpu-0", Value::Null, &[consumer("broken", &uid)]).await;
    let taint = json!([{"key": "example.com/broken", "effect": "NoExecute", "timeAdded": minutes_ago(1)}]);
    devices.publish("a", 1, taint).await;
    user.misses("api/v1/*/pods/broken").await;
    devices
        .claim_is("broken", "is let go", |claim| {
            claim["status"]["reservedFor"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
    assert!(!items(&user.get(SLICES).await.unwrap()).is_empty(), "the slice stays");
}

/// The flags of an authority that signs certificates. Its files are written to `folder`.
pub(super) fn authority(folder: &Path) -> [String; 2] {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let (certificate, private) = (folder.join("signing.crt"), folder.join("signing.key"));
    std::fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    [
        format!("--cluster-signing-cert-file={}", certificate.display()),
        format!("--cluster-signing-key-file={}", private.display()),
    ]
}

async fn ask(user: &User, name: &str) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:n1");
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let spec = json!({
        "request": k8s_openapi::ByteString(pem.into_bytes()),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["digital signature", "client auth"],
    });
    user.create(REQUESTS, json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Creates a request that was denied two hours ago. Managers delete such requests when they start, and then once an hour.
pub(super) async fn old_request(user: &User) {
    ask(user, "old").await;
    let denied = json!({
        "type": "Denied", "status": "True", "reason": "Test", "lastUpdateTime": minutes_ago(120),
    });
    user.patch(&format!("{REQUESTS}/old/approval"), json!({"status": {"conditions": [denied]}})).await;
}

/// Creates a request as an administrator, so that the managers approve and sign it. Waits until they have, and until they have
/// deleted the old request.
pub(super) async fn certificates(user: &User) {
    ask(user, "new").await;
    user.sees("the certificate is issued", &format!("{REQUESTS}/new"), |request| {
        request["status"]["certificate"].is_string()
    })
    .await;
    user.misses(&format!("{REQUESTS}/old")).await;
}
