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

use super::taints::{TaintChange, no_execute};
use super::{WatchedNode, WatchedPod};

/// Writes nodes and pods.
pub(super) struct Writes {
    pub nodes: Client<Node>,
    pub pods: Client<Pod>,
    pub recorder: Recorder,
    pub clock: Clock,
}

/// What became of a change of taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tainted {
    /// The node's taints are others now.
    Changed,
    /// There was nothing to change, or the node is gone.
    Nothing,
}

/// How often a change of taints is tried against other writers, as upstream's `UpdateTaintBackoff`.
const TRIES: usize = 5;

impl Writes {
    /// Changes the taints of a node. A node that is gone, or another one of that name, needs nothing.
    pub(super) async fn taint(
        &self,
        node: &str,
        uid: &Uid,
        change: &TaintChange,
    ) -> Result<Tainted, SyncError> {
        self.retaint(node, uid, |_| change.clone()).await
    }

    /// Gives a node the taint with the effect `NoExecute` that its condition `Ready` asks for, in place of the other one.
    ///
    /// Decides on the condition that the API server has: a node that is well again keeps its pods, however late the cache is.
    pub(super) async fn drive_away(&self, node: &str, uid: &Uid) -> Result<Tainted, SyncError> {
        self.retaint(node, uid, |node| no_execute(&node["status"]["conditions"])).await
    }

    /// Makes the change that `decide` returns for the node as the API server has it, on its list of taints there, so that
    /// fields of taints that this program does not know survive.
    async fn retaint(
        &self,
        node: &str,
        uid: &Uid,
        decide: impl Fn(&Value) -> TaintChange,
    ) -> Result<Tainted, SyncError> {
        let key = ObjectKey::new("", node);
        for _ in 0..TRIES {
            let Some(found) = self.nodes.resource().get_json(&key).await? else {
                return Ok(Tainted::Nothing);
            };
            if found["metadata"]["uid"] != uid.to_string() {
                return Ok(Tainted::Nothing);
            }
            let Some(taints) = decide(&found).applied(&found["spec"]["taints"], self.clock.now()) else {
                return Ok(Tainted::Nothing);
            };
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"taints": taints},
            });
            match self.nodes.patch(&key, &Patch::Merge(patch)).await? {
                Changed::Now(_) => return Ok(Tainted::Changed),
                Changed::Gone => return Ok(Tainted::Nothing),
                Changed::Conflict(_) => {}
            }
        }
        Err(SyncError::Failed(format!("tainting Node {node}: other writers came first")))
    }

    /// Sets labels of a node.
    pub(super) async fn label(
        &self,
        node: &ObjectKey,
        uid: &Uid,
        labels: &[(&str, ArcStr)],
    ) -> Result<(), SyncError> {
        let labels: Map<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect();
        let patch = Patch::Strategic(json!({"metadata": {"uid": uid, "labels": labels}}));
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
