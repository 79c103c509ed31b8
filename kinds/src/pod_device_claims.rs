//! The claims of devices that a pod uses.

use steersman_informer::{Interned, projection};

projection! {
    /// The claims of devices in a pod's spec.
    pub struct DeviceClaims {
        /// The claims. Few pods have any: those without one take no memory for it.
        pub claims: Option<Box<DeviceClaimList>> = 39 "resourceClaims",
    }

    /// A claim of devices in a pod's spec. Exactly one of its sources is set, unless the source is newer than this program.
    #[derive(Eq)]
    pub struct DeviceClaim {
        /// The claim's name in the pod.
        pub name: Interned = 1 "name",
        /// The ResourceClaim that the pod shares with others.
        pub claim: Option<Interned> = 3 "resourceClaimName",
        /// The template of the ResourceClaim that the pod has for itself.
        pub template: Option<Interned> = 4 "resourceClaimTemplateName",
    }

    /// The ResourceClaims that were made for a pod.
    pub struct DeviceClaimStatus {
        /// The ResourceClaims that the resource claim controller made from templates.
        pub generated: Option<Box<GeneratedList>> = 15 "resourceClaimStatuses",
        /// The ResourceClaim that kube-scheduler made for the pod's extended resources.
        pub extended: Option<Box<ExtendedClaim>> = 18 "extendedResourceClaimStatus",
    }

    /// The ResourceClaim that was made from a template.
    #[derive(Eq)]
    pub struct GeneratedClaim {
        /// The claim's name in the pod.
        pub name: Interned = 1 "name",
        /// The ResourceClaim. `None`: the pod needs none.
        pub claim: Option<Interned> = 2 "resourceClaimName",
    }

    /// The ResourceClaim for a pod's extended resources.
    #[derive(Eq)]
    pub struct ExtendedClaim {
        /// The ResourceClaim.
        pub claim: Interned = 2 "resourceClaimName",
    }
}

/// The claims in a pod's spec.
pub type DeviceClaimList = Vec<DeviceClaim>;
/// The claims in a pod's status.
pub type GeneratedList = Vec<GeneratedClaim>;

impl DeviceClaims {
    /// The claims, in the order of the spec.
    pub fn list(&self) -> &[DeviceClaim] {
        self.claims.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl DeviceClaimStatus {
    /// The ResourceClaims that were made from templates.
    pub fn generated(&self) -> &[GeneratedClaim] {
        self.generated.as_deref().map_or(&[], Vec::as_slice)
    }
}
