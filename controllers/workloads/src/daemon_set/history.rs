//! The revisions of a DaemonSet's template.

use std::collections::HashSet;

use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_controller::children::Claim;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::observed::Observed;
use super::plan::Step;

/// A stored revision of a DaemonSet's template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the revision from other revisions of that name.
    pub uid: Uid,
    /// What the revision is to the DaemonSet.
    pub claim: Claim,
    /// The hash that the pods of the revision have in a label, from the revision's own label. Empty if the revision lacks the
    /// label.
    pub hash: ArcStr,
    /// The revision's number. Later revisions have higher numbers.
    pub number: i64,
    /// Whether the revision has the DaemonSet's template of now.
    pub is_current: bool,
}

/// The next steps for a DaemonSet's revisions.
pub(super) enum History<'a> {
    /// The revisions must first be put in order.
    Unsettled(Plan<Step>),
    /// There is one revision of the current template.
    Settled {
        /// That revision.
        current: &'a Revision,
        /// The revisions of other templates.
        old: Vec<&'a Revision>,
    },
}

impl<'a> History<'a> {
    /// Upstream's `constructHistory`: each revision has a hash; exactly one has the current template, and its number is the
    /// highest.
    ///
    /// One difference: if several revisions have the current template, upstream gives the label of the one that stays to
    /// *all* pods. Pods of older templates would then pass for updated ones, so that only the pods of the other duplicates
    /// get it here.
    pub(super) fn of(observed: &'a Observed) -> Self {
        let owned = || observed.revisions.iter().filter(|revision| revision.claim == Claim::Owned);
        let unlabelled: Vec<Step> = owned()
            .filter(|revision| revision.hash.is_empty())
            .map(|revision| Step::LabelRevision(revision.clone()))
            .collect();
        if !unlabelled.is_empty() {
            return Self::Unsettled(in_order(unlabelled));
        }
        let (same, old): (Vec<_>, Vec<_>) = owned().partition(|revision| revision.is_current);
        let number = old.iter().map(|revision| revision.number).max().unwrap_or(0).max(0).saturating_add(1);
        let Some(current) = same.iter().copied().max_by_key(|revision| (revision.number, &revision.key.name))
        else {
            return Self::Unsettled(Plan::step(Step::CreateRevision { number }));
        };
        let duplicates = || same.iter().filter(|revision| revision.uid != current.uid);
        let relabel: Vec<Step> = observed
            .pods
            .iter()
            .filter(|pod| pod.claim == Claim::Owned && duplicates().any(|other| other.hash == pod.hash))
            .filter(|pod| pod.hash != current.hash)
            .map(|pod| Step::Relabel { pod: pod.reference(), hash: current.hash.clone() })
            .collect();
        if !relabel.is_empty() {
            return Self::Unsettled(in_order(relabel));
        }
        let surplus: Vec<Step> = duplicates().map(|other| Step::DeleteRevision((*other).clone())).collect();
        if !surplus.is_empty() {
            return Self::Unsettled(in_order(surplus));
        }
        if current.number < number {
            return Self::Unsettled(Plan::step(Step::RenumberRevision { revision: current.clone(), number }));
        }
        Self::Settled { current, old }
    }
}

/// The old revisions to delete: the oldest beyond the DaemonSet's limit, unless a pod has them. Upstream's `cleanupHistory`.
pub(super) fn trim(observed: &Observed, mut old: Vec<&Revision>) -> Option<Plan<Step>> {
    let surplus = old.len().checked_sub(observed.set.history_limit).filter(|surplus| *surplus > 0)?;
    let pods = observed.pods.iter().filter(|pod| pod.claim == Claim::Owned && !pod.node.is_empty());
    let live: HashSet<&ArcStr> = pods.map(|pod| &pod.hash).collect();
    old.sort_by(|a, b| (a.number, &a.key.name).cmp(&(b.number, &b.key.name)));
    let unused = old.into_iter().filter(|revision| !live.contains(&revision.hash)).take(surplus);
    let steps: Vec<Step> = unused.map(|revision| Step::DeleteRevision(revision.clone())).collect();
    let batch = Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::PlanAgain };
    (!batch.steps.is_empty()).then_some(Plan::Act(batch))
}

fn in_order(steps: Vec<Step>) -> Plan<Step> {
    Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop })
}
