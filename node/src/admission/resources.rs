//! Room for a pod: what it asks for, what others asked for, what there is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::Unfit;
use crate::node_status::capacity::is_extended_resource;
use crate::resources::{
    CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceList, amount, in_use, pod_requests, resource_list,
};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub(super) const PODS: &str = "pods";

/// All resources that are short, upstream's order: pods, processor time, memory, storage, the others by name. Of the others
/// counts what they still have, where that is more than what they are allocated.
pub(super) fn unfit(pod: &Pod, node: &Node, others: &[&Pod]) -> Vec<Unfit> {
    let there = resource_list(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let (taken, capacity) = (as_i64(others.len()), amount(&there, PODS).value());
    let mut unfit = Vec::new();
    if taken >= capacity {
        unfit.push(Unfit::Insufficient { resource: PODS.to_owned(), requested: 1, used: taken, capacity });
    }
    let requested = counted(&pod_requests(pod));
    let mut used = BTreeMap::new();
    for (name, more) in others.iter().flat_map(|other| counted(&in_use(other))) {
        let sum: &mut i64 = used.entry(name).or_default();
        *sum = sum.saturating_add(more);
    }
    let order = |name: &str| [CPU, MEMORY, EPHEMERAL_STORAGE].iter().position(|known| *known == name);
    let mut names: Vec<_> = requested.keys().collect();
    names.sort_by_key(|name| order(name).unwrap_or(usize::MAX));
    for name in names {
        // The scheduler counts what the node does not know: by an extender, or by a claim for dynamic resources, for which
        // the pod's sandbox is refused.
        if is_extended_resource(name) && !there.contains_key(name) {
            continue;
        }
        let (requested, used) = (requested[name], used.get(name).copied().unwrap_or(0));
        let capacity = counted_amount(&there, name);
        if requested > 0 && requested > capacity.saturating_sub(used) {
            unfit.push(Unfit::Insufficient { resource: name.clone(), requested, used, capacity });
        }
    }
    unfit
}

/// The resources that count, in the units they are counted in.
fn counted(list: &ResourceList) -> BTreeMap<String, i64> {
    let counts = |name: &str| {
        [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name)
            || is_extended_resource(name)
            || name.starts_with(HUGE_PAGES_PREFIX)
            || name.contains("kubernetes.io/")
            || name.starts_with("attachable-volumes-")
    };
    let names = list.keys().filter(|name| counts(name));
    names.map(|name| (name.clone(), counted_amount(list, name))).collect()
}

pub(super) fn counted_amount(list: &ResourceList, name: &str) -> i64 {
    match name {
        CPU => amount(list, name).milli_value(),
        _ => amount(list, name).value(),
    }
}

fn as_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
