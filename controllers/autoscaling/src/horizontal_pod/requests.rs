//! What pods request of a resource.

use std::collections::HashMap;

use steersman_api::{ArcStr, Quantity};
use steersman_kinds::pod_resources::{ContainerDemand, PodDemand};

use super::pods::Pod;

/// The requests of the pods in thousandths, by the pods' names. If `container` is not empty, those of that container.
///
/// # Errors
/// A container has no request, or a pod lacks the container, in upstream's words.
pub(super) fn requests(
    pods: &[Pod],
    container: &str,
    resource: &str,
    counts_pod_level: bool,
) -> Result<HashMap<ArcStr, i64>, String> {
    let of = |pod: &Pod| {
        let request = match container {
            "" if counts_pod_level && has_pod_level_requests(&pod.demand) => of_pod(pod, resource),
            "" => of_all_containers(pod, resource),
            container => of_container(pod, container, resource),
        };
        request.map(|request| (pod.name.clone(), request))
    };
    pods.iter().map(of).collect()
}

/// The containers that run beside each other, sidecars last.
fn containers(demand: &PodDemand) -> impl Iterator<Item = &ContainerDemand> {
    let sidecars = demand.init_containers.iter().filter(|container| container.is_sidecar());
    demand.containers.iter().chain(sidecars)
}

fn of_all_containers(pod: &Pod, resource: &str) -> Result<i64, String> {
    containers(&pod.demand)
        .try_fold(0_i64, |sum, container| Ok(sum.wrapping_add(request(pod, container, resource)?)))
}

fn of_container(pod: &Pod, name: &str, resource: &str) -> Result<i64, String> {
    match containers(&pod.demand).find(|container| container.name == *name) {
        Some(container) => request(pod, container, resource),
        None => Err(format!("container {name} not found in Pod {}", pod.name)),
    }
}

fn request(pod: &Pod, container: &ContainerDemand, resource: &str) -> Result<i64, String> {
    let request = container.resources.requests.get(resource).map(Quantity::milli_value);
    request.ok_or_else(|| {
        format!("missing request for {resource} in container {} of Pod {}", container.name, pod.name)
    })
}

/// Whether a resource can be requested for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn has_pod_level_requests(demand: &PodDemand) -> bool {
    demand.resources.as_ref().is_some_and(|whole| whole.requests.names().any(|name| is_pod_level(name)))
}

/// What a pod with requests for the whole pod needs, as upstream's `PodRequests`.
fn of_pod(pod: &Pod, resource: &str) -> Result<i64, String> {
    let demand = &pod.demand;
    let whole = demand.resources.as_ref().and_then(|whole| whole.requests.get(resource));
    let needed = whole.filter(|_| is_pod_level(resource)).or_else(|| of_all_phases(demand, resource));
    let total = match (needed, demand.overhead.get(resource)) {
        (Some(needed), Some(overhead)) => Some(needed + overhead),
        (needed, overhead) => needed.or(overhead),
    };
    let total = total.map(Quantity::milli_value);
    total.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {}", pod.name))
}

/// The most that the containers need at a time. Init containers run one after the other, each beside the sidecars before it.
fn of_all_phases(demand: &PodDemand, resource: &str) -> Option<Quantity> {
    let of = |container: &ContainerDemand| container.resources.requests.get(resource);
    let sum = |a: Option<Quantity>, b: Option<Quantity>| match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    let mut together = demand.containers.iter().map(of).fold(None, sum);
    let (mut sidecars, mut starting) = (None, None);
    for container in &demand.init_containers {
        if container.is_sidecar() {
            together = sum(together, of(container));
            sidecars = sum(sidecars, of(container));
            starting = starting.max(sidecars);
        } else {
            starting = starting.max(sum(of(container), sidecars));
        }
    }
    together.max(starting)
}
