//! Pods whose node is gone.

use std::collections::{BTreeSet, HashMap};

use steersman_api::ArcStr;
use steersman_informer::View;

use super::{CollectedNode, CollectedPod};
use steersman_kinds::pod::Placement;

/// The nodes that pods name and that the cache does not have. They may exist: a node may be newer than the cache.
pub(super) fn unknown_nodes(
    pods: &[View<CollectedPod>],
    nodes: &HashMap<ArcStr, Option<View<CollectedNode>>>,
) -> BTreeSet<ArcStr> {
    let named = pods.iter().map(|pod| pod.get::<Placement>().node.as_arc());
    named.filter(|node| !node.is_empty() && !nodes.contains_key(*node)).cloned().collect()
}

/// The pods on nodes that do not exist, as the API server confirmed.
pub(super) fn orphaned<'a>(
    pods: &'a [View<CollectedPod>],
    gone: &BTreeSet<ArcStr>,
) -> impl Iterator<Item = &'a View<CollectedPod>> {
    pods.iter().filter(|pod| gone.contains(pod.get::<Placement>().node.as_arc()))
}
