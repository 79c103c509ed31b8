//! Which aggregated roles a changed role concerns.

use steersman_api::{LabelSelector, ObjectKey};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, IndexValue, Informer, Lister, View};
use steersman_kinds::cluster_role::{Aggregation, Rules};

use super::Role;

/// The one value of the index of aggregated roles.
const AGGREGATED: &str = "aggregated";

/// Queues the aggregated roles that a changed role concerns: the role itself, and those that select it or have selected it.
pub(super) fn map(roles: &Informer<Role>, queue: &WorkQueue<ObjectKey>) {
    let index = roles.add_index("aggregated", |role| match role.get::<Aggregation>().0 {
        Some(_) => vec![AGGREGATED.into()],
        None => Vec::new(),
    });
    let (lister, queue) = (roles.lister(), queue.clone());
    roles.map(move |change| {
        if change.new().is_some_and(|role| role.get::<Aggregation>().0.is_some()) {
            queue.add(change.key().clone());
        }
        if is_part_changed(change) {
            aggregating(&lister, &index, change).into_iter().for_each(|role| queue.add(role));
        }
    });
}

/// Whether other roles may have to change. A resync queues each aggregated role by itself.
fn is_part_changed(change: &Change<Role>) -> bool {
    let part = |role: &View<Role>| (role.meta().labels.clone(), role.get::<Rules>().clone());
    match change {
        Change::Updated { old, new, .. } => part(old) != part(new),
        Change::Resync { .. } => false,
        _ => true,
    }
}

/// The roles that select the changed role, by its old labels or its new ones.
fn aggregating(roles: &Lister<Role>, index: &Index<Role>, change: &Change<Role>) -> Vec<ObjectKey> {
    let value = IndexValue::from(AGGREGATED);
    let Ok(aggregated) = roles.by_index(index, &value) else {
        // One of them can't be read, so it may select the changed role.
        let mut all = Vec::new();
        roles.for_each_meta_by_index(index, &value, |role| all.push(role.key.clone()));
        return all;
    };
    let states = [change.old(), change.new()];
    let is_selected = |selectors: &[LabelSelector]| {
        let mut labels = states.iter().flatten().map(|state| &state.meta().labels);
        labels.any(|labels| selectors.iter().any(|selector| selector.matches(labels)))
    };
    let selecting = aggregated.iter().filter(|role| {
        // The sync of a role whose selectors are invalid fails, and must be tried again.
        super::plan::selectors(role).map_or(true, |selectors| is_selected(&selectors))
    });
    selecting.map(|role| role.meta().key.clone()).collect()
}
