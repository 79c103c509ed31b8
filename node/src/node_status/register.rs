//! What becomes of a Node that is there already when the node comes to register. Pure.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::capacity::{is_extended_resource, is_huge_pages};
use super::initial::{ARCH, BETA_ARCH, BETA_OS, CONTROLLER_ATTACH_DETACH, HOSTNAME, OS};

/// Labels that the node sets right on a Node that is there already, where it has them itself.
const DEFAULT_LABELS: [&str; 12] = [
    HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS,
    ARCH,
    "node.kubernetes.io/windows-build",
    BETA_OS,
    BETA_ARCH,
];

/// Sets right on the Node that is there what this node would have registered: annotation, labels, huge pages. Extended
/// resources are set to zero: what offered them has to offer them anew. Says whether anything changed.
pub(super) fn reconcile(existing: &mut Node, initial: &Node) -> bool {
    let annotation = reconcile_annotation(existing, initial);
    let labels = reconcile_labels(existing, initial);
    let resources = reconcile_resources(existing, initial);
    annotation || labels || resources
}

fn reconcile_annotation(existing: &mut Node, initial: &Node) -> bool {
    let of = |node: &Node| node.metadata.annotations.as_ref()?.get(CONTROLLER_ATTACH_DETACH).cloned();
    let wanted = of(initial);
    if wanted.clone().unwrap_or_default() == of(existing).unwrap_or_default() {
        return false;
    }
    let annotations = existing.metadata.annotations.get_or_insert_default();
    match wanted {
        Some(value) => _ = annotations.insert(CONTROLLER_ATTACH_DETACH.to_owned(), value),
        None => _ = annotations.remove(CONTROLLER_ATTACH_DETACH),
    }
    true
}

fn reconcile_labels(existing: &mut Node, initial: &Node) -> bool {
    let labels = existing.metadata.labels.get_or_insert_default();
    let mut changed = false;
    for name in DEFAULT_LABELS {
        let Some(value) = initial.metadata.labels.as_ref().and_then(|labels| labels.get(name)) else {
            continue;
        };
        if labels.get(name).map_or("", String::as_str) != value {
            labels.insert(name.to_owned(), value.clone());
            changed = true;
        }
        if value.is_empty() {
            labels.remove(name);
        }
    }
    changed
}

fn reconcile_resources(existing: &mut Node, initial: &Node) -> bool {
    let wanted = initial.status.clone().unwrap_or_default();
    let (capacity, allocatable) =
        (wanted.capacity.unwrap_or_default(), wanted.allocatable.unwrap_or_default());
    let status = existing.status.get_or_insert_default();
    let before = (status.capacity.clone(), status.allocatable.clone());
    let all = status.capacity.get_or_insert_with(|| capacity.clone());
    let usable = status.allocatable.get_or_insert_with(|| allocatable.clone());
    let zero = || ApiQuantity("0".to_owned());
    for (name, amount) in &mut *all {
        if is_extended_resource(name) {
            *amount = zero();
            usable.insert(name.clone(), zero());
        }
    }
    let supported = |name: &String| !is_huge_pages(name) || capacity.contains_key(name);
    all.retain(|name, _| supported(name));
    usable.retain(|name, _| supported(name));
    for name in capacity.keys().filter(|name| is_huge_pages(name)) {
        for (mine, theirs) in [(&capacity, &mut *all), (&allocatable, &mut *usable)] {
            theirs.extend(mine.get(name).map(|amount| (name.clone(), amount.clone())));
        }
    }
    let empty = |list: &Option<_>| list.as_ref().is_none_or(std::collections::BTreeMap::is_empty);
    let same = |before: &Option<_>, after: &Option<_>| before == after || (empty(before) && empty(after));
    !same(&before.0, &status.capacity) || !same(&before.1, &status.allocatable)
}
