//! Steps about one pod and its claims.

use steersman_api::{ArcStr, ObjectKey, OwnerReference, ResourceVersion, Uid};

use super::claims::Claim;
use super::observed::Observed;
use super::pods::Pod;

/// What the controller does about one pod and its claims, in the order of the writes. It stops at the first write that fails,
/// but tries each claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodStep {
    /// What the step is for.
    pub goal: Goal,
    /// The pod's ordinal.
    pub ordinal: i32,
    /// The pod's key.
    pub pod: ObjectKey,
    /// The pod's uid. `None` if the pod does not exist yet.
    pub uid: Option<Uid>,
    /// The writes.
    pub writes: Vec<Write>,
}

/// What a step about a pod is for. It decides which events the step's failure is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// Create the pod.
    Create,
    /// Create the claims that a pending pod lacks.
    Complete,
    /// Give the pod its identity, and its claims their owners.
    Update,
    /// Give the claims of a condemned pod their owners.
    Release,
    /// Delete the pod.
    Delete,
}

/// One write of a [`PodStep`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Create a claim.
    CreateClaim {
        /// The place of the claim's template in the set.
        template: usize,
        /// The claim's name.
        name: ArcStr,
        /// The claim's owners.
        owners: Vec<OwnerReference>,
    },
    /// Fail: a claim of the pod is being deleted, and can't be made again before it is gone.
    WaitForClaim(ArcStr),
    /// Tell the user that another controller manages the claim.
    Warn(ArcStr),
    /// Change the owners of a claim.
    SetOwners {
        /// The claim's name.
        name: ArcStr,
        /// The claim's uid.
        uid: Uid,
        /// The version that was decided on.
        version: ResourceVersion,
        /// All owners.
        owners: Vec<OwnerReference>,
    },
    /// Create the pod from the template of a revision.
    CreatePod(Which),
    /// Give the pod its labels and volumes.
    UpdatePod,
    /// Delete the pod.
    DeletePod,
}

/// One of the two revisions of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// The revision that the update comes from.
    Current,
    /// The revision that the update leads to.
    Update,
}

/// The result of one write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Did {
    /// The claim of this name is now so.
    Claim(ArcStr, Claim),
    /// The pod is now so.
    Pod(Box<Pod>),
    /// The pod is being deleted, or gone.
    Deleted,
    /// Nothing that policy goes by has changed.
    Nothing,
}

impl Observed {
    fn step(&self, goal: Goal, ordinal: i32, pod: Option<&Pod>, writes: Vec<Write>) -> PodStep {
        let key = || super::identity::pod_key(&self.set.meta.key, ordinal);
        PodStep {
            goal,
            ordinal,
            pod: pod.map_or_else(key, |pod| pod.key.clone()),
            uid: pod.map(|pod| pod.uid.clone()),
            writes,
        }
    }

    /// Creates the pod of an ordinal, its claims first.
    pub(super) fn create(&self, ordinal: i32, which: Which) -> PodStep {
        let mut writes = self.missing_claims(ordinal, None);
        writes.push(Write::CreatePod(which));
        writes.extend(self.owners_of_claims(ordinal, None));
        self.step(Goal::Create, ordinal, None, writes)
    }

    /// Creates the claims that a pending pod lacks. Without writes, if it lacks none.
    pub(super) fn complete(&self, ordinal: i32, pod: &Pod) -> PodStep {
        let mut writes = self.missing_claims(ordinal, Some(pod));
        writes.extend(self.owners_of_claims(ordinal, Some(pod)));
        self.step(Goal::Complete, ordinal, Some(pod), writes)
    }

    /// Gives a pod its labels and volumes, and its claims their owners. Without writes, if all of them are right.
    pub(super) fn update(&self, ordinal: i32, pod: &Pod) -> PodStep {
        let mut writes = Vec::new();
        let has_storage = pod.has_storage(self.set.storage(ordinal));
        if !has_storage {
            writes.extend(self.missing_claims(ordinal, Some(pod)));
        }
        if !self.claims_are_up_to_date(ordinal, Some(pod)) {
            writes.extend(self.owners_of_claims(ordinal, Some(pod)));
        }
        if !has_storage || !pod.has_identity() {
            writes.push(Write::UpdatePod);
        }
        self.step(Goal::Update, ordinal, Some(pod), writes)
    }

    /// Gives the claims of a condemned pod their owners. Without writes, if these are right.
    pub(super) fn release(&self, ordinal: i32, pod: &Pod) -> PodStep {
        let right = self.claims_are_up_to_date(ordinal, Some(pod));
        let writes = if right { Vec::new() } else { self.owners_of_claims(ordinal, Some(pod)) };
        self.step(Goal::Release, ordinal, Some(pod), writes)
    }

    /// Deletes a pod.
    pub(super) fn delete(&self, ordinal: i32, pod: &Pod) -> PodStep {
        self.step(Goal::Delete, ordinal, Some(pod), vec![Write::DeletePod])
    }

    /// Whether a claim of an ordinal without a pod belongs to an earlier pod, with which it is about to go.
    pub(super) fn has_stale_claim(&self, ordinal: i32) -> bool {
        if self.set.retention.when_scaled == super::claims::Fate::Retain {
            return false;
        }
        let holders = self.holders(ordinal, None);
        let mut existing = self.set.storage(ordinal).filter_map(|(_, name)| self.claims.get(&name));
        existing.any(|claim| holders.is_of_earlier_pod(claim))
    }

    fn missing_claims(&self, ordinal: i32, pod: Option<&Pod>) -> Vec<Write> {
        let write = |(template, (_, name)): (usize, (&ArcStr, ArcStr))| match self.claims.get(&name) {
            None => {
                let owners = self.holders(ordinal, pod).owners_of_new_claim();
                Some(Write::CreateClaim { template, name, owners })
            }
            Some(claim) if claim.deleting => Some(Write::WaitForClaim(name)),
            Some(_) => None,
        };
        self.set.storage(ordinal).enumerate().filter_map(write).collect()
    }

    /// Upstream's `ClaimsMatchRetentionPolicy`.
    fn claims_are_up_to_date(&self, ordinal: i32, pod: Option<&Pod>) -> bool {
        let mut existing =
            self.set.storage(ordinal).filter_map(|(_, name)| self.claims.get(&name)).peekable();
        existing.peek().is_none() || {
            let holders = self.holders(ordinal, pod);
            existing.all(|claim| holders.is_up_to_date(claim))
        }
    }

    /// Upstream's `UpdatePodClaimForRetentionPolicy`.
    fn owners_of_claims(&self, ordinal: i32, pod: Option<&Pod>) -> Vec<Write> {
        let mut writes = Vec::new();
        for (_, name) in self.set.storage(ordinal) {
            let Some(claim) = self.claims.get(&name) else { continue };
            let holders = self.holders(ordinal, pod);
            if holders.has_foreign_controller(claim) {
                writes.push(Write::Warn(name.clone()));
            }
            if !holders.is_up_to_date(claim) {
                let (uid, version, owners) = (claim.uid.clone(), claim.version, holders.owners(claim));
                writes.push(Write::SetOwners { name, uid, version, owners });
            }
        }
        writes
    }
}
