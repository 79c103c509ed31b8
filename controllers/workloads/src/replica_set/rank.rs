//! Which pods go first when an owner has too many.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};

use steersman_api::{ArcStr, Time, Uid};

use super::observed::Features;
use super::pods::Pod;

/// Sorts pods so that those come first that should be deleted first, as upstream's `ActivePodsWithRanks`:
///
/// 1. pods without a node;
/// 2. pending pods, then those of unknown phase, then running ones;
/// 3. pods that are not ready;
/// 4. pods of lower deletion cost, if the gate `PodDeletionCost` is on;
/// 5. pods on nodes with more active pods of the same owner and its siblings. `on_node` has their numbers;
/// 6. of ready pods, those that became ready later. Upstream compares the times' logarithms, so that pods of similar age
///    are taken at random: by their uids;
/// 7. pods whose containers were restarted more often;
/// 8. younger pods, compared as in 6.
///
/// Upstream's order has cycles: of ready pods of similar age, it compares those that became ready in the same second by 7
/// and 8, and the others by uid. A sort needs an order without cycles. So here, pods that became ready in the same second
/// form a class, and classes of similar age are compared by the smallest uid in each.
pub(super) fn sort(pods: &mut [&Pod], on_node: &HashMap<ArcStr, usize>, features: Features, now: Time) {
    let mut classes: BTreeMap<Time, Uid> = BTreeMap::new();
    for pod in pods.iter() {
        if let Some(Some(since)) = pod.ready {
            let class = classes.entry(since).or_insert_with(|| pod.uid.clone());
            if pod.uid < *class {
                *class = pod.uid.clone();
            }
        }
    }
    let class = |pod: &Pod| pod.ready.flatten().and_then(|since| classes.get(&since));
    let count = |pod: &Pod| on_node.get(&pod.node).copied().unwrap_or(0);
    let cost = |pod: &Pod| features.deletion_cost.then_some(pod.deletion_cost);
    let ranked =
        |pod: &Pod| (!pod.node.is_empty(), pod.phase, pod.ready.is_some(), cost(pod), Reverse(count(pod)));
    pods.sort_by(|a, b| {
        ranked(a)
            .cmp(&ranked(b))
            .then_with(|| younger_first(a.ready.flatten(), b.ready.flatten(), now))
            .then_with(|| class(a).cmp(&class(b)))
            .then_with(|| b.max_restarts.cmp(&a.max_restarts))
            .then_with(|| younger_first(a.created, b.created, now))
            .then_with(|| a.uid.cmp(&b.uid))
    });
}

/// Compares two times by the logarithms of their ages. An absent time counts as the youngest.
fn younger_first(a: Option<Time>, b: Option<Time>, now: Time) -> Ordering {
    let age = |time: Option<Time>| time.map(|time| logarithm(now.since(time)));
    age(a).cmp(&age(b))
}

/// The logarithm to base 2 of an age in nanoseconds, rounded down. -1 for an age of zero.
fn logarithm(age: std::time::Duration) -> i64 {
    age.as_nanos().checked_ilog2().map_or(-1, i64::from)
}
