//! The status of a pod, put together from what the runtime has. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus};

use super::conditions::{self, DISRUPTION_TARGET, Sandbox, is_terminal};
use super::phase::{Stage, phase};
use super::resources;
use super::statuses::{ObservedContainer, Role, StartFailure, container_statuses};

use crate::container::ContainerResources;
use crate::resources::pod_requests;
use crate::restart_policy::RestartOfAll;

/// What a pod's status is made from.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The pod, with the status that its source last had.
    pub pod: &'a Pod,
    /// The status that the [manager](super::StatusManager) has, if it has one; else the pod's own.
    pub old: &'a PodStatus,
    /// The containers that the runtime has, ended ones included; each name may have several attempts.
    pub containers: &'a [ObservedContainer],
    /// By container: why it could not be started the last time.
    pub failures: &'a BTreeMap<String, StartFailure>,
    /// Whether the pod has its sandbox.
    pub sandbox: Sandbox,
    /// Whether an ordinary container was ever started in the sandbox that is there.
    pub initialized: bool,
    /// Whether containers that end may start again.
    pub stage: Stage,
    /// Whether all containers start over.
    pub restart_of_all: RestartOfAll,
    /// The sandbox's addresses, of each family at most one, the node's first family first.
    pub pod_ips: &'a [String],
    /// The node's addresses, likewise; empty while they are not known.
    pub host_ips: &'a [String],
    /// `Guaranteed`, `Burstable` or `BestEffort`.
    pub qos_class: &'a str,
    /// What the pod's cgroup has, of a pod that the API server knows to run; as far as that is known.
    pub given: ContainerResources,
    /// What is to be said of the pod's resize; nothing of one that ended.
    pub resize: &'a [PodCondition],
    /// Why the node itself ends the pod, if it does.
    pub eviction: Option<Eviction>,
}

/// What a pod that the node ends is told; its phase is `Failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: &'static str,
}

/// The status that a pod has now. Readiness is of containers as the statuses say; who probes them sets it first.
///
/// `readiness` is told of each container's status and may change `ready` and `started`.
pub fn generate(observed: &Observed<'_>, readiness: &dyn Fn(Role, &mut ContainerStatus)) -> PodStatus {
    let Observed { pod, old, .. } = *observed;
    let empty = PodStatus::default();
    let from_source = pod.status.as_ref().unwrap_or(&empty);
    let of = |role: Role, old: &Option<Vec<ContainerStatus>>| {
        let old = old.as_deref().unwrap_or_default();
        container_statuses(pod, role, old, observed.containers, observed.failures, observed.restart_of_all)
    };
    let mut init = of(Role::Init, &old.init_container_statuses);
    let mut ordinary = of(Role::Ordinary, &old.container_statuses);
    let ephemeral = of(Role::Ephemeral, &old.ephemeral_container_statuses);

    let mut all = ordinary.clone();
    all.extend(init.iter().cloned());
    let computed = phase(pod, &all, observed.stage, observed.initialized);
    let (phase, reason, message) = verdict(computed, observed);

    ordinary.iter_mut().for_each(|status| readiness(Role::Ordinary, status));
    init.iter_mut().for_each(|status| readiness(Role::Init, status));
    let mut known = init.clone();
    known.extend(ordinary.iter().cloned());

    let foreign = from_source.conditions.iter().flatten();
    let mut list: Vec<_> =
        foreign.filter(|condition| !conditions::is_owned(&condition.type_)).cloned().collect();
    list.extend_from_slice(observed.resize);
    // It was set once, when the pod was chosen to go, and is not derived from anything.
    if let Some(target) = conditions::condition(old, DISRUPTION_TARGET) {
        conditions::replace_or_append(&mut list, target.clone());
    }
    list.push(conditions::ready_to_start_containers(pod, observed.sandbox));
    list.push(conditions::initialized(pod, old, Some(&known), Some(phase)));
    list.push(conditions::ready(pod, &list, Some(&known), Some(phase)));
    list.push(conditions::containers_ready(pod, Some(&known), Some(phase)));
    list.push(conditions::scheduled(pod));
    list.extend(conditions::all_containers_restarting(pod, observed.restart_of_all, phase));

    let is_resizing = observed.resize.iter().any(|condition| condition.type_ == "PodResizeInProgress");
    let some = |statuses: Vec<ContainerStatus>| Some(statuses).filter(|statuses| !statuses.is_empty());
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        conditions: Some(list),
        init_container_statuses: some(init),
        container_statuses: some(ordinary),
        ephemeral_container_statuses: some(ephemeral),
        qos_class: Some(observed.qos_class.to_owned()),
        resources: Some(resources::of_pod(pod, old, observed.given, is_resizing)),
        allocated_resources: resources::some(resources::api_list(&pod_requests(pod))),
        ..PodStatus::default()
    };
    set_addresses(&mut status, observed);
    status
}

/// The phase, and the reason and message that go with it. What ended stays ended, whoever knows of it.
fn verdict<'a>(computed: &'a str, observed: &Observed<'a>) -> (&'a str, Option<&'a str>, Option<&'a str>) {
    let Observed { pod, old, .. } = *observed;
    let text = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
    let terminal = |status: &'a PodStatus| text(&status.phase).filter(|phase| is_terminal(Some(phase)));
    let told = pod.status.as_ref();
    // The API server refuses to go back.
    let ended = told.and_then(terminal);
    if let (Some(Eviction { reason, message }), None) = (observed.eviction, ended) {
        // However its containers end.
        return ("Failed", Some(reason), Some(message));
    }
    let known = if is_terminal(Some(computed)) { None } else { terminal(old) };
    let phase = ended.or(known).unwrap_or(computed);
    if Some(phase) != old.phase.as_deref() {
        return (phase, None, None);
    }
    let reason = text(&old.reason).or_else(|| text(&told?.reason));
    (phase, reason, text(&old.message).or_else(|| text(&told?.message)))
}

fn set_addresses(status: &mut PodStatus, observed: &Observed<'_>) {
    let mut pod_ips = observed.pod_ips.to_vec();
    let host_ips = observed.host_ips;
    if let Some(first) = host_ips.first() {
        status.host_ip = Some(first.clone());
        status.host_ips = Some(host_ips.iter().take(2).map(|ip| HostIP { ip: ip.clone() }).collect());
        let on_host = observed.pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        if on_host {
            if pod_ips.is_empty() {
                pod_ips.push(first.clone());
            }
            // A node that gets a second family gives it to its pods as well.
            if let (Some(second), [only]) = (host_ips.get(1), pod_ips.as_slice())
                && only.contains(':') != second.contains(':')
            {
                pod_ips.push(second.clone());
            }
        }
    }
    status.pod_ip = pod_ips.first().cloned();
    status.pod_ips =
        Some(pod_ips.into_iter().map(|ip| PodIP { ip }).collect::<Vec<_>>()).filter(|ips| !ips.is_empty());
}
