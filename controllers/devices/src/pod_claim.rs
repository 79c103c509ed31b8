//! Finds the ResourceClaim behind a claim in a pod's spec.

use steersman_api::{Meta, OwnerReference};
use steersman_informer::Interned;
use steersman_kinds::pod_device_claims::{DeviceClaim, GeneratedClaim};

/// The ResourceClaim that a claim in a pod's spec stands for. Upstream's `resourceclaim.Name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// This one, which the pod shares with others.
    Shared(&'a Interned),
    /// This one, which was made for the pod. It may belong to another pod, since a status can be wrong: the caller must check
    /// its owner.
    Generated(&'a Interned),
    /// None yet: it must be made from a template.
    NotCreated,
    /// None: the pod's status says that the pod needs none.
    Unneeded,
    /// The claim's source is newer than this program.
    Unsupported,
}

impl<'a> Named<'a> {
    /// The ResourceClaim of `claim`. `generated` is the list in the pod's status.
    pub(crate) fn of(claim: &'a DeviceClaim, generated: &'a [GeneratedClaim]) -> Self {
        if let Some(name) = &claim.claim {
            return Self::Shared(name);
        }
        if claim.template.is_none() {
            return Self::Unsupported;
        }
        match generated.iter().find(|generated| generated.name == claim.name) {
            Some(GeneratedClaim { claim: Some(name), .. }) => Self::Generated(name),
            Some(_) => Self::Unneeded,
            None => Self::NotCreated,
        }
    }

    /// The ResourceClaim's name, if it is known.
    pub(crate) fn name(self) -> Option<&'a Interned> {
        match self {
            Self::Shared(name) | Self::Generated(name) => Some(name),
            Self::NotCreated | Self::Unneeded | Self::Unsupported => None,
        }
    }
}

/// Whether an owner is a PodGroup, of whatever version.
pub(crate) fn is_pod_group(owner: &OwnerReference) -> bool {
    owner.kind == "PodGroup" && owner.api_version.starts_with("scheduling.k8s.io/")
}

/// Whether a claim belongs to the PodGroup of this name. Upstream: `isForPodGroupByPod`.
pub(crate) fn is_group_by_name(claim: &Meta, group: &str) -> bool {
    claim.controller().is_some_and(|owner| is_pod_group(owner) && owner.name == group)
}
