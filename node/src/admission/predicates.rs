//! The rules by themselves, for a scheduler and for volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, Taint};

use super::{Unfit, node_affinity, ports, resources, taints};
use crate::node_status::capacity::is_extended_resource;
use crate::resources::{pod_requests, resource_list};

/// Whether the node has what the pod's node selector and required node affinity ask for.
pub fn matches_affinity(pod: &Pod, node: &Node) -> bool {
    node_affinity::unfit(pod, node).is_none()
}

/// Whether any of the terms selects the node. An empty or malformed term selects none.
pub fn matches_any_term(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    node_affinity::matches_any_term(terms, node)
}

/// Whether the pod can bear the taint.
pub fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    taints::tolerates(pod, taint)
}

/// Whether none of `others`, the pods of the node, has a port of the host that the pod wants.
pub fn ports_are_free(pod: &Pod, others: &[&Pod]) -> bool {
    ports::unfit(pod, others).is_none()
}

/// The resources of which the node has too little for the pod beside `others`; also those that it has never heard of.
pub fn insufficient(pod: &Pod, node: &Node, others: &[&Pod]) -> BTreeSet<String> {
    let there = resource_list(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let requests = pod_requests(pod);
    let unheard = requests.iter().filter(|(name, amount)| {
        is_extended_resource(name) && !there.contains_key(*name) && amount.value() > 0
    });
    let short = resources::unfit(pod, node, others).into_iter().filter_map(|unfit| match unfit {
        Unfit::Insufficient { resource, .. } => Some(resource),
        Unfit::Predicate(..) => None,
    });
    short.chain(unheard.map(|(name, _)| name.clone())).collect()
}
