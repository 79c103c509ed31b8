//! AppArmor profiles need a kernel that enforces them.

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod, PodSpec};

use super::Rejection;

/// The annotation by which profiles were named before there was a field for it; the container's name follows.
const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Of pods that have not begun yet.
pub(super) fn check(pod: &Pod, enabled: bool) -> Result<(), Rejection> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(spec) = pod.spec.as_ref().filter(|_| phase == Some("Pending")) else { return Ok(()) };
    let profiles = profiles(spec);
    let confines = |profile: &&AppArmorProfile| profile.type_ != "Unconfined";
    if !profiles.iter().any(confines) && !is_annotated(pod) {
        return Ok(());
    }
    let refused = |why: &str| Err(Rejection::new("AppArmor", format!("Cannot enforce AppArmor: {why}")));
    if !enabled {
        return refused("AppArmor is not enabled on the host");
    }
    let nameless = |profile: &&AppArmorProfile| {
        let name = profile.localhost_profile.as_deref().unwrap_or_default();
        profile.type_ == "Localhost" && name.trim().is_empty()
    };
    match profiles.iter().any(nameless) {
        true => refused("invalid empty AppArmor profile name"),
        false => Ok(()),
    }
}

fn profiles(spec: &PodSpec) -> Vec<&AppArmorProfile> {
    let of_pod = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    let contexts = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .filter_map(|container| container.security_context.as_ref())
        .chain(
            spec.ephemeral_containers
                .iter()
                .flatten()
                .filter_map(|container| container.security_context.as_ref()),
        );
    let of_containers = contexts.filter_map(|context| context.app_armor_profile.as_ref());
    of_pod.into_iter().chain(of_containers).collect()
}

fn is_annotated(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.iter().flatten();
    annotations
        .filter(|(name, _)| name.starts_with(ANNOTATION_PREFIX))
        .any(|(_, profile)| profile != "unconfined")
}
