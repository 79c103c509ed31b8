//! Who owns the claims of a pod: the rules of `persistentVolumeClaimRetentionPolicy`.

use steersman_api::{ArcStr, Meta, OwnerReference, ResourceVersion, Uid};
use steersman_controller::client::controller_reference;
use steersman_kinds::stateful_set::{ClaimRetention, StatefulSet};

/// A claim of one of the set's pods, as the cache shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claim {
    /// Tells the claim from other claims of its name.
    pub uid: Uid,
    /// The claim's version.
    pub version: ResourceVersion,
    /// The claim's owners.
    pub owners: Vec<OwnerReference>,
    /// Whether the claim is being deleted.
    pub deleting: bool,
}

impl Claim {
    /// Reads a claim's metadata.
    pub(super) fn of(meta: &Meta) -> Self {
        Self {
            uid: meta.uid.clone(),
            version: meta.resource_version,
            owners: meta.owners.to_vec(),
            deleting: meta.is_deleting(),
        }
    }

    fn has_owner(&self, uid: &Uid) -> bool {
        self.owners.iter().any(|owner| owner.uid == *uid)
    }
}

/// What becomes of a claim that no pod needs any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// The claim stays.
    #[default]
    Retain,
    /// The garbage collector deletes the claim with its owner.
    Delete,
}

/// What becomes of claims, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retention {
    /// When the set is deleted. `Delete`: the set owns the claims of the pods that it wants.
    pub when_deleted: Fate,
    /// When the set is scaled down. `Delete`: a pod that the set does not want any more owns its claims.
    pub when_scaled: Fate,
}

impl Retention {
    /// Reads a set's policy. A value that is not known counts as `Retain`, for both times, as upstream.
    pub(super) fn of(policy: Option<&ClaimRetention>) -> Self {
        let fate = |text: &str| match text {
            "Retain" => Some(Fate::Retain),
            "Delete" => Some(Fate::Delete),
            _ => None,
        };
        let known = policy.and_then(|policy| {
            let (when_deleted, when_scaled) = (fate(&policy.when_deleted)?, fate(&policy.when_scaled)?);
            Some(Self { when_deleted, when_scaled })
        });
        known.unwrap_or_default()
    }

    fn retains_all(self) -> bool {
        self == Self::default()
    }
}

/// The possible owners of a claim: the set, and the pod whose claim it is.
#[derive(Clone, Debug)]
pub(super) struct Holders<'a> {
    /// The set.
    pub set: &'a Meta,
    /// The pod's name.
    pub pod: ArcStr,
    /// The pod's uid. Empty if the pod is yet to be created.
    pub pod_uid: Uid,
    /// Whether the set does not want the pod any more.
    pub scaled_down: bool,
    /// The set's policy.
    pub retention: Retention,
}

impl Holders<'_> {
    /// Whether a reference names the set, be it by another uid. Upstream's `matchesRef`.
    fn names_set(&self, owner: &OwnerReference) -> bool {
        (&*owner.api_version, &*owner.kind) == ("apps/v1", "StatefulSet") && owner.name == self.set.key.name
    }

    /// Whether a reference names the pod, be it by another uid.
    fn names_pod(&self, owner: &OwnerReference) -> bool {
        (&*owner.api_version, &*owner.kind) == ("v1", "Pod") && owner.name == self.pod
    }

    /// Whether an earlier pod of the same name owns the claim, so that the garbage collector deletes it. Upstream's
    /// `hasStaleOwnerRef`.
    pub(super) fn is_of_earlier_pod(&self, claim: &Claim) -> bool {
        let named = claim.owners.iter().find(|owner| self.names_pod(owner));
        named.is_some_and(|owner| owner.uid != self.pod_uid)
    }

    fn is_of_earlier_set(&self, claim: &Claim) -> bool {
        let named = claim.owners.iter().find(|owner| self.names_set(owner));
        named.is_some_and(|owner| owner.uid != self.set.uid)
    }

    /// Whether another object than the set and the pod manages the claim, so that the policy is ignored for it. Upstream's
    /// `hasUnexpectedController`. Under a policy that retains all, it does not matter who manages a claim.
    pub(super) fn has_foreign_controller(&self, claim: &Claim) -> bool {
        let is_foreign = |owner: &OwnerReference| {
            if self.names_set(owner) {
                return owner.uid != self.set.uid;
            }
            if self.names_pod(owner) {
                return owner.uid != self.pod_uid;
            }
            owner.controller == Some(true)
        };
        !self.retention.retains_all() && claim.owners.iter().any(is_foreign)
    }

    /// Whether the set or the pod is an owner of the claim without managing it. Upstream's `hasNonControllerOwner`.
    fn has_ours_without_control(&self, claim: &Claim) -> bool {
        let is_ours = |owner: &&OwnerReference| owner.uid == self.set.uid || owner.uid == self.pod_uid;
        claim.owners.iter().filter(is_ours).any(|owner| owner.controller != Some(true))
    }

    /// The owner that the policy demands. `None` if neither the set nor the pod shall own the claim.
    fn wanted(&self) -> Option<OwnerReference> {
        let Retention { when_deleted, when_scaled } = self.retention;
        match (when_deleted, when_scaled) {
            (_, Fate::Delete) if self.scaled_down => {
                Some(OwnerReference::controller("v1", "Pod", self.pod.clone(), self.pod_uid.clone()))
            }
            (Fate::Delete, _) => Some(controller_reference::<StatefulSet>(self.set)),
            (Fate::Retain, _) => None,
        }
    }

    /// The owners of a claim that is yet to be created.
    pub(super) fn owners_of_new_claim(&self) -> Vec<OwnerReference> {
        self.wanted().into_iter().collect()
    }

    /// Whether a claim's owners are as the policy demands, or may not be touched. Upstream's `isClaimOwnerUpToDate`.
    pub(super) fn is_up_to_date(&self, claim: &Claim) -> bool {
        if self.is_of_earlier_set(claim) || self.is_of_earlier_pod(claim) {
            // The garbage collector decides on it.
            return true;
        }
        let (by_set, by_pod) = (claim.has_owner(&self.set.uid), claim.has_owner(&self.pod_uid));
        if self.has_foreign_controller(claim) {
            return !by_set && !by_pod;
        }
        if self.has_ours_without_control(claim) {
            return false;
        }
        let wanted = self.wanted();
        let wants = |uid: &Uid| wanted.as_ref().is_some_and(|owner| owner.uid == *uid);
        by_set == wants(&self.set.uid) && by_pod == wants(&self.pod_uid)
    }

    /// The owners that the claim must get. Upstream's `updateClaimOwnerRefForSetAndPod`.
    pub(super) fn owners(&self, claim: &Claim) -> Vec<OwnerReference> {
        let foreign = self.has_foreign_controller(claim);
        let others = claim.owners.iter().filter(|owner| !self.names_set(owner) && !self.names_pod(owner));
        let mut owners: Vec<OwnerReference> = others.cloned().collect();
        if let Some(wanted) = self.wanted().filter(|_| !foreign)
            && !owners.iter().any(|owner| owner.uid == wanted.uid)
        {
            owners.push(wanted);
        }
        owners
    }
}
