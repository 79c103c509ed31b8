//! The pod manager: the pods of this node as their sources last told, static pods together with their mirrors.

mod index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::RwLock;
use steersman_api::Uid;

use index::Index;
pub use index::{AllPods, Paired};

use crate::status_manager::Pods;

/// The pods that this node is to run; a clone is the same. One writes: the sync loop.
///
/// It says what is wanted. What is running, and whether a pod that went from here still runs, the pod workers say.
///
/// A static pod and its mirror have the same name and namespace, which is all that ties them together: either may come or go
/// first. A mirror without a static pod is orphaned, and to be deleted.
#[derive(Debug, Clone, Default)]
pub struct PodManager {
    index: Arc<RwLock<Index>>,
}

impl PodManager {
    /// Without pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a pod or a mirror, new or changed.
    pub fn set(&self, pod: Arc<Pod>) {
        self.index.write().set(pod);
    }

    /// Forgets a pod or a mirror.
    pub fn remove(&self, pod: &Pod) {
        self.index.write().remove(pod);
    }

    /// The pod of that uid; never a mirror.
    pub fn pod(&self, uid: &Uid) -> Option<Arc<Pod>> {
        self.index.read().pods.get(uid).cloned()
    }

    /// The pod of that `name_namespace`; never a mirror.
    pub fn by_full_name(&self, full_name: &str) -> Option<Arc<Pod>> {
        self.index.read().by_full_name(full_name)
    }

    /// All pods, without mirrors, in no particular order.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.index.read().pods.values().cloned().collect()
    }

    /// All pods and mirrors, as of one moment.
    pub fn all(&self) -> AllPods {
        self.index.read().all()
    }

    /// A pod, or its mirror, together with the other, as far as it is known.
    pub fn paired(&self, pod: Arc<Pod>) -> Paired {
        self.index.read().paired(pod)
    }

    /// The static pod whose mirror has that uid, whether it is still there or not; any other uid is its own. For uids that come from outside.
    pub fn translate(&self, uid: &Uid) -> Uid {
        self.index.read().static_pod_of(uid).unwrap_or_else(|| uid.clone())
    }
}

impl Pods for PodManager {
    fn by_uid(&self, uid: &str) -> Option<Arc<Pod>> {
        let (uid, index) = (Uid::from(uid), self.index.read());
        index.pods.get(&uid).or_else(|| index.mirrors.get(&uid)).cloned()
    }

    fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        self.index.read().mirror_of(pod)
    }

    fn static_pod_of(&self, mirror_uid: &str) -> Option<String> {
        self.index.read().static_pod_of(&Uid::from(mirror_uid)).map(|uid| uid.to_string())
    }

    fn mirror_uid_of(&self, static_uid: &str) -> Option<String> {
        self.index.read().mirror_uid_of(&Uid::from(static_uid)).map(|uid| uid.to_string())
    }
}
