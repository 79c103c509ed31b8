//! What the sync loop leaves to the node agent.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use crate::admission::{Admission, Rejection};
use crate::container::RuntimePod;

/// Decides and does what is not about the order of things.
#[async_trait]
pub trait Agent: Send + Sync + 'static {
    /// Whether a pod that a source just told of can run on this node beside `others`, all pods that are active. Called for one
    /// pod after the other, the oldest first; must not wait.
    ///
    /// # Errors
    /// Why not: the pod fails with it.
    fn admit(&self, pod: &Arc<Pod>, others: &[Arc<Pod>]) -> Result<Admission, Rejection>;

    /// Reads the Node anew, for those that follow. One that can't be read stays as it is known.
    async fn read_node(&self);

    /// The pods that were there before the agent was have been admitted, as far as their sources told of them in time. From now
    /// on a node that runs short may refuse pods: before, it would end those that run.
    fn settled(&self);

    /// Forgets what is kept in memory of all pods but these, such as their probes. Must not wait.
    fn keep_only(&self, possibly_running: &HashSet<Uid>);

    /// What there is on the node of any pod, wanted or not. The runtime must be asked anew.
    ///
    /// # Errors
    /// In words: it cannot all be told. Nothing is cleaned up then.
    async fn observe(&self) -> Result<OnNode, String>;

    /// Takes away what no pod has any more. What fails is found again two seconds later.
    ///
    /// Pods go on coming meanwhile: one may come under a uid of the list, if it is a static pod that has a fixed one. So right
    /// before each removal [`States`](crate::pod_workers::States) should be asked once more.
    async fn clean_up(&self, work: CleanUp);
}

/// What there is on the node.
#[derive(Debug, Clone, Default)]
pub struct OnNode {
    /// Pods of which the runtime has a container or a sandbox that runs.
    pub running: Vec<RuntimePod>,
    /// Pods that have a cgroup.
    pub cgroups: HashSet<Uid>,
    /// Pods that have a folder.
    pub folders: HashSet<Uid>,
}

/// What no pod has any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CleanUp {
    /// Cgroups of pods of which nothing runs. Where a pod's volumes are still mounted its cgroup must stay until they are not.
    pub cgroups: Vec<Uid>,
    /// Folders of pods that neither a source nor a worker nor the runtime has. Volumes in them may still be mounted.
    pub folders: Vec<Uid>,
    /// Mirrors whose static pod is gone and has ended.
    pub mirrors: Vec<Arc<Pod>>,
}

impl CleanUp {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.cgroups.is_empty() && self.folders.is_empty() && self.mirrors.is_empty()
    }
}
