//! What a sync knows of a StatefulSet, its pods, claims and revisions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use steersman_api::meta::LabelMap;
use steersman_api::{ArcStr, Meta, Uid};
use steersman_controller::children::{Claim as PodClaim, Grounds};
use steersman_controller::controller::StepResult;
use steersman_informer::wire::{IntOrString, Opaque};
use steersman_kinds::stateful_set::ClaimTemplate;

use super::claims::{Claim, Holders, Retention};
use super::identity::claim_name;
use super::plan::{Outcome, PodRef, Step};
use super::pods::{Phase, Pod};
use super::revisions::Revisions;
use super::status::Status;
use super::steps::{Did, Goal, PodStep};

/// A StatefulSet and what belongs to it, as it was found, and as this sync has changed it since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The set.
    pub set: Set,
    /// The pods that the set has, or could adopt.
    pub pods: Vec<Pod>,
    /// The existing claims of the set's pods, wanted and condemned, by name.
    pub claims: HashMap<ArcStr, Claim>,
    /// The set's revisions.
    pub revisions: Revisions,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// What the sync has done already.
    pub done: Done,
}

/// A StatefulSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The number of pods that the set wants.
    pub replicas: i32,
    /// The ordinal of the first pod.
    pub start: i32,
    /// The order in which pods are created and deleted.
    pub order: Order,
    /// How pods get a new template.
    pub update: Update,
    /// How long a pod must be ready until it counts as available.
    pub min_ready: Duration,
    /// How many revisions are kept besides those in use. All of them, if this is negative.
    pub history_limit: i32,
    /// What becomes of claims that no pod needs any more.
    pub retention: Retention,
    /// The headless service in whose domain the pods' names are.
    pub service_name: ArcStr,
    /// The labels that the set's selector demands, which its claims get.
    pub match_labels: LabelMap,
    /// The pod template.
    pub template: Opaque,
    /// The templates of each pod's claims.
    pub claims: Vec<ClaimTemplate>,
    /// Whether pods of broken revisions are replaced.
    pub replaces_broken_pods: bool,
    /// The stored status.
    pub status: Status,
}

/// The order in which pods are created and deleted: `podManagementPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// One after the other: a pod is created once all pods before it are available, and deleted once all pods after it are
    /// gone.
    #[default]
    Ready,
    /// All at once.
    Parallel,
}

/// How pods get a new template: `updateStrategy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Update {
    /// Whether a pod gets the new template only after somebody else deleted it.
    pub on_delete: bool,
    /// The number of pods, from the first, that keep the current revision. `None` if the strategy has no parameters.
    pub partition: Option<i32>,
    /// The number or percentage of pods that may be unavailable during an update. `None` unless the gate
    /// `MaxUnavailableStatefulSet` is on, in which case one pod is deleted at a time.
    pub max_unavailable: Option<IntOrString>,
}

/// What a sync does at most once.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// The set is gone.
    pub gone: bool,
    /// A live read has shown that the set may adopt.
    pub alive: bool,
    /// A write about a pod failed: the sync only reports, and ends with the error.
    pub failed: bool,
    /// What was tried for each ordinal. Nothing is tried twice in a sync.
    pub tried: HashSet<(Goal, i32)>,
    /// Whether pods were ever ready, as a live read has shown.
    pub ever_ready: HashMap<Uid, bool>,
}

impl Set {
    /// Whether the set wants the pod of an ordinal.
    pub(super) fn wants(&self, ordinal: i32) -> bool {
        ordinal >= self.start && i64::from(ordinal) < self.end()
    }

    /// The ordinal behind the last one that the set wants, which may be greater than any valid ordinal.
    pub(super) fn end(&self) -> i64 {
        self.behind(self.replicas)
    }

    /// The first ordinal that a rolling update reaches.
    pub(super) fn first_updated(&self) -> i64 {
        self.behind(self.update.partition.unwrap_or(0))
    }

    /// The ordinal behind the first `count` ones.
    fn behind(&self, count: i32) -> i64 {
        i64::from(self.start) + i64::from(count)
    }

    /// Whether a pod that is created now gets the current revision, and not the update revision.
    pub(super) fn starts_at_current(&self, ordinal: i32) -> bool {
        let current = match self.update.partition {
            Some(partition) => partition,
            None if self.update.on_delete => 0,
            None => self.status.current_replicas,
        };
        i64::from(ordinal) < self.behind(current)
    }

    /// Maximum number of pods that may be unavailable during an update: at least one. Percentages are rounded down.
    pub(super) fn max_unavailable(&self) -> i32 {
        let scaled = match &self.update.max_unavailable {
            None => 1,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
                let scaled = percent.unwrap_or(0).saturating_mul(i64::from(self.replicas)).div_euclid(100);
                i32::try_from(scaled).unwrap_or(i32::MAX)
            }
        };
        scaled.max(1)
    }

    /// The names of the volumes and of the claims that the pod of an ordinal must have.
    pub(super) fn storage(&self, ordinal: i32) -> impl Iterator<Item = (&ArcStr, ArcStr)> {
        let name = &self.meta.key.name;
        self.claims.iter().map(move |template| (&template.name, claim_name(&template.name, name, ordinal)))
    }
}

/// Maximum number of pods that a sync creates where pods are not ordered. As many as upstream creates at a time.
const BURST: usize = 500;

impl Observed {
    /// The wanted ordinals that this sync looks at, from the lowest: those whose pods exist, and the first few of the others.
    /// There are only so many, however many pods the set wants.
    pub(super) fn ordinals(&self) -> BTreeSet<i32> {
        let mut ordinals: BTreeSet<i32> = self.pods.iter().filter_map(|pod| pod.ordinal).collect();
        ordinals.retain(|ordinal| self.set.wants(*ordinal));
        let created = self.done.tried.iter().filter(|(goal, _)| *goal == Goal::Create).count();
        let at_most = match self.set.order {
            Order::Ready => 1,
            Order::Parallel => BURST.saturating_sub(created),
        };
        let wanted = (self.set.start..=i32::MAX).take_while(|ordinal| self.set.wants(*ordinal));
        let missing: Vec<i32> = wanted.filter(|ordinal| !ordinals.contains(ordinal)).take(at_most).collect();
        ordinals.extend(missing);
        ordinals
    }

    /// The pods that the set has and that have an ordinal.
    pub(super) fn numbered(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.claim == PodClaim::Owned && pod.ordinal.is_some())
    }

    /// The pods that the set does not want any more, from the highest ordinal to the lowest.
    pub(super) fn condemned(&self) -> Vec<&Pod> {
        let wanted = |pod: &&Pod| pod.ordinal.is_some_and(|ordinal| !self.set.wants(ordinal));
        let mut condemned: Vec<&Pod> = self.numbered().filter(wanted).collect();
        condemned.sort_by_key(|pod| std::cmp::Reverse(pod.ordinal));
        condemned
    }

    /// The set and the pod of an ordinal, as possible owners of the pod's claims. The pod may not exist yet.
    pub(super) fn holders(&self, ordinal: i32, pod: Option<&Pod>) -> Holders<'_> {
        let name = || super::identity::pod_key(&self.set.meta.key, ordinal).name;
        Holders {
            set: &self.set.meta,
            pod: pod.map_or_else(name, |pod| pod.key.name.clone()),
            pod_uid: pod.map_or_else(Uid::default, |pod| pod.uid.clone()),
            scaled_down: !self.set.wants(ordinal),
            retention: self.set.retention,
        }
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        if let Step::Pod(step) = &step {
            self.done.tried.insert((step.goal, step.ordinal));
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
            (Step::Confirm, _) => self.done.gone = true,
            (Step::CheckAlive, _) => self.done.alive = true,
            (Step::Adopt(pod), Outcome::Gone) | (Step::Release(pod), _) => self.remove(&pod),
            (Step::Adopt(pod), _) => {
                let adopted = self.pods.iter_mut().filter(|other| other.uid == pod.uid);
                adopted.take(1).for_each(|pod| pod.claim = PodClaim::Owned);
            }
            (Step::Revision(step), Outcome::Revision(outcome)) => self.revisions.absorb(&step, outcome),
            (Step::Inspect(pod), Outcome::EverReady(ready)) => {
                self.done.ever_ready.insert(pod.uid, ready);
            }
            (Step::Pod(step), Outcome::Pod(did)) => self.absorb_pod(&step, did),
            (Step::WriteStatus(status), Outcome::Written(version)) => {
                self.set.status = *status;
                self.set.meta.resource_version = version;
            }
            (Step::WriteStatus(_), _) => self.done.gone = true,
            (Step::Revision(_) | Step::Inspect(_) | Step::Pod(_), _) => {}
        }
    }

    fn absorb_pod(&mut self, step: &PodStep, did: Vec<Did>) {
        for did in did {
            match did {
                Did::Claim(name, claim) => _ = self.claims.insert(name, claim),
                Did::Pod(pod) => {
                    self.pods.retain(|other| other.key != pod.key);
                    self.pods.push(*pod);
                }
                Did::Deleted => {
                    let deleted = self.pods.iter_mut().filter(|pod| Some(&pod.uid) == step.uid.as_ref());
                    deleted.for_each(|pod| pod.deleting = true);
                }
                Did::Nothing => {}
            }
        }
    }

    fn remove(&mut self, pod: &PodRef) {
        self.pods.retain(|other| other.uid != pod.uid);
    }
}

impl Pod {
    /// Whether the pod can't serve: it is not ready for long enough, or is being deleted. Upstream's `isUnavailable`.
    pub(super) fn is_unavailable(&self, min_ready: Duration, now: steersman_api::Time) -> bool {
        self.deleting || !self.is_available(min_ready, now)
    }

    /// Whether the pod has ended, so that it is deleted to make room for its successor.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
}
