//! What a sync knows of an owner and its pods.

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::meta::LabelMap;
use steersman_api::{ArcStr, Meta, ResourceVersion};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::controller::StepResult;
use steersman_informer::wire::Opaque;

use super::plan::{Outcome, PodRef, Step};
use super::pods::Pod;
use super::status::{Failure, Status};

/// An owner and its pods as they were found, and as this sync has changed them since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The owner.
    pub owner: Owner,
    /// The pods that the owner has, or could adopt.
    pub pods: Vec<Pod>,
    /// The number of active pods of this owner and its siblings on each node.
    pub on_node: HashMap<ArcStr, usize>,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// What the feature gates switch on.
    pub features: Features,
    /// Why pods could not be created or deleted in this sync.
    pub failure: Option<Failure>,
    /// What the sync has done already.
    pub done: Done,
}

/// A ReplicaSet or a ReplicationController.
#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The number of pods that the owner wants.
    pub replicas: usize,
    /// How long a pod must be ready until it counts as available.
    pub min_ready: Duration,
    /// The labels of the pod template.
    pub template_labels: LabelMap,
    /// The pod template.
    pub template: Opaque,
    /// The stored status.
    pub status: Status,
}

/// The features that gates switch on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Sets `terminatingReplicas` in the status. The gate is `DeploymentReplicaSetTerminatingReplicas`; ReplicationControllers
    /// never have the field.
    pub terminating_replicas: bool,
    /// Deletes pods with a lower deletion cost first. The gate is `PodDeletionCost`.
    pub deletion_cost: bool,
}

/// What a sync does at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// The owner is gone.
    pub gone: bool,
    /// A live read has shown that the owner may adopt.
    pub alive: bool,
    /// Pods were created or deleted.
    pub managed: bool,
}

impl Observed {
    /// The pods that the owner has.
    pub(super) fn owned(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.claim == Claim::Owned)
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        let reason = match &step {
            Step::Create => Some("FailedCreate"),
            Step::Delete { .. } => Some("FailedDelete"),
            _ => None,
        };
        self.done.managed |= reason.is_some();
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Skipped => return,
            StepResult::Failed(error) => {
                if let (Some(reason), None) = (reason, &self.failure) {
                    // As upstream: the API server's own words.
                    let message =
                        error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
                    self.failure = Some(Failure { reason, message });
                }
                return;
            }
        };
        match (step, outcome) {
            (Step::Confirm, Outcome::Observed(Some(observed))) => *self = *observed,
            (Step::Confirm, _) => self.done.gone = true,
            (Step::CheckAlive, _) => self.done.alive = true,
            (Step::Create, Outcome::Created(pod)) => self.pods.push(*pod),
            (Step::Release(pod), _) | (Step::Adopt(pod) | Step::Delete { pod, .. }, Outcome::Gone) => {
                self.pods.retain(|other| other.uid != pod.uid);
            }
            (Step::Adopt(pod), _) => self.change(&pod, |pod| pod.claim = Claim::Owned),
            (Step::Delete { pod, .. }, _) => self.change(&pod, |pod| pod.deleting = true),
            (Step::WriteStatus(status), Outcome::Written(version)) => self.written(*status, version),
            (Step::WriteStatus(_), _) => self.done.gone = true,
            (Step::Create, _) => {}
        }
    }

    fn change(&mut self, pod: &PodRef, change: impl FnMut(&mut Pod)) {
        self.pods.iter_mut().filter(|other| other.uid == pod.uid).take(1).for_each(change);
    }

    fn written(&mut self, status: Status, version: ResourceVersion) {
        self.owner.status = status;
        self.owner.meta.resource_version = version;
    }
}
