//! What a pod uses of quotas.

use jiff::Timestamp;
use steersman_api::{Meta, Quantity, Time};
use steersman_informer::Interned;
use steersman_kinds::pod::Phase;
use steersman_kinds::pod_resources::{
    ContainerAllotment, ContainerDemand, PodAllotment, PodDemand, ResizeInfeasible,
};
use steersman_kinds::resource_list::{ResourceList, Resources};

use super::super::Gates;
use super::super::amounts::Amounts;
use super::super::names::{IMPLICIT_RESOURCE, REQUESTS, is_native};

/// Requests or limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Requests,
    Limits,
}

impl Part {
    fn of(self, resources: &Resources) -> &ResourceList {
        match self {
            Self::Requests => &resources.requests,
            Self::Limits => &resources.limits,
        }
    }
}

/// The time after which quotas no longer count a pod that is still there although it was deleted. That is its grace period
/// after its deletion timestamp, which lies the grace period after the deletion already.
pub(crate) fn overdue_at(meta: &Meta) -> Option<Time> {
    let (deleted, grace) = (meta.deleted()?, meta.deletion_grace()?);
    Some(Time::from_seconds(deleted.seconds().saturating_add(grace)))
}

/// Whether a pod uses nothing any more: its containers have ended for good, or it is overdue.
pub(crate) fn has_ended(meta: &Meta, phase: &Phase, now: Timestamp) -> bool {
    phase.is_terminal() || overdue_at(meta).is_some_and(|due| now > due.into())
}

/// What a pod uses that has ended.
pub(crate) fn of_ended_pod() -> Amounts {
    Amounts::one_each(["count/pods"])
}

/// What a pod uses that has not ended.
pub(crate) fn of_pod(demand: &PodDemand, allotment: &PodAllotment, gates: Gates) -> Amounts {
    let mut usage = Amounts::one_each(["count/pods", "pods"]);
    for (name, amount) in total(demand, allotment, Part::Requests, gates).iter() {
        let is_huge_pages = name.starts_with("hugepages-");
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || is_huge_pages {
            usage.set(name.clone(), amount);
            usage.set(format!("{REQUESTS}{name}"), amount);
        } else if (!is_native(name) && !name.starts_with(REQUESTS)) || name.starts_with(IMPLICIT_RESOURCE) {
            usage.set(format!("{REQUESTS}{name}"), amount);
        }
    }
    for (name, amount) in total(demand, allotment, Part::Limits, gates).iter() {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.set(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Whether the quality of service of a pod is `BestEffort`.
pub(crate) fn is_best_effort(demand: &PodDemand, allotment: &PodAllotment, gates: Gates) -> bool {
    if !allotment.qos_class.is_empty() {
        return allotment.qos_class == "BestEffort";
    }
    let asks = |resources: &Resources| {
        let lists = [&resources.requests, &resources.limits].into_iter();
        let of =
            |list: &ResourceList, name| list.get(name).is_some_and(|amount| amount > Quantity::default());
        lists.flat_map(|list| [of(list, "cpu"), of(list, "memory")]).any(|asked| asked)
    };
    match demand.resources.as_ref().filter(|_| gates.pod_level_resources) {
        Some(whole) => !asks(whole),
        None => {
            let mut containers = demand.containers.iter().chain(&demand.init_containers);
            !containers.any(|container| asks(&container.resources))
        }
    }
}

/// What a pod needs at any time of its life, as upstream's `PodRequests` and `PodLimits`.
fn total(demand: &PodDemand, allotment: &PodAllotment, part: Part, gates: Gates) -> Amounts {
    let mut total = of_containers(demand, allotment, part);
    let whole = demand.resources.as_ref().filter(|_| gates.pod_level_resources);
    for (name, amount) in whole.iter().flat_map(|whole| part.of(whole).iter()) {
        if matches!(&**name, "cpu" | "memory") || name.starts_with("hugepages-") {
            total.set(name.as_arc().clone(), amount);
        }
    }
    for (name, amount) in demand.overhead.iter() {
        let has_limit = || total.get(name).is_some_and(|limit| !limit.is_zero());
        if part == Part::Requests || has_limit() {
            total.add(name.as_arc(), amount);
        }
    }
    total
}

/// What the containers need together. Init containers run one after the other, each beside the sidecars before it.
fn of_containers(demand: &PodDemand, allotment: &PodAllotment, part: Part) -> Amounts {
    let mut together = Amounts::default();
    for container in &demand.containers {
        together.add_all(&of_container(container, allotment, part));
    }
    let (mut sidecars, mut starting) = (Amounts::default(), Amounts::default());
    for container in &demand.init_containers {
        if container.is_sidecar() {
            let needed = of_container(container, allotment, part);
            together.add_all(&needed);
            sidecars.add_all(&needed);
            starting.raise(&sidecars);
        } else {
            let mut needed = Amounts::from(part.of(&container.resources));
            needed.add_all(&sidecars);
            starting.raise(&needed);
        }
    }
    together.raise(&starting);
    together
}

/// What a container needs that goes on running. While it is being resized, that is the most of what it asks for, of what it
/// has, and of what is set aside for it. A container that can't be resized keeps what it has.
fn of_container(container: &ContainerDemand, allotment: &PodAllotment, part: Part) -> Amounts {
    let asked = part.of(&container.resources);
    let Some((status, actual)) = status_of(&container.name, allotment) else { return asked.into() };
    let mut most = match allotment.resize {
        ResizeInfeasible::Yes => Amounts::default(),
        ResizeInfeasible::No | ResizeInfeasible::NotPending => asked.into(),
    };
    most.raise(&part.of(actual).into());
    if part == Part::Requests {
        most.raise(&(&status.allocated).into());
    }
    most
}

/// The status of a container whose resources the kubelet has reported.
fn status_of<'a>(
    name: &Interned,
    allotment: &'a PodAllotment,
) -> Option<(&'a ContainerAllotment, &'a Resources)> {
    let mut statuses = allotment.init_containers.0.iter().chain(&allotment.containers.0);
    let status = statuses.find(|status| status.name == *name)?;
    Some((status, status.resources.as_ref()?))
}
