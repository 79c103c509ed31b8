//! The cached fields of PodGroups, in groups, and the PodGroup of a pod.

use steersman_informer::{Interned, kind, projection};

use super::pod_device_claims::{DeviceClaim, GeneratedClaim};

projection! {
    /// The claims of devices that the pods of the group share.
    pub struct GroupClaims {
        /// The claims.
        pub claims: Vec<GroupClaim> = 4 "resourceClaims",
    }

    /// A claim of devices in a PodGroup's spec. Exactly one of its sources is set, unless the source is newer than this program.
    pub struct GroupClaim {
        /// The claim's name in the group.
        pub name: Interned = 1 "name",
        /// The ResourceClaim that the group shares with others.
        pub claim: Option<Interned> = 2 "resourceClaimName",
        /// The template of the ResourceClaim that the group has for itself.
        pub template: Option<Interned> = 3 "resourceClaimTemplateName",
    }

    /// The ResourceClaims that were made for the group.
    pub struct GroupClaimStatus {
        /// The ResourceClaims that the resource claim controller made from templates.
        pub generated: Vec<GeneratedClaim> = 2 "resourceClaimStatuses",
    }

    /// The PodGroup that a pod belongs to.
    pub struct Membership {
        /// The group.
        pub group: GroupReference = 43 "schedulingGroup",
    }

    /// A reference to a PodGroup in the pod's namespace.
    pub struct GroupReference {
        /// The PodGroup's name. `None` if the pod belongs to none.
        pub name: Option<Interned> = 1 "podGroupName",
    }
}

impl GroupClaims {
    /// The claims as those of a pod, in the order of the spec.
    pub fn list(&self) -> impl Iterator<Item = DeviceClaim> {
        self.claims.iter().map(|claim| {
            let GroupClaim { name, claim, template } = claim.clone();
            DeviceClaim { name, claim, template }
        })
    }
}

kind! {
    /// Pods that kube-scheduler places together.
    pub struct PodGroup("scheduling.k8s.io", "v1alpha2", "podgroups") {
        claims: GroupClaims = 2 "spec",
        status: GroupClaimStatus = 3 "status",
    }
}
