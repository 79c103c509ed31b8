//! What a sync knows of a DaemonSet, its pods and the nodes.

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::{ArcStr, LabelSelector, Meta};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::controller::StepResult;
use steersman_informer::wire::{IntOrString, Opaque};

use super::history::Revision;
use super::placement::Verdict;
use super::plan::{Cause, Outcome, Step};
use super::pods::{Pod, PodRef};
use super::sites::Sites;
use super::status::Status;

/// A DaemonSet, its pods and revisions, and the nodes, as they were found and as this sync has changed them since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The DaemonSet.
    pub set: Set,
    /// All nodes of the cluster, by name, and whether the DaemonSet wants a pod on each.
    pub nodes: Vec<(ArcStr, Verdict)>,
    /// The pods that the DaemonSet has, or could adopt.
    pub pods: Vec<Pod>,
    /// The revisions that the DaemonSet has, or could adopt.
    pub revisions: Vec<Revision>,
    /// The nodes whose failed pods must not be deleted yet, and how long they wait.
    pub back_off: HashMap<ArcStr, Duration>,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// What the sync has done already.
    pub done: Done,
}

/// A DaemonSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The selector of the DaemonSet's pods and revisions.
    pub selector: LabelSelector,
    /// How pods of an older template are replaced.
    pub strategy: UpdateStrategy,
    /// How long a pod must be ready until it counts as available.
    pub min_ready: Duration,
    /// The number of revisions to keep that no pod has.
    pub history_limit: usize,
    /// The number of the template, which pods have in a label.
    pub template_generation: Option<i64>,
    /// The pod template.
    pub template: Opaque,
    /// The stored status.
    pub status: Status,
}

/// How pods of an older template are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum UpdateStrategy {
    /// The controller replaces them once somebody else has deleted them.
    #[default]
    OnDelete,
    /// The controller replaces them, a few at a time.
    RollingUpdate {
        /// How many nodes may be without an available pod: a number or a percentage.
        max_unavailable: Option<IntOrString>,
        /// How many nodes may have a new pod beside their available old one: a number or a percentage.
        max_surge: Option<IntOrString>,
    },
}

/// What a sync does at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// The DaemonSet is gone.
    pub gone: bool,
    /// A live read has shown that the DaemonSet may adopt.
    pub alive: bool,
    /// Pods were deleted.
    pub deleted: bool,
    /// Pods were created.
    pub created: bool,
    /// Why pods were deleted or created.
    pub cause: Option<Cause>,
    /// The new revision's name was taken, and the collision count has not been raised since.
    pub collided: bool,
    /// A pod could not be created or deleted, or a revision not be deleted.
    pub failed: bool,
}

impl Observed {
    /// Whether the DaemonSet has pods for nodes that do not exist.
    pub(super) fn has_stranded_pods(&self) -> bool {
        !Sites::of(self).vanished.is_empty()
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        match &step {
            Step::Delete { cause, .. } => (self.done.deleted, self.done.cause) = (true, Some(*cause)),
            Step::Create { cause, .. } => (self.done.created, self.done.cause) = (true, Some(*cause)),
            _ => {}
        }
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Skipped => return,
            StepResult::Failed(_) => {
                self.done.failed = true;
                return;
            }
        };
        match (step, outcome) {
            (Step::Confirm, Outcome::Observed(Some(observed))) => *self = *observed,
            (Step::Confirm, _) | (Step::WriteStatus(_) | Step::CreateRevision { .. }, Outcome::Gone) => {
                self.done.gone = true
            }
            (Step::CheckAlive, _) => self.done.alive = true,
            (Step::Release(pod), _)
            | (Step::Adopt(pod) | Step::Delete { pod, .. } | Step::Relabel { pod, .. }, Outcome::Gone) => {
                self.pods.retain(|other| other.uid != pod.uid);
            }
            (Step::Adopt(pod), _) => self.change(&pod, |pod| pod.claim = Claim::Owned),
            (Step::Relabel { pod, hash }, _) => self.change(&pod, |pod| pod.hash = hash.clone()),
            (Step::Delete { pod, .. }, _) => self.change(&pod, |pod| pod.deleting = true),
            (Step::Create { .. }, Outcome::Created(pod)) => self.pods.push(*pod),
            (Step::CreateRevision { .. }, Outcome::Revision(revision)) => self.revisions.push(*revision),
            (Step::CreateRevision { .. }, Outcome::Collision) => self.done.collided = true,
            (
                Step::AdoptRevision(before)
                | Step::LabelRevision(before)
                | Step::RenumberRevision { revision: before, .. },
                Outcome::Revision(after),
            ) => self
                .revisions
                .iter_mut()
                .filter(|one| one.uid == before.uid)
                .for_each(|one| *one = (*after).clone()),
            (
                Step::AdoptRevision(gone)
                | Step::ReleaseRevision(gone)
                | Step::LabelRevision(gone)
                | Step::RenumberRevision { revision: gone, .. }
                | Step::DeleteRevision(gone),
                _,
            ) => self.revisions.retain(|one| one.uid != gone.uid),
            (Step::WriteStatus(status), Outcome::Written(version)) => {
                (self.set.status, self.set.meta.resource_version) = (*status, version);
                self.done.collided = false;
            }
            (Step::WriteStatus(_) | Step::CreateRevision { .. } | Step::Create { .. }, _) => {}
        }
    }

    fn change(&mut self, pod: &PodRef, change: impl FnMut(&mut Pod)) {
        self.pods.iter_mut().filter(|other| other.uid == pod.uid).take(1).for_each(change);
    }
}
