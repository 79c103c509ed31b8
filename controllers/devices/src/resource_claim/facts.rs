//! The facts about pods, PodGroups and claims that decisions rest on.

use steersman_api::{ArcStr, Meta, ObjectKey, Uid};
use steersman_informer::wire::{Group, Kind, Object};
use steersman_kinds::device_allocation::{Consumer, Reservations};
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaim, DeviceClaimStatus, DeviceClaims, GeneratedClaim};
use steersman_kinds::pod_group::{GroupClaimStatus, GroupClaims, Membership, PodGroup};
use steersman_kinds::resource_claim::{Origin, ResourceClaim};

use super::WithGroups;
use crate::pod_claim::{Named, is_group_by_name, is_pod_group};

/// The finalizer of allocated claims.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

const KEPT: &str = "the groups that the controller reads must be kept";

/// A pod or a PodGroup that uses claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claimant {
    pub kind: ClaimantKind,
    pub key: ObjectKey,
    pub uid: Uid,
    pub is_deleting: bool,
    /// Whether the pod has a node.
    pub is_scheduled: bool,
    /// Whether the pod has succeeded or failed.
    pub is_terminal: bool,
    /// The PodGroup of the pod. `None` without the gate of claims of PodGroups.
    pub group: Option<ArcStr>,
    /// The claims of the spec.
    pub claims: Vec<DeviceClaim>,
    /// The claims of the status that were made from templates.
    pub generated: Vec<GeneratedClaim>,
}

/// The kind of a claimant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClaimantKind {
    #[default]
    Pod,
    PodGroup,
}

impl ClaimantKind {
    /// The kind's name.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::PodGroup => "PodGroup",
        }
    }
}

impl Claimant {
    /// # Panics
    /// If the pod lacks a group that the controller reads.
    pub(super) fn of_pod(pod: &Pod, groups: WithGroups) -> Self {
        let meta = pod.meta();
        let group = || Membership::of(pod).expect(KEPT).group.name.as_ref().map(|name| name.as_arc().clone());
        Self {
            kind: ClaimantKind::Pod,
            group: if groups == WithGroups::Yes { group() } else { None },
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            is_deleting: meta.is_deleting(),
            is_scheduled: !Placement::of(pod).expect(KEPT).node.is_empty(),
            is_terminal: Phase::of(pod).expect(KEPT).is_terminal(),
            claims: DeviceClaims::of(pod).expect(KEPT).list().to_vec(),
            generated: DeviceClaimStatus::of(pod).expect(KEPT).generated().to_vec(),
        }
    }

    /// # Panics
    /// If the PodGroup lacks a group of fields that the controller reads.
    pub(super) fn of_group(group: &PodGroup) -> Self {
        let meta = group.meta();
        Self {
            kind: ClaimantKind::PodGroup,
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            is_deleting: meta.is_deleting(),
            claims: GroupClaims::of(group).expect(KEPT).list().collect(),
            generated: GroupClaimStatus::of(group).expect(KEPT).generated.clone(),
            ..Self::default()
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

    /// The claimant as a consumer of claims.
    pub(super) fn consumer(&self) -> Consumer {
        let (api_group, resource) = match self.kind {
            ClaimantKind::Pod => ("", "pods"),
            ClaimantKind::PodGroup => (PodGroup::GROUP, PodGroup::RESOURCE),
        };
        let (name, uid) = (self.key.name.clone(), self.uid.clone());
        Consumer { api_group: api_group.into(), resource: resource.into(), name, uid }
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

    /// Whether the claim was made for the claimant of this uid, or for its PodGroup. A pod knows only the name of its group.
    /// Upstream: `IsForPod`.
    pub(super) fn is_for(&self, claimant: &Claimant) -> bool {
        self.meta.is_controlled_by(&claimant.uid)
            || claimant.group.as_deref().is_some_and(|group| is_group_by_name(&self.meta, group))
    }

    /// Whether the claim is reserved for the claimant, or for its PodGroup. Upstream: `IsReservedForPod`.
    pub(super) fn is_reserved_for(&self, claimant: &Claimant) -> bool {
        self.reserved_for.iter().any(|consumer| {
            consumer.uid == claimant.uid
                || (consumer.is_pod_group() && claimant.group.as_ref() == Some(&consumer.name))
        })
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.meta.has_finalizer(FINALIZER)
    }
}

/// The kind, the name and the uid of the claimant that owns a claim as its controller.
pub(super) fn owner(claim: &Meta) -> Option<(ClaimantKind, &ArcStr, &Uid)> {
    if let Some((name, uid)) = owning_pod(claim) {
        return Some((ClaimantKind::Pod, name, uid));
    }
    let owner = claim.controller().filter(|owner| is_pod_group(owner))?;
    Some((ClaimantKind::PodGroup, &owner.name, &owner.uid))
}

/// The name and the uid of the pod that owns a claim as its controller.
pub(super) fn owning_pod(claim: &Meta) -> Option<(&ArcStr, &Uid)> {
    let is_pod = |owner: &&steersman_api::OwnerReference| {
        owner.is_controller() && owner.api_version == "v1" && owner.kind == "Pod"
    };
    claim.owners.iter().find(is_pod).map(|owner| (&owner.name, &owner.uid))
}
