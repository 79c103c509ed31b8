//! The resources of pods and containers as statuses tell them. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use steersman_api::Quantity;

use super::statuses::{ObservedContainer, ObservedState};
use crate::container::ContainerResources;
use crate::resources::{
    CPU, MEMORY, ResourceList, amount, api_quantity, pod_limits, pod_requests, resource_list,
};

/// Thousandths of processor time: control groups tell no smaller request apart.
const LEAST_CPU_REQUEST: i64 = 2;
/// Likewise of limits.
const LEAST_CPU_LIMIT: i64 = 10;

type List = BTreeMap<String, ApiQuantity>;

/// The resources that the status of a container tells. For a running container they are what it was given or, where that is
/// not known, what its status told before. For other containers, and for resources that can't be resized, they are what
/// `container` was allocated.
pub(super) fn resources(
    container: &Container,
    observed: &ObservedContainer,
    old: Option<&ContainerStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if !matches!(observed.state, ObservedState::Running { .. }) {
        return resources;
    }
    let given = observed.resources.unwrap_or_default();
    let is_same = |old: &&ContainerStatus| {
        old.container_id.as_deref() == Some(observed.id.as_str())
            && old.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    let told = old.filter(is_same).and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let told = told.and_then(|told| told.limits.as_ref());
        set_cpu(limits, given.cpu_limit_milli, LEAST_CPU_LIMIT, told);
        set(limits, MEMORY, given.memory_limit.map(Quantity::bytes), told);
    }
    if let Some(requests) = &mut resources.requests {
        let told = told.and_then(|told| told.requests.as_ref());
        set_cpu(requests, given.cpu_request_milli, LEAST_CPU_REQUEST, told);
        // No control group shows the request: it comes from the record of what the container was given, in bytes. Where that
        // is what was allocated, `requests` has it already, as the pod's author wrote it.
        let allocated = amount(&resource_list(Some(requests)), MEMORY).value();
        if given.memory_request != Some(allocated) {
            set(requests, MEMORY, given.memory_request.map(Quantity::bytes), told);
        }
    }
    resources
}

/// What a pod as a whole has, where `given` is what its cgroup has: of one that the API server knows to run that, so far as it
/// is known, else what it was told to have before; of any other what it was allocated, which is what its spec has.
///
/// The memory that a pod asks for is in no cgroup. Upstream tells what was first allocated for as long as the pod runs; here
/// it is what is allocated, once a resize is done.
pub(super) fn of_pod(
    pod: &Pod,
    old: &PodStatus,
    given: ContainerResources,
    is_resizing: bool,
) -> ResourceRequirements {
    let runs = |status: &PodStatus| status.phase.as_deref() == Some("Running");
    let of_spec = pod.spec.as_ref().and_then(|spec| spec.resources.clone()).unwrap_or_default();
    let asked = pod_requests(pod);
    if !pod.status.as_ref().is_some_and(runs) {
        let (requests, limits) = (api_list(&asked), api_list(&pod_limits(pod)));
        return ResourceRequirements { requests: some(requests), limits: some(limits), ..of_spec };
    }
    let told = old.resources.as_ref().filter(|_| runs(old));
    let told_requests = told.and_then(|told| told.requests.as_ref());
    let told_limits = told.and_then(|told| told.limits.as_ref());
    let (mut requests, mut limits) =
        (of_spec.requests.clone().unwrap_or_default(), of_spec.limits.clone().unwrap_or_default());
    set_cpu(&mut requests, given.cpu_request_milli, LEAST_CPU_REQUEST, told_requests);
    if let Some(memory) = asked.get(MEMORY) {
        requests.entry(MEMORY.to_owned()).or_insert_with(|| api_quantity(*memory));
    }
    if is_resizing {
        set(&mut requests, MEMORY, None, told_requests);
    }
    set_cpu(&mut limits, given.cpu_limit_milli, LEAST_CPU_LIMIT, told_limits);
    set(&mut limits, MEMORY, given.memory_limit.map(Quantity::bytes), told_limits);
    ResourceRequirements { requests: some(requests), limits: some(limits), ..of_spec }
}

/// As the API has it.
pub(super) fn api_list(list: &ResourceList) -> List {
    list.iter().map(|(name, amount)| (name.clone(), api_quantity(*amount))).collect()
}

/// An empty list is not written.
pub(super) fn some(list: List) -> Option<List> {
    Some(list).filter(|list| !list.is_empty())
}

/// Where both what was allocated and what was given are the least that there is, what was allocated is told.
fn set_cpu(list: &mut List, given: Option<i64>, least: i64, told: Option<&List>) {
    let allocated = amount(&resource_list(Some(list)), CPU).milli_value();
    if given.is_none_or(|given| given > least || allocated > least) {
        set(list, CPU, given.map(Quantity::from_milli), told);
    }
}

fn set(list: &mut List, name: &str, given: Option<Quantity>, told: Option<&List>) {
    let told = || told.and_then(|told| told.get(name)).cloned();
    if let Some(amount) = given.map(api_quantity).or_else(told) {
        list.insert(name.to_owned(), amount);
    }
}
