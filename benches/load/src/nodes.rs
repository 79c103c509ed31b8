//! Nodes that exist only as objects, on which pods seem to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::json;

use crate::{Error, report};

/// How many calls are under way at a time.
const AT_ONCE: usize = 64;

/// Creates the nodes, then schedules and runs all pods on them until a signal comes.
pub(crate) async fn run(client: &Client, count: usize) -> Result<(), Error> {
    for number in 0..count {
        create(client, number).await?;
    }
    report(&format!("{count} nodes are ready"));
    let (next_node, next_address) = (AtomicUsize::new(0), AtomicU32::new(0));
    let simulation = Arc::new(Simulation { client: client.clone(), count, next_node, next_address });
    let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default());
    let work = pods.default_backoff().touched_objects().map_ok(|pod| {
        let simulation = Arc::clone(&simulation);
        async move { Ok(simulation.advance(&pod).await) }
    });
    let work = work.try_buffer_unordered(AT_ONCE).try_for_each(|result| async move {
        // The pod changed or went meanwhile, which the watch will show.
        if let Err(error) = result
            && !matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
        {
            report(&format!("pod: {error}"));
        }
        Ok::<_, watcher::Error>(())
    });
    tokio::select! {
        ended = work => ended.map_err(Error::from),
        signal = tokio::signal::ctrl_c() => Ok(signal?),
    }
}

async fn create(client: &Client, number: usize) -> Result<(), Error> {
    let nodes = Api::<Node>::all(client.clone());
    let name = name(number);
    let node = json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } } });
    let node = serde_json::from_value(node).expect("the manifest must be a node");
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    let resources = json!({ "cpu": "1000", "memory": "1000Gi", "pods": "100000" });
    let status = json!({ "status": {
        "capacity": resources, "allocatable": resources,
        "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
    } });
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    // The API server adds the taint `not-ready` to new nodes.
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(json!({ "spec": { "taints": null } }))).await?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("simulated-{number}")
}

struct Simulation {
    client: Client,
    count: usize,
    next_node: AtomicUsize,
    next_address: AtomicU32,
}

impl Simulation {
    /// Takes the next step of a pod's life.
    async fn advance(&self, pod: &Pod) -> Result<(), kube::Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
        let name = pod.name_any();
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.clone());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if pod.metadata.deletion_timestamp.is_some() {
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        } else if node.is_none() {
            let node = self.node_of(pod);
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                "target": { "kind": "Node", "name": node },
            });
            pods.create_subresource::<_, serde_json::Value>(
                "binding",
                &name,
                &PostParams::default(),
                &binding,
            )
            .await?;
        } else if phase == Some("Pending") {
            let status = Patch::Merge(self.status(pod));
            pods.patch_status(&name, &PatchParams::default(), &status).await?;
        }
        Ok(())
    }

    /// The node that the pod demands, as pods of DaemonSets do; otherwise each node in turn.
    fn node_of(&self, pod: &Pod) -> String {
        let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let fields = required.and_then(|r| r.node_selector_terms.first()?.match_fields.as_ref());
        let demanded = fields.and_then(|fields| fields.first()?.values.as_ref()?.first().cloned());
        demanded.unwrap_or_else(|| name(self.next_node.fetch_add(1, Ordering::Relaxed) % self.count))
    }

    /// The status of a pod that a node has just started: its containers run and are ready. Those of a pod that is not
    /// restarted, such as a Job's, have succeeded already.
    fn status(&self, pod: &Pod) -> serde_json::Value {
        let started = &pod.metadata.creation_timestamp;
        let is_over = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("Never");
        let [_, a, b, c] = self.next_address.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let ip = format!("10.{}.{b}.{c}", 128 + a % 64);
        let condition = |kind: &str, holds: bool| {
            let status = if holds { "True" } else { "False" };
            json!({ "type": kind, "status": status, "lastTransitionTime": started })
        };
        let conditions = [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", !is_over),
            condition("Ready", !is_over),
        ];
        json!({ "status": {
            "phase": if is_over { "Succeeded" } else { "Running" },
            "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": started, "conditions": conditions,
        } })
    }
}
