//! In which order processes are killed when the machine runs out of memory.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod_config::{is_mirror_pod, is_static_pod};
use crate::resources::{
    MEMORY, QosClass, amount, container_requests, has_pod_level_requests, pod_level, qos_class, requests,
};
use crate::restart_policy::is_restartable_init_container;

const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;
/// The least priority of pods that the cluster can't do without.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;
const SYSTEM_NODE_CRITICAL: &str = "system-node-critical";

/// How much sooner (up to 1000) or later (down to -1000) than by its use of memory a container is killed.
///
/// A burstable one that uses all it asked for comes to about 1000 together with its use, so that who uses more goes first.
/// What a pod as a whole asks for beyond its containers counts in equal parts for each. A sidecar goes no sooner than its
/// pod's smallest container would.
pub(super) fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: i64) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED,
        QosClass::BestEffort => return BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let memory = |container: &Container| amount(&requests(container.resources.as_ref()), MEMORY).value();
    let part = if has_pod_level_requests(pod) { part_of_remainder(pod) } else { 0 };
    let score =
        |asked: i64| 1000 - 1000i64.saturating_mul(asked.saturating_add(part)) / memory_capacity.max(1);

    let mut adjustment = score(memory(container));
    let spec = pod.spec.as_ref();
    let is_sidecar = is_restartable_init_container(container)
        && spec
            .and_then(|spec| spec.init_containers.as_ref())
            .is_some_and(|containers| containers.iter().any(|other| other.name == container.name));
    if is_sidecar {
        let smallest = spec.and_then(|spec| spec.containers.iter().map(memory).min()).unwrap_or_default();
        adjustment = adjustment.min(score(smallest));
    }
    // After those that are guaranteed theirs, and before those that asked for nothing.
    adjustment.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

/// What the pod asks for beyond what its containers do, a container.
fn part_of_remainder(pod: &Pod) -> i64 {
    let asked = amount(&requests(pod_level(pod)), MEMORY);
    let Some(spec) = pod.spec.as_ref().filter(|_| !asked.is_zero()) else { return 0 };
    let containers = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let remainder = asked.value() - amount(&container_requests(pod), MEMORY).value();
    remainder / i64::try_from(containers).unwrap_or(i64::MAX).max(1)
}

fn is_node_critical(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let critical = is_static_pod(pod)
        || is_mirror_pod(pod)
        || spec.priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY);
    critical && spec.priority_class_name.as_deref() == Some(SYSTEM_NODE_CRITICAL)
}
