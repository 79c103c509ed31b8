//! Pods that are to end, where no kubelet will end them.

use std::collections::HashMap;

use steersman_api::ArcStr;
use steersman_informer::View;

use super::{CollectedNode, CollectedPod};
use steersman_kinds::node::{Readiness, Taints};
use steersman_kinds::pod::Placement;

/// By this taint somebody promises that the node is down, and will not come back with its pods still running.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Those on nodes that are not ready, and that somebody has said to be out of service.
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

/// Those that were never scheduled: there is no kubelet to end them.
pub(super) fn unscheduled(pods: &[View<CollectedPod>]) -> impl Iterator<Item = &View<CollectedPod>> {
    terminating(pods).filter(|pod| pod.get::<Placement>().node.is_empty())
}

fn terminating(pods: &[View<CollectedPod>]) -> impl Iterator<Item = &View<CollectedPod>> {
    pods.iter().filter(|pod| pod.meta().is_deleting())
}
