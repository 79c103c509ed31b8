//! Changes to the resources of containers that run.
//!
//! What containers are to have is compared with what was recorded when they were last given any, across restarts. What has
//! no record is left as it is; upstream takes it for nothing given, and so might restart containers after its records are
//! lost. Where the record of the pod as a whole is missing and its spec has some, nothing of the pod is resized. Whether a
//! change is feasible at all was decided before: the pod's spec holds what was allocated.

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use steersman_api::Quantity;

use super::containers::kill;
use super::{Context, KillReason, PodActions, SpecIndex};
use crate::allocation::PodResources;
use crate::container::{ContainerId, ContainerState, ContainerStatus, PodStatus};

/// Running containers to update, for each resource first those that get less, then those that get more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainersToUpdate {
    /// Those whose processor time changes.
    pub cpu: Vec<ContainerToUpdate>,
    /// Those whose memory changes.
    pub memory: Vec<ContainerToUpdate>,
}

/// A running container whose resources are to be updated.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerToUpdate {
    /// Its id.
    pub id: ContainerId,
    /// Where its spec is.
    pub spec: SpecIndex,
    /// What it is to have.
    pub desired: Amounts,
    /// What it has.
    pub current: Amounts,
}

/// Limits and requests; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Bytes at most.
    pub memory_limit: i64,
    /// Bytes asked for.
    pub memory_request: i64,
    /// Processor time at most, in thousandths.
    pub cpu_limit: i64,
    /// Processor time asked for, in thousandths.
    pub cpu_request: i64,
}

impl Amounts {
    /// What `requirements` say; none if a quantity in them is malformed, which the API server lets through nowhere.
    fn new(requirements: Option<&ResourceRequirements>) -> Option<Self> {
        let Some(requirements) = requirements else { return Some(Self::default()) };
        let (limits, requests) = (requirements.limits.as_ref(), requirements.requests.as_ref());
        Some(Self {
            memory_limit: amount(limits, "memory")?.value(),
            memory_request: amount(requests, "memory")?.value(),
            cpu_limit: amount(limits, "cpu")?.milli_value(),
            cpu_request: amount(requests, "cpu")?.milli_value(),
        })
    }

    /// A container's own, where limits that it lacks are its pod's.
    fn of_container(
        container: Option<&ResourceRequirements>,
        pod: Option<&ResourceRequirements>,
    ) -> Option<Self> {
        let (own, pod) = (Self::new(container)?, Self::new(pod)?);
        let or = |own, pod| if own == 0 { pod } else { own };
        Some(Self {
            memory_limit: or(own.memory_limit, pod.memory_limit),
            cpu_limit: or(own.cpu_limit, pod.cpu_limit),
            ..own
        })
    }
}

fn amount(list: Option<&BTreeMap<String, ApiQuantity>>, name: &str) -> Option<Quantity> {
    list.and_then(|list| list.get(name))
        .map_or(Some(Quantity::default()), |text| Quantity::from_str(&text.0).ok())
}

/// Notes what changes in the resources of one container; true if it is kept, false if it is restarted to change them.
pub(super) fn compute(
    context: &Context<'_>,
    spec: SpecIndex,
    container: &Container,
    newest: &ContainerStatus,
    actions: &mut PodActions,
) -> bool {
    if newest.state != ContainerState::Running {
        return true;
    }
    let Some((desired, current)) = desired_and_current(context.spec, &context.observed.actuated, container)
    else {
        return true;
    };
    if desired == current {
        return true;
    }
    let memory =
        desired.memory_limit != current.memory_limit || desired.memory_request != current.memory_request;
    let cpu = desired.cpu_limit != current.cpu_limit || desired.cpu_request != current.cpu_request;
    if (memory && restarts_for(container, "memory")) || (cpu && restarts_for(container, "cpu")) {
        let message = format!("Container {} resize requires restart", container.name);
        let kill = kill(container, spec, message, KillReason::Resize);
        actions.containers_to_kill.insert(newest.id.clone(), kill);
        if let SpecIndex::Regular(index) = spec {
            actions.containers_to_start.push(index);
        }
        actions.update_pod_resources = true;
        return false;
    }
    let update = ContainerToUpdate { id: newest.id.clone(), spec, desired, current };
    // The limit decides which way it goes, or the request where the limit stays.
    let memory_change =
        (desired.memory_limit - current.memory_limit, desired.memory_request - current.memory_request);
    let cpu_change = (desired.cpu_limit - current.cpu_limit, desired.cpu_request - current.cpu_request);
    insert(&mut actions.containers_to_update.memory, &update, memory_change);
    insert(&mut actions.containers_to_update.cpu, &update, cpu_change);
    true
}

/// Puts an update before all others if it gives less, after them if it gives more.
fn insert(updates: &mut Vec<ContainerToUpdate>, update: &ContainerToUpdate, (limit, request): (i64, i64)) {
    match if limit == 0 { request } else { limit } {
        0 => {}
        less if less < 0 => updates.insert(0, update.clone()),
        _ => updates.push(update.clone()),
    }
}

/// What a container is to have, and what it was given; `None` where that is not known.
fn desired_and_current(
    spec: &PodSpec,
    actuated: &PodResources,
    container: &Container,
) -> Option<(Amounts, Amounts)> {
    let pod = spec.resources.as_ref();
    if pod.is_some() && actuated.pod.is_none() {
        return None;
    }
    let current =
        Amounts::of_container(actuated.containers.get(&container.name)?.into(), actuated.pod.as_ref())?;
    Some((Amounts::of_container(container.resources.as_ref(), pod)?, current))
}

fn restarts_for(container: &Container, resource: &str) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    let policy = policies.find(|policy| policy.resource_name == resource);
    policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
}

/// Whether anything of a pod that runs has not yet what the pod was allocated, which is what its spec has.
pub fn is_in_progress(pod: &Pod, status: &PodStatus, actuated: &PodResources) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    pod_level_changed(spec, actuated)
        || all.any(|container| {
            let newest = status.container(&container.name);
            let runs = newest.is_some_and(|newest| newest.state == ContainerState::Running);
            let amounts = desired_and_current(spec, actuated, container).filter(|_| runs);
            amounts.is_some_and(|(desired, current)| desired != current)
        })
}

/// Whether the resources of the pod as a whole are to be updated.
pub(super) fn pod_level_changed(spec: &PodSpec, actuated: &PodResources) -> bool {
    let Some(actuated) = &actuated.pod else { return false };
    match (Amounts::new(spec.resources.as_ref()), Amounts::new(Some(actuated))) {
        (Some(desired), Some(current)) => desired != current,
        _ => false,
    }
}
