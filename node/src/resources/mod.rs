//! What pods and their containers ask for, and what they may use at most.
//!
//! Sums are upstream's. Containers run side by side; init containers run one after the other before them, each beside the
//! restartable ones before it. A pod that has resources of its own as a whole overrules the sum of its containers', name by
//! name; its overhead comes on top.

mod in_use;
mod qos_class;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use steersman_api::Quantity;

use crate::restart_policy::is_restartable_init_container;

pub(crate) use in_use::in_use;
pub use qos_class::{QosClass, compute_qos_class, qos_class};

/// Amounts by the resource's name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The name of processor time.
pub const CPU: &str = "cpu";
/// The name of memory.
pub const MEMORY: &str = "memory";
/// What the names of huge pages begin with; their size follows.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// The amounts of a list in the API. A malformed one is left out: the API server lets none through.
pub fn resource_list(list: Option<&BTreeMap<String, ApiQuantity>>) -> ResourceList {
    list.into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?)))
        .collect()
}

/// An amount as Kubernetes writes it.
pub(crate) fn api_quantity(quantity: Quantity) -> ApiQuantity {
    ApiQuantity(quantity.to_string())
}

/// Writes the amounts of a list as Kubernetes does: what is the same is then written the same. A malformed one stays.
pub(crate) fn write_canonically(list: &mut BTreeMap<String, ApiQuantity>) {
    for amount in list.values_mut() {
        if let Ok(parsed) = amount.0.parse() {
            *amount = api_quantity(parsed);
        }
    }
}

/// What `requirements` ask for.
pub fn requests(requirements: Option<&ResourceRequirements>) -> ResourceList {
    resource_list(requirements.and_then(|requirements| requirements.requests.as_ref()))
}

/// What `requirements` allow at most.
pub fn limits(requirements: Option<&ResourceRequirements>) -> ResourceList {
    resource_list(requirements.and_then(|requirements| requirements.limits.as_ref()))
}

/// An amount, zero where the list has none.
pub fn amount(list: &ResourceList, name: &str) -> Quantity {
    list.get(name).copied().unwrap_or_default()
}

/// What the pod asks for, its overhead included.
pub fn pod_requests(pod: &Pod) -> ResourceList {
    let mut total = pod_requests_without_overhead(pod);
    add(&mut total, &overhead(pod));
    total
}

/// What the pod asks for for its containers.
pub fn pod_requests_without_overhead(pod: &Pod) -> ResourceList {
    let mut total = container_requests(pod);
    total.extend(of_pod_level(requests(pod_level(pod))));
    total
}

/// What the pod's containers ask for, whatever the pod as a whole does.
pub fn container_requests(pod: &Pod) -> ResourceList {
    Aggregate::new(pod, requests).total
}

/// What the pod may use, its overhead included where there is a limit.
pub fn pod_limits(pod: &Pod) -> ResourceList {
    let mut total = pod_limits_without_overhead(pod);
    for (name, more) in overhead(pod) {
        if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = *limit + more;
        }
    }
    total
}

/// What the pod's containers may use.
///
/// It is the sum of the limits there are: a container without one is not in it. See [`every_container_limits`].
pub fn pod_limits_without_overhead(pod: &Pod) -> ResourceList {
    let mut total = Aggregate::new(pod, limits).total;
    total.extend(of_pod_level(limits(pod_level(pod))));
    total
}

/// Whether no container, at the time it runs, is free of a limit of this resource.
pub fn every_container_limits(pod: &Pod, resource: &str) -> bool {
    Aggregate::new(pod, limits).each.iter().all(|list| !amount(list, resource).is_zero())
}

/// What running the pod takes besides its containers.
pub fn overhead(pod: &Pod) -> ResourceList {
    resource_list(pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()))
}

/// What the pod as a whole is given, where it is.
pub fn pod_level(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.spec.as_ref()?.resources.as_ref()
}

/// Whether requests of the pod as a whole count.
pub fn has_pod_level_requests(pod: &Pod) -> bool {
    !of_pod_level(requests(pod_level(pod))).is_empty()
}

/// The amounts of huge pages in a list by their size as the kernel and the runtime name it: `2MB` for `hugepages-2Mi`.
pub fn huge_pages_by_size(list: &ResourceList) -> BTreeMap<String, Quantity> {
    let by_size = |(name, amount): (&String, &Quantity)| {
        Some((size_name(name.strip_prefix(HUGE_PAGES_PREFIX)?)?, *amount))
    };
    list.iter().filter_map(by_size).collect()
}

/// A size in the API (`2Mi`) as the kernel names it (`2MB`); none for one that is no whole number of its unit.
fn size_name(size: &str) -> Option<String> {
    let mut size = size.parse::<Quantity>().ok()?.value();
    let mut units = ["B", "KB", "MB", "GB", "TB", "PB"].into_iter();
    let mut unit = units.next()?;
    while size > 0 && size % 1024 == 0 {
        let Some(larger) = units.next() else { break };
        (size, unit) = (size / 1024, larger);
    }
    (0..=1024).contains(&size).then(|| format!("{size}{unit}"))
}

/// Of what a pod as a whole is given, that which counts.
fn of_pod_level(mut list: ResourceList) -> ResourceList {
    list.retain(|name, _| [CPU, MEMORY].contains(&name.as_str()) || name.starts_with(HUGE_PAGES_PREFIX));
    list
}

/// Containers' resources taken together.
struct Aggregate {
    /// The most that is in use at any time.
    total: ResourceList,
    /// For each container what is in use while it starts: itself, for init containers with the restartable ones so far.
    each: Vec<ResourceList>,
}

impl Aggregate {
    fn new(pod: &Pod, of: fn(Option<&ResourceRequirements>) -> ResourceList) -> Self {
        let (mut total, mut each) = (ResourceList::new(), Vec::new());
        let Some(spec) = &pod.spec else { return Self { total, each } };
        for container in &spec.containers {
            let own = of(container.resources.as_ref());
            add(&mut total, &own);
            each.push(own);
        }
        let (mut restartable, mut highest) = (ResourceList::new(), ResourceList::new());
        for container in spec.init_containers.iter().flatten() {
            let mut own = of(container.resources.as_ref());
            if is_restartable_init_container(container) {
                add(&mut total, &own);
                add(&mut restartable, &own);
                own.clone_from(&restartable);
            } else {
                add(&mut own, &restartable);
            }
            raise(&mut highest, &own);
            each.push(own);
        }
        raise(&mut total, &highest);
        Self { total, each }
    }
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, more) in more {
        let amount = total.entry(name.clone()).or_default();
        *amount = *amount + *more;
    }
}

fn raise(highest: &mut ResourceList, other: &ResourceList) {
    for (name, other) in other {
        let amount = highest.entry(name.clone()).or_insert(*other);
        *amount = (*amount).max(*other);
    }
}
