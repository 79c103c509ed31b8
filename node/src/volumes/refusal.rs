//! Why one volume of a pod is not mounted.

use std::fmt;

/// Why one volume is not mounted. The pod's next sync tries again; the text is for the pod's event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// What the volume stands for is not known, or may not be used now.
    #[error("{0}")]
    Unprocessed(String),
    /// This node can't mount volumes of that kind.
    #[error("{0}")]
    Unsupported(String),
    /// A step of the mount failed.
    // Upstream's form, with its blank before the colon.
    #[error("{step} for volume {volume:?} : {reason}")]
    Failed {
        /// Which step.
        step: Step,
        /// The persistent volume's name, or else the name in the pod's spec.
        volume: String,
        /// The failure.
        reason: String,
    },
}

/// A step of a mount, as upstream's events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Compares the volume's node affinity with the node.
    NodeAffinity,
    /// Looks at the volume's source.
    NewMounter,
    /// Compares the mount options with what the volume's kind supports.
    MountOptions,
    /// Mounts a device for all pods of the node.
    MountDevice,
    /// Makes, fills or mounts the volume of the pod.
    SetUp,
}

impl Refusal {
    /// A step failed for the volume.
    pub(super) fn failed(step: Step, volume: &str, reason: impl Into<String>) -> Self {
        Self::Failed { step, volume: volume.to_owned(), reason: reason.into() }
    }

    /// Whether no step of the mount was tried.
    pub(super) fn is_before_mount(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }

    /// Whether this node can't mount volumes of that kind.
    pub(super) fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported(_))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeAffinity => "MountVolume.NodeAffinity check failed",
            Self::NewMounter => "MountVolume.NewMounter initialization failed",
            Self::MountOptions => "MountVolume.MountOptionSupport check failed",
            Self::MountDevice => "MountVolume.MountDevice failed",
            Self::SetUp => "MountVolume.SetUp failed",
        })
    }
}
