//! Nodes that exist only as objects, with pods, whose leases are renewed as kubelets renew theirs.

mod silence;

use std::convert::Infallible;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval};

use crate::{Error, report, workloads};

/// How many calls are under way at a time.
const AT_ONCE: usize = 64;
/// How often a node renews its lease, as the kubelet does by default: a quarter of the lease's 40 s.
const RENEWAL: Duration = Duration::from_secs(10);
/// The namespace of the leases.
const LEASES: &str = "kube-node-lease";
/// Pods of nodes that fall silent have this label.
const SILENT: &str = "steersman-load/falls-silent";
/// An annotation makes a pod this many bytes larger, so that it has some 4 KB.
const PADDING: usize = 2600;

/// What there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    /// How many of the nodes fall silent at the signal USR1.
    pub(crate) silent: usize,
}

impl Fleet {
    /// Creates nodes and pods, renews the leases, and at the signal USR1 leaves those of some nodes and times what becomes of
    /// their pods. Ends when that is known, or with the signal INT.
    pub(crate) async fn run(self, client: &Client) -> Result<(), Error> {
        let begun = Instant::now();
        let namespaces = workloads::namespaces(client, 20).await?;
        self.each(self.nodes, |number| node(client, number)).await?;
        let pods = |number: usize| {
            let node = number % self.nodes;
            pod(client, &namespaces[number % namespaces.len()], number, node, node < self.silent)
        };
        self.each(self.pods, pods).await?;
        report(&format!("{} nodes and {} pods are ready: {:?}", self.nodes, self.pods, begun.elapsed()));
        let heard = tokio::select! {
            heard = self.renew(client) => heard?,
            signal = tokio::signal::ctrl_c() => return Ok(signal?),
        };
        tokio::select! {
            watched = silence::watch(client, self, &heard) => watched,
            never = renew_forever(client, self.silent..self.nodes) => match never {},
            signal = tokio::signal::ctrl_c() => Ok(signal?),
        }
    }

    async fn each<F>(self, count: usize, call: impl Fn(usize) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<(), kube::Error>>,
    {
        let calls = stream::iter(0..count).map(call);
        Ok(calls.buffer_unordered(AT_ONCE).try_collect().await?)
    }

    /// Renews all leases, one after the other, until the signal comes. Returns when each silent node was heard last.
    async fn renew(self, client: &Client) -> Result<Vec<Instant>, Error> {
        let mut silence = signal(SignalKind::user_defined1())?;
        let mut heard = vec![Instant::now(); self.silent];
        let mut next = interval(RENEWAL / u32::try_from(self.nodes).unwrap_or(u32::MAX).max(1));
        for number in (0..self.nodes).cycle() {
            tokio::select! {
                _ = next.tick() => {}
                _ = silence.recv() => break,
            }
            renew(client, number).await?;
            if let Some(heard) = heard.get_mut(number) {
                *heard = Instant::now();
            }
        }
        Ok(heard)
    }
}

/// Renews the leases of these nodes, and tells of calls that fail.
async fn renew_forever(client: &Client, nodes: std::ops::Range<usize>) -> Infallible {
    let mut begin = interval(RENEWAL);
    loop {
        begin.tick().await;
        let calls = stream::iter(nodes.clone()).map(|number| renew(client, number));
        let failed = calls.buffer_unordered(AT_ONCE).filter_map(async |renewed| renewed.err());
        failed.for_each(async |error| report(&format!("lease: {error}"))).await;
    }
}

async fn renew(client: &Client, number: usize) -> Result<(), kube::Error> {
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES);
    let patch = Patch::Merge(json!({ "spec": { "renewTime": now() } }));
    leases.patch(&node_name(number), &PatchParams::default(), &patch).await.map(drop)
}

/// As a `MicroTime` is written.
fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

fn node_name(number: usize) -> String {
    format!("fleet-{number}")
}

fn object<K: serde::de::DeserializeOwned>(manifest: Value) -> K {
    serde_json::from_value(manifest).expect("the manifest must be of its kind")
}

/// Creates a node that is ready, and its lease.
async fn node(client: &Client, number: usize) -> Result<(), kube::Error> {
    let (name, nodes) = (node_name(number), Api::<Node>::all(client.clone()));
    let node = object(
        json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } } }),
    );
    let node: Node = nodes.create(&PostParams::default(), &node).await?;
    let resources = json!({ "cpu": "64", "memory": "256Gi", "pods": "250" });
    let status = json!({ "status": {
        "capacity": resources, "allocatable": resources,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": node.metadata.creation_timestamp, "lastTransitionTime": node.metadata.creation_timestamp,
        }],
    } });
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    // The API server adds the taint `not-ready` to new nodes.
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(json!({ "spec": { "taints": null } }))).await?;
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid });
    let lease = object(json!({
        "metadata": { "name": name, "ownerReferences": [owner] },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now() },
    }));
    Api::<Lease>::namespaced(client.clone(), LEASES).create(&PostParams::default(), &lease).await.map(drop)
}

/// Creates a pod that runs on a node, and tolerates the node's silence for 5 s.
async fn pod(
    client: &Client,
    namespace: &str,
    number: usize,
    node: usize,
    silent: bool,
) -> Result<(), kube::Error> {
    let (name, pods) = (format!("fleet-{number}"), Api::<Pod>::namespaced(client.clone(), namespace));
    let tolerates = |key: &str| json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 });
    let pod = object(json!({
        "metadata": {
            "name": name, "labels": { "app": format!("app-{}", number % 100), SILENT: silent.to_string() },
            "annotations": { "steersman-load/padding": "x".repeat(PADDING) },
        },
        "spec": {
            "nodeName": node_name(node), "tolerations": [tolerates("not-ready"), tolerates("unreachable")],
            "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }],
        },
    }));
    let pod: Pod = pods.create(&PostParams::default(), &pod).await?;
    let started = pod.metadata.creation_timestamp;
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": started });
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let ip = format!("10.128.{}.{}", number / 256 % 256, number % 256);
    let status = json!({ "status": {
        "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": started,
        "conditions": conditions,
        "containerStatuses": [{
            "name": "main", "image": "registry.k8s.io/pause:3.10", "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "state": { "running": { "startedAt": started } },
        }],
    } });
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}
