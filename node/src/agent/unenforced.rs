//! Limits that a pod asks for and that this node does not enforce. Pure.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The event that tells a pod of them. Upstream has no such event, as its kubelet evicts pods over these limits.
pub(super) const REASON: &str = "LimitNotEnforced";

/// The message about limits on disk space; `None` for a pod without any.
pub(super) fn message(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let volumes = spec.volumes.iter().flatten().filter(|volume| is_limited_on_disk(volume));
    let mut limits: Vec<_> =
        volumes.map(|volume| format!("the sizeLimit of emptyDir volume {:?}", volume.name)).collect();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers = containers.filter(|container| limits_storage(container));
    limits.extend(
        containers.map(|container| format!("the ephemeral-storage limit of container {:?}", container.name)),
    );
    if limits.is_empty() {
        return None;
    }
    Some(format!(
        "This node does not evict pods for the disk space that they use, and so ignores {}",
        limits.join(", ")
    ))
}

/// The file system enforces the limit of a volume in memory.
fn is_limited_on_disk(volume: &Volume) -> bool {
    let on_disk = |source: &&EmptyDirVolumeSource| source.medium.as_deref().unwrap_or_default().is_empty();
    let size = volume.empty_dir.as_ref().filter(on_disk).and_then(|source| source.size_limit.as_ref());
    size.is_some_and(is_limit)
}

fn limits_storage(container: &Container) -> bool {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    limits.and_then(|limits| limits.get("ephemeral-storage")).is_some_and(is_limit)
}

/// As upstream, 0 is no limit.
fn is_limit(amount: &Quantity) -> bool {
    amount.0.parse::<steersman_api::Quantity>().is_ok_and(|amount| !amount.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn limits_on_disk_space_are_named() {
        let limited = json!({ "limits": { "ephemeral-storage": "1Gi" } });
        let of = |volume: Value, resources: Value| {
            let spec = json!({
                "volumes": [{ "name": "v", "emptyDir": volume }],
                "initContainers": [{ "name": "i", "resources": resources }],
                "containers": [{ "name": "c", "resources": resources }],
            });
            message(&serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap())
        };
        let said = |limits: &str| {
            Some(format!(
                "This node does not evict pods for the disk space that they use, and so ignores {limits}"
            ))
        };
        let volume = "the sizeLimit of emptyDir volume \"v\"";
        let containers =
            "the ephemeral-storage limit of container \"i\", the ephemeral-storage limit of container \"c\"";
        for (source, resources, expected) in [
            (json!({}), json!({}), None),
            (json!({ "sizeLimit": "1Gi" }), json!({}), said(volume)),
            (json!({ "sizeLimit": "0" }), json!({}), None),
            (json!({ "sizeLimit": "1Gi", "medium": "Memory" }), json!({}), None),
            (json!({}), json!({ "limits": { "memory": "1Gi" } }), None),
            (json!({}), json!({ "requests": { "ephemeral-storage": "1Gi" } }), None),
            (json!({}), json!({ "limits": { "ephemeral-storage": "0" } }), None),
            (json!({}), limited.clone(), said(containers)),
            (json!({ "sizeLimit": "1Gi" }), limited, said(&format!("{volume}, {containers}"))),
        ] {
            assert_eq!(of(source.clone(), resources.clone()), expected, "{source} {resources}");
        }
    }
}
