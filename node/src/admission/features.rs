//! What the node must be able to do for a pod.

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};

use super::Rejection;
use crate::node_status::system_info::DECLARED_FEATURES;

const OS: &str = "kubernetes.io/os";

/// Pods for other operating systems are refused.
pub(super) fn check_operating_system(pod: &Pod) -> Result<(), Rejection> {
    let labelled = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS));
    if labelled.is_some_and(|os| os != "linux") {
        return Err(Rejection::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    let named = pod.spec.as_ref().and_then(|spec| spec.os.as_ref());
    if named.is_some_and(|os| os.name != "linux") {
        return Err(Rejection::new(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ));
    }
    Ok(())
}

/// Strict groups need a runtime that keeps to them.
pub(super) fn check_supplemental_groups(pod: &Pod, node: &Node) -> Result<(), Rejection> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let policy = context.and_then(|context| context.supplemental_groups_policy.as_deref());
    let features = node.status.as_ref().and_then(|status| status.features.as_ref());
    let supported = features.and_then(|features| features.supplemental_groups_policy).unwrap_or(false);
    if policy == Some("Strict") && !supported {
        return Err(Rejection::new(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ));
    }
    Ok(())
}

/// Features that not every node has must be among those that this one declares.
pub(super) fn check_declared(pod: &Pod) -> Result<(), Rejection> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let missing = |feature: &str| !DECLARED_FEATURES.contains(&feature);
    let needed = [
        ("RestartAllContainersOnContainerExits", restarts_all(spec)),
        ("UserNamespacesHostNetworkSupport", maps_users_on_the_hosts_network(spec)),
    ];
    let lacking: Vec<_> = needed
        .into_iter()
        .filter_map(|(feature, needed)| (needed && missing(feature)).then_some(feature))
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let message = format!("Pod requires node features that are not available: {}", lacking.join(", "));
    Err(Rejection::new("PodFeatureUnsupported", message))
}

fn restarts_all(spec: &PodSpec) -> bool {
    let all = |container: &Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        rules.any(|rule| rule.action == "RestartAllContainers")
    };
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(all)
}

fn maps_users_on_the_hosts_network(spec: &PodSpec) -> bool {
    spec.host_network == Some(true) && spec.host_users == Some(false)
}
