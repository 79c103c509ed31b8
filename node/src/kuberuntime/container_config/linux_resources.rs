//! Requests and limits as the runtime sets them.

use k8s_openapi::api::core::v1::{Container, Pod};
use steersman_api::Quantity;

use super::node_facts::NodeFacts;
use super::oom_score::oom_score_adj;
use crate::cgroups::CgroupVersion;
use crate::cgroups::cpu::{quota_of_milli_cpu, shares_of_milli_cpu};
use crate::cri::v1;
use crate::resources::{
    CPU, MEMORY, ResourceList, amount, huge_pages_by_size, limits, overhead, pod_level,
    pod_limits_without_overhead, pod_requests_without_overhead, requests,
};

/// What a container is given; also what it is given anew when its resources change while it runs.
pub fn container_resources(
    pod: &Pod,
    container: &Container,
    node: &NodeFacts,
) -> v1::LinuxContainerResources {
    let asked = requests(container.resources.as_ref());
    let own = limits(container.resources.as_ref());
    let of_pod = limits(pod_level(pod));
    // A container without a limit of its own has its pod's.
    let limit =
        |name: &str| Some(amount(&own, name)).filter(|own| !own.is_zero()).unwrap_or(amount(&of_pod, name));
    let mut resources = linux_resources(asked.get(CPU).copied(), limit(CPU), limit(MEMORY), node);
    resources.oom_score_adj = oom_score_adj(pod, container, node.memory_capacity);
    resources.hugepage_limits = huge_page_limits(&of_pod, &own, &node.huge_page_sizes);
    forbid_swap(&mut resources, node);
    resources
}

/// What all containers of the pod have together.
pub(crate) fn sandbox_resources(pod: &Pod, node: &NodeFacts) -> v1::LinuxContainerResources {
    let asked = pod_requests_without_overhead(pod);
    let allowed = pod_limits_without_overhead(pod);
    linux_resources(asked.get(CPU).copied(), amount(&allowed, CPU), amount(&allowed, MEMORY), node)
}

/// What running the pod takes besides. It is both request and limit.
pub(crate) fn sandbox_overhead(pod: &Pod, node: &NodeFacts) -> v1::LinuxContainerResources {
    let overhead = overhead(pod);
    if overhead.is_empty() {
        return v1::LinuxContainerResources::default();
    }
    let cpu = amount(&overhead, CPU);
    linux_resources(Some(cpu), cpu, amount(&overhead, MEMORY), node)
}

/// Zero is no limit. Where nothing is said of a request, the limit is what is asked for.
fn linux_resources(
    cpu_request: Option<Quantity>,
    cpu_limit: Quantity,
    memory_limit: Quantity,
    node: &NodeFacts,
) -> v1::LinuxContainerResources {
    let shares = shares_of_milli_cpu(cpu_request.unwrap_or(cpu_limit).milli_value());
    let mut resources = v1::LinuxContainerResources {
        cpu_shares: i64::try_from(shares).unwrap_or(i64::MAX),
        memory_limit_in_bytes: memory_limit.value(),
        ..v1::LinuxContainerResources::default()
    };
    if node.cpu_cfs_quota {
        resources.cpu_period = node.quota_period();
        resources.cpu_quota = quota_of_milli_cpu(cpu_limit.milli_value(), resources.cpu_period);
    }
    if node.cgroup_version == CgroupVersion::V2 && !node.single_process_oom_kill {
        resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    resources
}

/// On version 1 memory and swap are limited as a sum, so the limit of memory is the limit of both.
fn forbid_swap(resources: &mut v1::LinuxContainerResources, node: &NodeFacts) {
    match node.cgroup_version {
        _ if !node.swap_controller => {}
        CgroupVersion::V1 => resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes,
        CgroupVersion::V2 => {
            resources.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
        }
    }
}

/// A limit for each size that the machine has: the container's, or its pod's, or none at all.
fn huge_page_limits(of_pod: &ResourceList, own: &ResourceList, sizes: &[String]) -> Vec<v1::HugepageLimit> {
    let mut limits = huge_pages_by_size(of_pod);
    limits.extend(huge_pages_by_size(own));
    let limit = |size: &String| limits.get(size).and_then(|limit| u64::try_from(limit.value()).ok());
    sizes
        .iter()
        .map(|size| v1::HugepageLimit { page_size: size.clone(), limit: limit(size).unwrap_or_default() })
        .collect()
}
