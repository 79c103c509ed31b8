//! Profiles of seccomp and `AppArmor`.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod, PodSecurityContext, SecurityContext};

use super::error::ConfigError;
use super::node_facts::NodeFacts;
use super::security_context::pod_context;
use crate::cri::v1::SecurityProfile;
use crate::cri::v1::security_profile::ProfileType;
use crate::pod_config::annotations::annotation;

const RUNTIME_DEFAULT: &str = "RuntimeDefault";
const UNCONFINED: &str = "Unconfined";
const LOCALHOST: &str = "Localhost";
/// Annotations that named profiles before there was a field; a container's name follows.
const APPARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The same profiles as those annotations name them, and runtimes older than the field.
const OLD_RUNTIME_DEFAULT: &str = "runtime/default";
const OLD_UNCONFINED: &str = "unconfined";
const OLD_LOCALHOST_PREFIX: &str = "localhost/";

/// The filter of system calls: the container's, or the pod's, or the node's default.
pub(super) fn seccomp(
    of_pod: Option<&PodSecurityContext>,
    of_container: Option<&SecurityContext>,
    node: &NodeFacts,
) -> Result<SecurityProfile, ConfigError> {
    let of_container = of_container.and_then(|context| context.seccomp_profile.as_ref());
    let chosen = of_container.or_else(|| of_pod.and_then(|context| context.seccomp_profile.as_ref()));
    let Some(chosen) = chosen else {
        let default =
            if node.seccomp_default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined };
        return Ok(profile(default, String::new()));
    };
    match (chosen.type_.as_str(), chosen.localhost_profile.as_deref()) {
        (RUNTIME_DEFAULT, _) => Ok(profile(ProfileType::RuntimeDefault, String::new())),
        (LOCALHOST, None | Some("")) => Err(ConfigError::NoSeccompProfile),
        (LOCALHOST, Some(file)) => {
            // Never above the root, whatever it begins with: the API server refuses paths that climb.
            let path = node.seccomp_profile_root.join(file.trim_start_matches('/'));
            Ok(profile(ProfileType::Localhost, path.to_string_lossy().into_owned()))
        }
        _ => Ok(profile(ProfileType::Unconfined, String::new())),
    }
}

/// The profile of `AppArmor`, and its old name for runtimes that know only that; none where nobody names one.
pub(super) fn apparmor(
    pod: &Pod,
    container: &Container,
) -> Result<Option<(SecurityProfile, String)>, ConfigError> {
    let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.clone());
    let chosen = own
        .or_else(|| annotated(pod, &container.name))
        .or_else(|| pod_context(pod).and_then(|context| context.app_armor_profile.clone()));
    let Some(chosen) = chosen else { return Ok(None) };
    Ok(Some(match chosen.type_.as_str() {
        RUNTIME_DEFAULT => {
            (profile(ProfileType::RuntimeDefault, String::new()), OLD_RUNTIME_DEFAULT.to_owned())
        }
        UNCONFINED => (profile(ProfileType::Unconfined, String::new()), OLD_UNCONFINED.to_owned()),
        LOCALHOST => {
            let name = chosen.localhost_profile.ok_or(ConfigError::NoAppArmorProfile)?;
            let old = format!("{OLD_LOCALHOST_PREFIX}{name}");
            (profile(ProfileType::Localhost, name), old)
        }
        _ => return Err(ConfigError::UnknownAppArmorProfile { kind: chosen.type_ }),
    }))
}

/// What the annotation for this container says, as the field would. One that is malformed says nothing.
fn annotated(pod: &Pod, container: &str) -> Option<AppArmorProfile> {
    let (kind, name) = match annotation(pod, &format!("{APPARMOR_ANNOTATION_PREFIX}{container}"))? {
        OLD_RUNTIME_DEFAULT => (RUNTIME_DEFAULT, None),
        OLD_UNCONFINED => (UNCONFINED, None),
        other => (LOCALHOST, Some(other.strip_prefix(OLD_LOCALHOST_PREFIX)?.to_owned())),
    };
    Some(AppArmorProfile { type_: kind.to_owned(), localhost_profile: name })
}

fn profile(kind: ProfileType, localhost_ref: String) -> SecurityProfile {
    SecurityProfile { profile_type: kind as i32, localhost_ref }
}
