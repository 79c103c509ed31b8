//! The pods of ReplicaSets, which the strategy `Recreate` waits for.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey};
use steersman_controller::children::{Children, is_child_of};
use steersman_controller::context::ControllerContext;
use steersman_informer::index::{BY_CONTROLLER, by_controller};
use steersman_informer::wire::{Group, Kind};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{AnyInformer, Change, Index, IndexValue, Informer, Lister, View};
use steersman_kinds::deployment::{Deployment, DeploymentSpec};
use steersman_kinds::pod::Phase;
use steersman_kinds::replica_set::ReplicaSet;

use super::kinds::{DeploymentPod, DeploymentReplicaSet, SyncedDeployment};

/// The cached pods, by the ReplicaSets that own them.
pub(super) struct Pods {
    informer: Informer<DeploymentPod>,
    lister: Lister<DeploymentPod>,
    by_controller: Index<DeploymentPod>,
}

impl Pods {
    pub(super) fn new(context: &ControllerContext) -> Result<Self, steersman_informer::factory::Error> {
        let informer = context.informers.informer::<DeploymentPod>()?;
        let (lister, by_controller) = (informer.lister(), informer.add_index(BY_CONTROLLER, by_controller));
        Ok(Self { informer, lister, by_controller })
    }

    /// The cache, which must sync before the controller starts.
    pub(super) fn cache(&self) -> Arc<dyn AnyInformer> {
        self.informer.any()
    }

    /// Whether a pod of this ReplicaSet has not ended. A pod that can't be read counts as running.
    pub(super) fn run_for(&self, set: &Meta) -> bool {
        let owner = IndexValue::Owner(set.key.namespace.clone(), set.uid.clone());
        let owned = |pod: &Meta| is_child_of::<ReplicaSet>(pod, &set.key, &set.uid);
        let pods = self.lister.by_index_where(&self.by_controller, &owner, owned);
        pods.map_or(true, |pods| pods.iter().any(|pod| !has_ended(pod)))
    }

    /// Puts a Deployment into `queue` when one of its pods goes or ends and its strategy waits for that.
    pub(super) fn map_to(&self, queue: &WorkQueue<ObjectKey>, family: &Children<SyncedDeployment>) {
        let (deployments, sets, queue) = (family.owners().clone(), family.children().clone(), queue.clone());
        self.informer.map(move |change| {
            let pod = match change {
                Change::Deleted { last } => last,
                Change::Updated { old, new } if !has_ended(old) && has_ended(new) => new,
                _ => return,
            };
            if let Some(waiting) = waiting_for(pod.meta(), &deployments, &sets) {
                queue.add(waiting);
            }
        });
    }
}

/// The Deployment of a pod, if its strategy is `Recreate`.
fn waiting_for(
    pod: &Meta,
    deployments: &Lister<SyncedDeployment>,
    sets: &Lister<DeploymentReplicaSet>,
) -> Option<ObjectKey> {
    let namespace = &pod.key.namespace;
    let set = pod.controller().filter(|owner| owner.kind == ReplicaSet::KIND)?;
    let found = sets.meta(&ObjectKey::new(namespace.clone(), set.name.clone()))?;
    let deployment =
        found.controller().filter(|owner| owner.kind == Deployment::KIND && found.uid == set.uid)?;
    let found = deployments.get(&ObjectKey::new(namespace.clone(), deployment.name.clone())).ok()??;
    let spec = DeploymentSpec::of(found.object()).expect("the groups that the controller reads must be kept");
    let waits = found.meta().uid == deployment.uid && spec.strategy.kind == "Recreate";
    waits.then(|| found.meta().key.clone())
}

fn has_ended(pod: &View<DeploymentPod>) -> bool {
    let phase = Phase::of(pod.object()).expect("the groups that the controller reads must be kept");
    matches!(&*phase.phase, "Succeeded" | "Failed")
}
