//! The resources of a pod and its containers, apart from the pod. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::{Deserialize, Serialize};
use steersman_api::Quantity;

use crate::resources::{CPU, MEMORY, ResourceList, amount, limits, pod_requests, requests};

/// What a pod and its containers have, as allocated or as actuated (`PodResourceInfo` upstream, whose names it has on disk).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PodResources {
    /// By the container's name, init containers among them.
    #[serde(rename = "ContainerResources", deserialize_with = "null_is_none")]
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Of the pod as a whole, where it has any.
    #[serde(rename = "PodLevelResources")]
    pub pod: Option<ResourceRequirements>,
}

/// Go writes a map that was never made as `null`.
fn null_is_none<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, ResourceRequirements>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl PodResources {
    /// What the pod's spec says.
    pub fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let containers =
            all.map(|container| (container.name.clone(), container.resources.clone().unwrap_or_default()));
        Self { containers: containers.collect(), pod: spec.resources.clone() }
    }

    /// The pod as it is with these in the place of what its spec says; `None` where that is the same. A container that is
    /// not among these stays as it is.
    pub fn apply(&self, pod: &Pod) -> Option<Pod> {
        let spec = pod.spec.as_ref()?;
        let whole_differs = match (&spec.resources, &self.pod) {
            (None, None) => false,
            (Some(one), Some(other)) => !same(one, other),
            _ => true,
        };
        let differs = |container: &Container| {
            let own = container.resources.clone().unwrap_or_default();
            self.containers.get(&container.name).is_some_and(|allocated| !same(&own, allocated))
        };
        let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        if !whole_differs && !all.any(differs) {
            return None;
        }
        let mut changed = pod.clone();
        let spec = changed.spec.as_mut()?;
        if whole_differs {
            spec.resources.clone_from(&self.pod);
        }
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            if differs(container) {
                container.resources = self.containers.get(&container.name).cloned();
            }
        }
        Some(changed)
    }
}

/// Whether two say the same, however they write the amounts.
fn same(one: &ResourceRequirements, other: &ResourceRequirements) -> bool {
    let none = Vec::new();
    let claims = |of: &ResourceRequirements| of.claims.clone().unwrap_or_else(|| none.clone());
    requests(Some(one)) == requests(Some(other))
        && limits(Some(one)) == limits(Some(other))
        && claims(one) == claims(other)
}

/// How one amount changes with a resize; the label `operation` of upstream's metric.
pub(super) fn operation(old: Quantity, new: Quantity) -> Option<&'static str> {
    match (old.is_zero(), new.is_zero()) {
        (true, true) => None,
        (false, true) => Some("remove"),
        (true, false) => Some("add"),
        _ if new < old => Some("decrease"),
        _ if new > old => Some("increase"),
        _ => None,
    }
}

type ListOf = fn(Option<&ResourceRequirements>) -> ResourceList;

/// What changes from one spec of a pod to the next: resource, `requests` or `limits`, and the [`operation`].
pub(super) fn operations(old: &Pod, new: &Pod) -> Vec<[&'static str; 3]> {
    let (old, new) = (PodResources::of(old), PodResources::of(new));
    let mut found = Vec::new();
    for (name, old) in &old.containers {
        let Some(new) = new.containers.get(name) else { continue };
        for resource in [MEMORY, CPU] {
            let lists: [(_, ListOf); 2] = [("requests", requests), ("limits", limits)];
            for (requirement, list) in lists {
                let amounts = [old, new].map(|of| amount(&list(Some(of)), resource));
                found.extend(
                    operation(amounts[0], amounts[1]).map(|operation| [resource, requirement, operation]),
                );
            }
        }
    }
    found
}

/// Whether a resize is asked for from one spec of a pod to the next.
pub(super) fn is_resized(old: &Pod, new: &Pod) -> bool {
    let whole = |pod: &Pod| PodResources { containers: BTreeMap::new(), pod: PodResources::of(pod).pod };
    !operations(old, new).is_empty() || whole(old).apply(new).is_some()
}

/// Whether one pod asks for as much of processor time and memory as another, or for more.
pub(crate) fn asks_for_as_much(pod: &Pod, other: &Pod) -> bool {
    let (own, others) = (pod_requests(pod), pod_requests(other));
    [CPU, MEMORY].iter().all(|name| amount(&own, name) >= amount(&others, name))
}
