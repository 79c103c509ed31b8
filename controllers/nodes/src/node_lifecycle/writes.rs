//! The writes of the controller.

use serde_json::{Map, Value, json};
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, ObjectKey, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, Patch, event_reference};
use steersman_controller::context::Clock;
use steersman_controller::controller::SyncError;
use steersman_informer::View;
use steersman_kinds::node::{Health, Node};
use steersman_kinds::pod::{Pod, Readiness};

use super::taints::TaintChange;
use super::{WatchedNode, WatchedPod};

/// Writes nodes and pods.
pub(super) struct Writes {
    pub nodes: Client<Node>,
    pub pods: Client<Pod>,
    pub recorder: Recorder,
    pub clock: Clock,
}

/// How often a change of taints is tried against other writers, as upstream's `UpdateTaintBackoff`.
const TRIES: usize = 5;

impl Writes {
    /// Changes the taints of a node. The change is made on the list as the API server has it, so that fields of taints that
    /// this program does not know survive. A node that is gone, or another one of that name, needs nothing.
    pub(super) async fn taint(&self, node: &str, uid: &Uid, change: &TaintChange) -> Result<(), SyncError> {
        let key = ObjectKey::new("", node);
        for _ in 0..TRIES {
            let Some(found) = self.nodes.resource().get_json(&key).await? else { return Ok(()) };
            if found["metadata"]["uid"] != uid.to_string() {
                return Ok(());
            }
            let Some(taints) = change.applied(&found["spec"]["taints"], self.clock.now()) else {
                return Ok(());
            };
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"taints": taints},
            });
            if !matches!(self.nodes.patch(&key, &Patch::Merge(patch)).await?, Changed::Conflict(_)) {
                return Ok(());
            }
        }
        Err(SyncError::Failed(format!("tainting Node {node}: other writers came first")))
    }

    /// Sets labels of a node.
    pub(super) async fn label(&self, node: &ObjectKey, labels: &[(&str, ArcStr)]) -> Result<(), SyncError> {
        let labels: Map<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect();
        let patch = Patch::Strategic(json!({"metadata": {"labels": labels}}));
        self.nodes.patch(node, &patch).await?.or_conflict(|| format!("labelling Node {node}")).map(drop)
    }

    /// Sets the conditions of a silent node to `Unknown`. Writes only the version of the node that was found silent.
    pub(super) async fn mark_silent(&self, node: &View<WatchedNode>) -> Result<Changed<Node>, SyncError> {
        let patch = Patch::Strategic(silent_status(node, self.clock.now()));
        self.nodes.patch_status(&node.meta().key, &patch).await
    }

    /// Sets the condition `Ready` of a pod to false, unless it is so. The reason stays.
    pub(super) async fn mark_not_ready(&self, pod: &View<WatchedPod>) -> Result<(), SyncError> {
        let (meta, ready) = (pod.meta(), pod.get::<Readiness>().ready);
        if ready.status.is_none_or(|status| status == ConditionStatus::False) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": self.clock.now()},
            ]},
        });
        match self.pods.patch_status(&meta.key, &Patch::Strategic(patch)).await? {
            Changed::Now(_) => {
                let involved = event_reference::<Pod>(meta);
                self.recorder.event(&involved, EventType::Warning, "NodeNotReady", "Node is not ready");
                Ok(())
            }
            Changed::Gone => Ok(()),
            Changed::Conflict(status) => {
                Err(SyncError::Refused { what: format!("marking Pod {} as not ready", meta.key), status })
            }
        }
    }
}

/// The patch of the status of a silent node, with the node's uid and version as preconditions.
pub(super) fn silent_status(node: &View<WatchedNode>, now: Time) -> Value {
    let (meta, conditions) = (node.meta(), node.get::<Health>().conditions);
    let ready = conditions.ready.map(|ready| ready.status);
    let reported = [
        ("Ready", ready),
        ("MemoryPressure", conditions.memory_pressure),
        ("DiskPressure", conditions.disk_pressure),
        ("PIDPressure", conditions.pid_pressure),
    ];
    let changed: Vec<_> = reported
        .into_iter()
        .filter_map(|(kind, status)| match status {
            None => Some(json!({
                "type": kind, "status": "Unknown",
                "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": meta.created, "lastTransitionTime": now,
            })),
            Some(ConditionStatus::Unknown) => None,
            Some(_) => Some(json!({
                "type": kind, "status": "Unknown",
                "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            })),
        })
        .collect();
    json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": changed},
    })
}
