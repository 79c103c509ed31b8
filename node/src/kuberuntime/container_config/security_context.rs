//! As whom containers run, and what they are kept from.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SELinuxOptions, SecurityContext};

use super::error::ConfigError;
use super::{ContainerInputs, ImageUser, namespaces, profiles};
use crate::cri::v1;
use crate::pod_text::pod_text;

/// Files of `/proc` and `/sys` that tell of the machine, or harm it.
const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
const MAX_USER_ID: i64 = i32::MAX as i64;

/// The container's security context, where the pod's counts for what it leaves open.
pub(super) fn effective(pod: &Pod, container: &Container) -> SecurityContext {
    let mut own = container.security_context.clone().unwrap_or_default();
    if let Some(of_pod) = pod_context(pod) {
        own.run_as_user = own.run_as_user.or(of_pod.run_as_user);
        own.run_as_group = own.run_as_group.or(of_pod.run_as_group);
        own.run_as_non_root = own.run_as_non_root.or(of_pod.run_as_non_root);
        own.se_linux_options = own.se_linux_options.or_else(|| of_pod.se_linux_options.clone());
    }
    own
}

/// Whether the container may be run at all, where it must not run as root. A user of the image that has only a name can't
/// be told from root.
pub(super) fn verify_run_as_non_root(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
) -> Result<(), ConfigError> {
    let effective = effective(pod, container);
    if effective.run_as_non_root != Some(true) {
        return Ok(());
    }
    let (pod, container) = (pod_text(pod), container.name.clone());
    match (effective.run_as_user, image_user) {
        (Some(0), _) => Err(ConfigError::RunAsUserIsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Name(user)) => {
            Err(ConfigError::UnknownImageUser { user: user.clone(), pod, container })
        }
        (None, ImageUser::Id(0)) => Err(ConfigError::ImageUserIsRoot { pod, container }),
        (None, ImageUser::Id(1..=MAX_USER_ID)) => Ok(()),
        (None, ImageUser::Id(user)) => Err(ConfigError::InvalidImageUser { user: *user, pod, container }),
    }
}

/// What the runtime is told of the container's security.
#[expect(deprecated, reason = "runtimes older than the field for AppArmor know only the old one")]
pub(super) fn linux_security_context(
    pod: &Pod,
    container: &Container,
    inputs: &ContainerInputs<'_>,
) -> Result<v1::LinuxContainerSecurityContext, ConfigError> {
    let effective = effective(pod, container);
    let of_pod = pod_context(pod);

    let mut namespaces = namespaces::of_pod(pod).map_err(ConfigError::Namespaces)?;
    if let Some(target) = inputs.target_container
        && namespaces.pid == v1::NamespaceMode::Container as i32
    {
        namespaces.pid = v1::NamespaceMode::Target as i32;
        target.clone_into(&mut namespaces.target_id);
    }
    let (apparmor, apparmor_profile) = profiles::apparmor(pod, container)?.unzip();
    let (masked_paths, readonly_paths) = match effective.proc_mount.as_deref() {
        Some("Unmasked") => (Vec::new(), Vec::new()),
        _ => {
            let masked = MASKED_PATHS.map(str::to_owned).into_iter();
            let masked = masked.chain(inputs.node.thermal_throttle.iter().cloned()).collect();
            (masked, READONLY_PATHS.map(str::to_owned).into())
        }
    };
    let (image_user, image_user_name) = match inputs.image_user {
        _ if effective.run_as_user.is_some() => (None, String::new()),
        ImageUser::Id(id) => (Some(*id), String::new()),
        ImageUser::Name(name) => (None, name.clone()),
    };
    let mut groups = volume_and_own_groups(of_pod);
    groups.extend(inputs.extra_supplemental_groups);

    Ok(v1::LinuxContainerSecurityContext {
        capabilities: effective.capabilities.map(|capabilities| v1::Capability {
            add_capabilities: capabilities.add.unwrap_or_default(),
            drop_capabilities: capabilities.drop.unwrap_or_default(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: effective.privileged.unwrap_or_default(),
        namespace_options: Some(namespaces),
        selinux_options: effective.se_linux_options.as_ref().map(selinux_options),
        run_as_user: effective.run_as_user.or(image_user).map(|value| v1::Int64Value { value }),
        run_as_group: effective.run_as_group.map(|value| v1::Int64Value { value }),
        run_as_username: image_user_name,
        readonly_rootfs: effective.read_only_root_filesystem.unwrap_or_default(),
        supplemental_groups: groups,
        supplemental_groups_policy: supplemental_groups_policy(of_pod)
            .map_err(ConfigError::SupplementalGroupsPolicy)?,
        no_new_privs: effective.allow_privilege_escalation == Some(false),
        masked_paths,
        readonly_paths,
        seccomp: Some(profiles::seccomp(of_pod, container.security_context.as_ref(), inputs.node)?),
        apparmor,
        apparmor_profile: apparmor_profile.unwrap_or_default(),
        ..v1::LinuxContainerSecurityContext::default()
    })
}

pub(crate) fn pod_context(pod: &Pod) -> Option<&PodSecurityContext> {
    pod.spec.as_ref()?.security_context.as_ref()
}

fn volume_and_own_groups(of_pod: Option<&PodSecurityContext>) -> Vec<i64> {
    let Some(of_pod) = of_pod else { return Vec::new() };
    of_pod.fs_group.into_iter().chain(of_pod.supplemental_groups.iter().flatten().copied()).collect()
}

/// How groups of the image's own user count: the CRI's value of the policy in the spec, or the policy itself if there is
/// no such.
pub(crate) fn supplemental_groups_policy(of_pod: Option<&PodSecurityContext>) -> Result<i32, String> {
    let Some(policy) = of_pod.and_then(|of_pod| of_pod.supplemental_groups_policy.as_deref()) else {
        return Ok(v1::SupplementalGroupsPolicy::Merge as i32);
    };
    let known = v1::SupplementalGroupsPolicy::from_str_name(policy).map(|policy| policy as i32);
    known.ok_or_else(|| policy.to_owned())
}

pub(crate) fn selinux_options(options: &SELinuxOptions) -> v1::SeLinuxOption {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    v1::SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        r#type: text(&options.type_),
        level: text(&options.level),
    }
}
