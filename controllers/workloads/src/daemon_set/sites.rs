//! A DaemonSet's pods, by the node that each is for.

use std::collections::HashMap;

use steersman_api::ArcStr;
use steersman_controller::children::Claim;

use super::observed::Observed;
use super::placement::Verdict;
use super::pods::Pod;

/// The nodes of the cluster and the DaemonSet's pods for each.
///
/// Leaves out pods that are over, and pods that are for no single node. Upstream's `getNodesToDaemonPods`.
pub(super) struct Sites<'a> {
    /// The nodes, in the order of the observation.
    pub nodes: Vec<Site<'a>>,
    /// The pods for nodes that do not exist, by the node's name.
    pub vanished: Vec<(&'a ArcStr, Vec<&'a Pod>)>,
}

/// A node, and the pods for it.
pub(super) struct Site<'a> {
    /// The node's name.
    pub node: &'a ArcStr,
    /// Whether the DaemonSet wants a pod on the node.
    pub verdict: Verdict,
    /// The DaemonSet's pods for the node, in no order.
    pub pods: Vec<&'a Pod>,
}

impl<'a> Sites<'a> {
    /// Sorts the pods of an observation by their nodes.
    pub(super) fn of(observed: &'a Observed) -> Self {
        let mut by_node: HashMap<&ArcStr, Vec<&Pod>> = HashMap::new();
        let owned = observed.pods.iter().filter(|pod| pod.claim == Claim::Owned);
        for pod in owned.filter(|pod| !pod.is_over() && !pod.node.is_empty()) {
            by_node.entry(&pod.node).or_default().push(pod);
        }
        let nodes = observed.nodes.iter();
        let site = |(node, verdict): &'a (ArcStr, Verdict)| Site {
            node,
            verdict: *verdict,
            pods: by_node.remove(node).unwrap_or_default(),
        };
        let nodes = nodes.map(site).collect();
        Self { nodes, vanished: by_node.into_iter().collect() }
    }
}
