//! Rollbacks by the annotation `deprecated.deployment.rollback.to`. `kubectl rollout undo` patches the template instead.

use super::annotations::ROLLBACK_TO;
use super::observed::Observed;
use super::owner::Deployment;
use super::replica_set::{ReplicaSet, SetRef};

/// What comes of a wish to roll back. In any case the annotation is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RollBack {
    /// The Deployment gets the template and the annotations of this ReplicaSet.
    To {
        /// The ReplicaSet.
        set: SetRef,
        /// The ReplicaSet's revision.
        revision: i64,
    },
    /// The ReplicaSet of that revision has the Deployment's template.
    Unchanged,
    /// There is no earlier revision.
    NoLastRevision,
    /// No ReplicaSet has that revision.
    NoSuchRevision,
}

/// The revision that users want to roll back to. Anything but a number is ignored.
pub(super) fn wanted(deployment: &Deployment) -> Option<i64> {
    deployment.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// What comes of the wish to roll back to `revision`; 0 stands for the second highest one. Upstream's `rollback`.
pub(super) fn to(observed: &Observed, revision: i64) -> RollBack {
    let sets = || observed.old_sets().chain(observed.new_set());
    let revision = match revision {
        0 => match last_revision(sets()) {
            0 => return RollBack::NoLastRevision,
            last => last,
        },
        revision => revision,
    };
    match sets().find(|set| set.revision() == Some(revision)) {
        None => RollBack::NoSuchRevision,
        Some(set) if set.has_template => RollBack::Unchanged,
        Some(set) => RollBack::To { set: set.reference.clone(), revision },
    }
}

/// The second highest revision, or 0. Upstream's `LastRevision`.
fn last_revision<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for revision in sets.filter_map(ReplicaSet::revision) {
        if revision >= highest {
            (highest, second) = (revision, highest);
        } else {
            second = second.max(revision);
        }
    }
    second
}
