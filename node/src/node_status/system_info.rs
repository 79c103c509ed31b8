//! `status.nodeInfo`, and what else the status says of the node's software. Pure.

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler, NodeRuntimeHandlerFeatures,
    NodeSwapStatus,
};

use super::events::NodeEvent;
use super::inventory::RuntimeInventory;
use super::settings::Settings;
use crate::machine::Facts;

/// What this node can do of that which not every node of the field can (`status.declaredFeatures`), in order. The API server
/// lets no pod use the first two that runs on a node that does not declare them.
pub const DECLARED_FEATURES: [&str; 3] = [
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// Sets all of it. Says so if the machine was restarted since the status was last written.
pub fn set(
    node: &mut Node,
    facts: &Facts,
    runtime: &RuntimeInventory,
    settings: &Settings,
) -> Option<NodeEvent> {
    let status = node.status.get_or_insert_default();
    let info = status.node_info.get_or_insert_default();
    let rebooted = !info.boot_id.is_empty() && info.boot_id != facts.boot_id;
    info.machine_id.clone_from(&facts.machine_id);
    info.system_uuid.clone_from(&facts.system_uuid);
    info.boot_id.clone_from(&facts.boot_id);
    info.kernel_version.clone_from(&facts.kernel_version);
    info.os_image.clone_from(&facts.os_image);
    info.kubelet_version.clone_from(&settings.kubelet_version);
    info.kube_proxy_version = String::new();
    "linux".clone_into(&mut info.operating_system);
    facts.architecture.clone_into(&mut info.architecture);
    if facts.swap != 0 {
        info.swap = Some(NodeSwapStatus { capacity: Some(facts.swap) });
    }
    if let Some((name, version)) = &runtime.version {
        info.container_runtime_version = format!("{name}://{}", runtime_version(version));
    }
    let port = DaemonEndpoint { port: settings.kubelet_port };
    status.daemon_endpoints = Some(NodeDaemonEndpoints { kubelet_endpoint: Some(port) });
    status.runtime_handlers = Some(runtime.handlers.iter().map(handler).collect());
    status.declared_features = Some(DECLARED_FEATURES.map(str::to_owned).to_vec());
    if let Some(features) = &runtime.features {
        let supplemental_groups_policy = Some(features.supplemental_groups_policy);
        status.features = Some(NodeFeatures { supplemental_groups_policy });
    }
    rebooted.then(|| NodeEvent::rebooted(&settings.node_name, &facts.boot_id))
}

fn handler(handler: &crate::cri::v1::RuntimeHandler) -> NodeRuntimeHandler {
    let features = handler.features.unwrap_or_default();
    NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(features.recursive_read_only_mounts),
            user_namespaces: Some(features.user_namespaces),
        }),
    }
}

/// A runtime's version as upstream prints it: a semantic version whole, of another one the numbers it begins with.
/// `Unknown` where there are none.
pub fn runtime_version(version: &str) -> String {
    let text = version.trim_start();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (numbers, rest) = text.split_at(end.unwrap_or(text.len()));
    let parts: Option<Vec<u64>> =
        numbers.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
    let Some(parts) = parts.filter(|parts| parts.len() >= 2) else { return "Unknown".to_owned() };
    let semantic = parts.len() == 3 && rest.starts_with(['-', '+']);
    let numbers = parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
    if semantic { numbers + rest } else { numbers }
}
