//! Which sets a change concerns, and how soon they are synced.

use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_controller::children::Children;
use steersman_informer::wire::Selection;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Informer};
use steersman_kinds::stateful_set::StatefulSet;

use crate::revisions::History;

use super::{OwnedClaim, SyncedStatefulSet, identity};

/// How soon a set is synced. A set that changes does not wait for those that are only looked at again (k/k#68179).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Nothing may have changed: the cache was filled, or told of all objects again.
    Resync,
    /// Something has changed.
    #[default]
    Change,
}

impl Urgency {
    fn of<S: Selection>(change: &Change<S>) -> Self {
        match change {
            Change::Resync { .. } | Change::Added { initial: true, .. } => Self::Resync,
            Change::Added { .. } | Change::Updated { .. } | Change::Deleted { .. } => Self::Change,
        }
    }
}

/// Puts the keys of sets into `queue`: of each set that changes, and of the sets that a changed pod concerns. A changed claim
/// or revision only wakes a set that waits for the cache, except that a claim which is gone may be made again.
pub(super) fn map(
    children: &Arc<Children<SyncedStatefulSet>>,
    claims: &Informer<OwnedClaim>,
    history: &History<StatefulSet>,
    queue: &WorkQueue<ObjectKey, Urgency>,
) {
    let (sets, pods) = children.informers();
    let to = queue.clone();
    sets.map(move |change| to.add_with_priority(change.key().clone(), Urgency::of(change)));
    let (family, to) = (Arc::downgrade(children), queue.clone());
    pods.map(move |change| {
        let Some(family) = family.upgrade() else { return };
        let urgency = Urgency::of(change);
        family.child_changed(change, &|set| {
            to.wake(set);
            to.add_with_priority(set.clone(), urgency);
        });
    });
    let (family, to) = (Arc::downgrade(children), queue.clone());
    claims.map(move |change| {
        let Some(family) = family.upgrade() else { return };
        // Not by its labels: a selector may demand more than those that a claim gets, and anybody may change them.
        for set in by_name(change.key()).filter(|set| family.owners().meta(set).is_some()) {
            to.wake(&set);
            if matches!(change, Change::Deleted { .. }) {
                to.add(set);
            }
        }
    });
    let (family, to) = (Arc::downgrade(children), queue.clone());
    history.informer().map(move |change| {
        if let Some(family) = family.upgrade() {
            family.dependent_changed(change, &|set| to.wake(set));
        }
    });
}

/// The sets to which a claim can belong by its name, which is `TEMPLATE-SET-ORDINAL`. Template and set may have dashes.
fn by_name(claim: &ObjectKey) -> impl Iterator<Item = ObjectKey> + '_ {
    let stem = identity::split(&claim.name).map_or("", |(stem, _)| stem);
    stem.match_indices('-').map(|(at, _)| ObjectKey::new(claim.namespace.clone(), &stem[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use steersman_informer::View;
    use steersman_informer::work_queue::QueueConfig;
    use tokio::time::Instant;

    use super::*;

    fn set(name: &str) -> View<SyncedStatefulSet> {
        View::from_json(&json!({"metadata": {"namespace": "ns", "name": name}, "spec": {}, "status": {}}))
    }

    #[test]
    fn only_a_filled_cache_and_a_resync_can_wait() {
        let (old, new) = (|| set("a"), || set("a"));
        for (change, expected) in [
            (Change::Resync { object: new() }, Urgency::Resync),
            (Change::Added { object: new(), initial: true }, Urgency::Resync),
            (Change::Added { object: new(), initial: false }, Urgency::Change),
            (Change::Updated { old: old(), new: new() }, Urgency::Change),
            (Change::Deleted { last: old() }, Urgency::Change),
        ] {
            assert_eq!(Urgency::of(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn a_claim_belongs_to_any_set_whose_name_is_in_its_own() {
        for (claim, expected) in [
            ("data-web-0", &["web"][..]),
            ("data-web-1-0", &["web-1", "1"]),
            ("my-data-web-10", &["data-web", "web"]),
            ("web-0", &[]),
            ("data-web", &[]),
            ("data", &[]),
        ] {
            let claim = ObjectKey::new("ns", claim);
            let expected: Vec<_> = expected.iter().map(|set| ObjectKey::new("ns", *set)).collect();
            assert_eq!(by_name(&claim).collect::<Vec<_>>(), expected, "{claim}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_ten_thousand_sets_that_are_only_looked_at_again() {
        const SYNC: Duration = Duration::from_millis(10);
        let queue = WorkQueue::<ObjectKey, Urgency>::new(QueueConfig::new("statefulset"));
        let add = |change: &Change<SyncedStatefulSet>| {
            queue.add_with_priority(change.key().clone(), Urgency::of(change));
        };
        for number in 0..10_000 {
            add(&Change::Resync { object: set(&format!("web-{number}")) });
        }
        // A worker is in the middle of the resync when two sets change, one of which waits in the queue already.
        let first = queue.get().await.unwrap();
        add(&Change::Updated { old: set("web-9999"), new: set("web-9999") });
        add(&Change::Added { object: set("new"), initial: false });
        let changed = Instant::now();
        tokio::time::sleep(SYNC).await;
        first.finish();
        let mut waits = Vec::new();
        for _ in 0..3 {
            let taken = queue.get().await.unwrap();
            waits.push((taken.key().name.to_string(), changed.elapsed()));
            tokio::time::sleep(SYNC).await;
            taken.finish();
        }
        let expected =
            ["web-9999", "new", "web-1"].map(str::to_owned).into_iter().zip([SYNC, SYNC * 2, SYNC * 3]);
        assert_eq!(waits, expected.collect::<Vec<_>>());
    }
}
