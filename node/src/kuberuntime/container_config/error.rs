//! Why a container can't be configured.

/// What is wrong with a container's spec, or with its image for that spec, in the words that the container's waiting state
/// and the event show. Nothing was asked of the runtime; the same spec fails again until it, or the image, changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Must not be root, and asks to be.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunAsUserIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// Must not be root, and the image's user has only a name.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    UnknownImageUser {
        /// The image's user.
        user: String,
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// Must not be root, and the image's user is.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageUserIsRoot {
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// Must not be root, and the image's user is none at all.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({user}). (Must be 1-({max})): must be between 0 and {max}, inclusive (pod: {pod:?}, container: {container})",
        max = i32::MAX
    )]
    InvalidImageUser {
        /// The image's user.
        user: i64,
        /// `name_namespace(uid)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// A seccomp profile on this machine without a name.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoSeccompProfile,
    /// An `AppArmor` profile on this machine without a name.
    #[error("missing localhost apparmor profile name")]
    NoAppArmorProfile,
    /// An `AppArmor` profile of a type that there is not.
    #[error("unknown apparmor profile type: {kind:?}")]
    UnknownAppArmorProfile {
        /// The type.
        kind: String,
    },
    /// A policy of supplemental groups that there is not.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    SupplementalGroupsPolicy(String),
    /// It uses devices that the pod claims, and this node has no way to get them.
    #[error("{0}")]
    ResourceClaim(String),
    /// The pod's namespaces can't be made.
    #[error("{0}")]
    Namespaces(String),
}

impl ConfigError {
    /// The reason of the waiting state, for all of them.
    pub const REASON: &str = "CreateContainerConfigError";
}
