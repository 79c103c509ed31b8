//! Terminating pods that no kubelet will end.

use std::collections::HashMap;

use steersman_api::ArcStr;
use steersman_informer::View;

use super::{CollectedNode, CollectedPod};
use steersman_kinds::node::{Readiness, Taints};
use steersman_kinds::pod::Placement;

/// The taint by which an administrator confirms that the node is down, and that its pods will not run when it comes back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The terminating pods on nodes that are not ready and have the taint [`OUT_OF_SERVICE`].
pub(super) fn out_of_service<'a>(
    pods: &'a [View<CollectedPod>],
    nodes: &HashMap<ArcStr, Option<View<CollectedNode>>>,
) -> impl Iterator<Item = &'a View<CollectedPod>> {
    let down = |node: &View<CollectedNode>| {
        !node.get::<Readiness>().ready.is_true() && node.get::<Taints>().has(OUT_OF_SERVICE)
    };
    let is_down = move |node: &str| nodes.get(node).and_then(Option::as_ref).is_some_and(down);
    terminating(pods).filter(move |pod| is_down(&pod.get::<Placement>().node))
}

/// The terminating pods that were never scheduled: no kubelet knows them.
pub(super) fn unscheduled(pods: &[View<CollectedPod>]) -> impl Iterator<Item = &View<CollectedPod>> {
    terminating(pods).filter(|pod| pod.get::<Placement>().node.is_empty())
}

fn terminating(pods: &[View<CollectedPod>]) -> impl Iterator<Item = &View<CollectedPod>> {
    pods.iter().filter(|pod| pod.meta().is_deleting())
}
