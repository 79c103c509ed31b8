//! What the status manager asks others.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

/// The pods of this node, as their sources last told.
pub trait Pods: Send + Sync + 'static {
    /// The pod of that uid; a static pod by its own, a mirror by the API server's.
    fn by_uid(&self, uid: &str) -> Option<Arc<Pod>>;
    /// The mirror of a static pod, if there is one.
    fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>>;
    /// The uid of the static pod that the mirror of that uid stands for, or stood for last; `None` if it is no mirror's.
    fn static_pod_of(&self, mirror_uid: &str) -> Option<String>;
    /// The uid of the mirror that is there of the static pod of that uid, whether the pod itself is still there or not.
    fn mirror_uid_of(&self, static_uid: &str) -> Option<String>;
}

/// What the pod workers know of the end of pods.
pub trait PodDeletionSafety: Send + Sync + 'static {
    /// Whether containers of the pod may be running, or be started. While that is so its end is not told, and it is not
    /// deleted.
    fn could_have_running_containers(&self, pod: &Pod) -> bool;
}
