//! What a pod has while it is resized.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::{ResourceList, api_quantity, pod_requests, requests, resource_list};

/// What a pod has at the moment, by its allocation and by its status, whichever is more: what it gives back it has until that
/// is done. Of init containers only those that run beside the others can be resized, and have a say by their status.
///
/// The status's allocation for the pod as a whole has its overhead in it, and overhead comes on top: upstream counts so.
pub(crate) fn in_use(allocated: &Pod) -> ResourceList {
    let mut pod = allocated.clone();
    let status = allocated.status.as_ref();
    let statuses = status.into_iter().flat_map(|status| {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        lists.into_iter().flat_map(|list| list.iter().flatten())
    });
    let statuses: Vec<_> = statuses.collect();
    let Some(spec) = &mut pod.spec else { return ResourceList::new() };
    let beside = |container: &&mut Container| container.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter_mut().flatten().filter(beside);
    for container in spec.containers.iter_mut().chain(init) {
        let status = statuses.iter().find(|status| status.name == container.name);
        let Some(status) = status.filter(|status| status.resources.is_some()) else { continue };
        let lists = [requests(status.resources.as_ref()), resource_list(status.allocated_resources.as_ref())];
        let most = highest(requests(container.resources.as_ref()), lists);
        container.resources.get_or_insert_default().requests = Some(most);
    }
    if let Some(of_pod) = &mut spec.resources
        && let Some(status) = status.filter(|status| status.resources.is_some())
    {
        let asked = requests(Some(of_pod));
        let mut lists =
            [requests(status.resources.as_ref()), resource_list(status.allocated_resources.as_ref())];
        // What the pod as a whole does not ask for is its containers' sum.
        lists.iter_mut().for_each(|list| list.retain(|name, _| asked.contains_key(name)));
        of_pod.requests = Some(highest(asked, lists));
    }
    pod_requests(&pod)
}

/// Of each resource the most that any of the lists has.
fn highest(mut most: ResourceList, lists: [ResourceList; 2]) -> BTreeMap<String, ApiQuantity> {
    for (name, amount) in lists.into_iter().flatten() {
        let highest = most.entry(name).or_default();
        *highest = (*highest).max(amount);
    }
    most.into_iter().map(|(name, amount)| (name, api_quantity(amount))).collect()
}
