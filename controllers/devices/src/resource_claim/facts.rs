//! The facts about pods and claims that decisions rest on.

use steersman_api::{ArcStr, Meta, ObjectKey, Uid};
use steersman_informer::wire::{Group, Object};
use steersman_kinds::device_allocation::{Consumer, Reservations};
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaim, DeviceClaimStatus, DeviceClaims, GeneratedClaim};
use steersman_kinds::resource_claim::{Origin, ResourceClaim};

use crate::pod_claim::Named;

/// The finalizer of allocated claims.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

const KEPT: &str = "the groups that the controller reads must be kept";

/// A pod that uses claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodFacts {
    pub key: ObjectKey,
    pub uid: Uid,
    pub is_deleting: bool,
    /// Whether the pod has a node.
    pub is_scheduled: bool,
    /// Whether the pod has succeeded or failed.
    pub is_terminal: bool,
    /// The claims of the spec.
    pub claims: Vec<DeviceClaim>,
    /// The claims of the status that were made from templates.
    pub generated: Vec<GeneratedClaim>,
}

impl PodFacts {
    /// # Panics
    /// If the pod lacks a group that the controller reads.
    pub(super) fn of(pod: &Pod) -> Self {
        let meta = pod.meta();
        Self {
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            is_deleting: meta.is_deleting(),
            is_scheduled: !Placement::of(pod).expect(KEPT).node.is_empty(),
            is_terminal: Phase::of(pod).expect(KEPT).is_terminal(),
            claims: DeviceClaims::of(pod).expect(KEPT).list().to_vec(),
            generated: DeviceClaimStatus::of(pod).expect(KEPT).generated().to_vec(),
        }
    }

    /// Whether certainly no container of the pod runs or will run. Upstream's `isPodDone`.
    pub(super) fn is_done(&self) -> bool {
        self.is_terminal || (self.is_deleting && !self.is_scheduled)
    }

    /// The ResourceClaim of a claim in the spec.
    pub(super) fn named<'a>(&'a self, claim: &'a DeviceClaim) -> Named<'a> {
        Named::of(claim, &self.generated)
    }
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClaimFacts {
    pub meta: Meta,
    /// The claim in the owning pod's spec that the ResourceClaim was made for.
    pub pod_claim: Option<ArcStr>,
    pub is_allocated: bool,
    pub reserved_for: Vec<Consumer>,
}

impl ClaimFacts {
    /// # Panics
    /// If the claim lacks a group that the controller reads.
    pub(super) fn of(claim: &ResourceClaim) -> Self {
        let reservations = Reservations::of(claim).expect(KEPT);
        Self {
            meta: claim.meta().clone(),
            pod_claim: Origin::of(claim).expect(KEPT).pod_claim.0.clone(),
            is_allocated: reservations.allocation.0,
            reserved_for: reservations.reserved_for.clone(),
        }
    }

    /// Whether the claim was made for the pod of this uid.
    pub(super) fn is_for(&self, pod: &Uid) -> bool {
        self.meta.is_controlled_by(pod)
    }

    pub(super) fn is_reserved_for(&self, pod: &Uid) -> bool {
        self.reserved_for.iter().any(|consumer| consumer.uid == *pod)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.meta.has_finalizer(FINALIZER)
    }
}

/// The name and the uid of the pod that owns a claim as its controller.
pub(super) fn owning_pod(claim: &Meta) -> Option<(&ArcStr, &Uid)> {
    let is_pod = |owner: &&steersman_api::OwnerReference| {
        owner.is_controller() && owner.api_version == "v1" && owner.kind == "Pod"
    };
    claim.owners.iter().find(is_pod).map(|owner| (&owner.name, &owner.uid))
}
