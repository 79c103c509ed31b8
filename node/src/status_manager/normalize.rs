//! The one form of a status, in which two of them can be compared. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, Pod, PodCondition, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::{is_owned, is_shared};
use crate::resources::write_canonically;

/// The most bytes of termination messages of all containers of a pod.
const MAX_POD_TERMINATION_MESSAGES: usize = 12 * 1024;

/// Brings a status into the form that the API server keeps: stamps in whole seconds, messages of a length that fits,
/// amounts in its notation, containers in order.
pub(super) fn normalize(pod: &Pod, status: &mut PodStatus) {
    let spec = pod.spec.as_ref();
    let containers = spec.map_or(0, |spec| {
        spec.containers.len()
            + spec.init_containers.as_ref().map_or(0, Vec::len)
            + spec.ephemeral_containers.as_ref().map_or(0, Vec::len)
    });
    let message_length = MAX_POD_TERMINATION_MESSAGES / containers.max(1);
    if let Some(start) = &mut status.start_time {
        whole_seconds(start);
    }
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_probe_time.iter_mut().for_each(whole_seconds);
        condition.last_transition_time.iter_mut().for_each(whole_seconds);
    }
    let lists = [
        &mut status.init_container_statuses,
        &mut status.container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for container in lists.into_iter().flat_map(|list| list.iter_mut().flatten()) {
        for state in [&mut container.state, &mut container.last_state].into_iter().flatten() {
            normalize_state(state, message_length);
        }
        // Empty, set or not, is one thing to the API.
        container.last_state =
            container.last_state.take().filter(|state| *state != ContainerState::default());
        normalize_resources(container.resources.as_mut(), container.allocated_resources.as_mut());
    }
    normalize_resources(status.resources.as_mut(), status.allocated_resources.as_mut());
    let order: Vec<_> = spec
        .and_then(|spec| spec.init_containers.as_ref())
        .into_iter()
        .flatten()
        .map(|container| container.name.clone())
        .collect();
    if let Some(init) = &mut status.init_container_statuses {
        init.sort_by_key(|status| order.iter().position(|name| *name == status.name).unwrap_or(usize::MAX));
    }
    for list in
        [&mut status.container_statuses, &mut status.ephemeral_container_statuses].into_iter().flatten()
    {
        list.sort_by(|one, other| one.name.cmp(&other.name));
    }
    drop_empty(status);
}

/// Empty lists and texts are not sent, and come back as absent.
fn drop_empty(status: &mut PodStatus) {
    for list in [
        &mut status.init_container_statuses,
        &mut status.container_statuses,
        &mut status.ephemeral_container_statuses,
    ] {
        *list = list.take().filter(|list: &Vec<ContainerStatus>| !list.is_empty());
    }
    status.conditions = status.conditions.take().filter(|list| !list.is_empty());
    for text in [&mut status.reason, &mut status.message, &mut status.pod_ip, &mut status.host_ip] {
        *text = text.take().filter(|text| !text.is_empty());
    }
    status.observed_generation = status.observed_generation.filter(|generation| *generation != 0);
}

fn whole_seconds(time: &mut Time) {
    time.0 = jiff::Timestamp::from_second(time.0.as_second()).unwrap_or(time.0);
}

/// What a manifest says in its own way, such as `0.5Gi`, comes back in that of the API.
fn normalize_resources(
    resources: Option<&mut ResourceRequirements>,
    allocated: Option<&mut BTreeMap<String, Quantity>>,
) {
    let of_resources = resources.map(|resources| [&mut resources.limits, &mut resources.requests]);
    let lists = of_resources.into_iter().flatten().flatten().chain(allocated);
    lists.for_each(write_canonically);
}

fn normalize_state(state: &mut ContainerState, message_length: usize) {
    if let Some(running) = &mut state.running {
        running.started_at.iter_mut().for_each(whole_seconds);
    }
    if let Some(terminated) = &mut state.terminated {
        terminated.started_at.iter_mut().for_each(whole_seconds);
        terminated.finished_at.iter_mut().for_each(whole_seconds);
        if let Some(message) = &mut terminated.message {
            let cut = (0..=message_length.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(cut.unwrap_or_default());
        }
    }
}

/// Whether two normalized statuses are the same in all that the node writes. Times of conditions don't count, nor what
/// is said of resource claims.
pub(super) fn same_by_node(one: &PodStatus, other: &PodStatus) -> bool {
    let ours = |status: &PodStatus| {
        let mut ours: Vec<_> = status
            .conditions
            .iter()
            .flatten()
            .filter(|condition: &&PodCondition| is_owned(&condition.type_) || is_shared(&condition.type_))
            .map(|condition| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let PodCondition { type_, status, reason, message, .. } = condition;
                (type_.clone(), status.clone(), text(reason), text(message))
            })
            .collect();
        ours.sort();
        ours
    };
    let rest = |status: &PodStatus| PodStatus {
        conditions: None,
        resource_claim_statuses: None,
        extended_resource_claim_status: None,
        node_allocatable_resource_claim_statuses: None,
        ..status.clone()
    };
    ours(one) == ours(other) && rest(one) == rest(other)
}
