//! What the server asks of the node agent.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman_api::Uid;

use super::resource_metrics::NodeUsage;

/// The agent, as its server sees it. No call may wait.
pub trait Host: Send + Sync + 'static {
    /// The pods that the node has to run, static ones included, their mirrors not; with the newest status there is.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// The one of that name, likewise.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>>;

    /// The newest status of a pod that [`pod`](Self::pod) gave; `None` where it has none yet but that in the pod itself.
    fn pod_status(&self, pod: &Pod) -> Option<PodStatus>;

    /// The uid by which the runtime knows a pod: for that of a mirror, that of its static pod; else the same.
    fn translate_pod_uid(&self, uid: &Uid) -> Uid;

    /// Whether the sync loop turns.
    ///
    /// # Errors
    /// It does not; in words, upstream's `sync Loop took longer than expected`.
    fn sync_loop_health(&self) -> Result<(), String>;

    /// What the whole machine uses now. Blocking, shortly.
    ///
    /// # Errors
    /// It can't be measured; in words.
    fn node_usage(&self) -> Result<NodeUsage, String>;

    /// The configuration in force, of kind KubeletConfiguration.
    fn configuration(&self) -> serde_json::Value;
}
