//! The cached fields of ResourceClaims, in groups.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::annotation;
use super::device_allocation::{AllocatedDevices, Reservations};
use super::device_requests::RequestFacts;
use super::shared::{Shared, pooled};

projection! {
    /// The devices that a claim asks for.
    #[derive(Eq, Hash)]
    pub struct DeviceDemand {
        /// The claim's devices.
        pub devices: Devices = 1 "devices",
    }

    /// A list of requests.
    #[derive(Eq, Hash)]
    pub struct Devices {
        /// The requests, all of which must be met.
        pub requests: Vec<DeviceRequest> = 1 "requests",
    }

    /// A request for devices. Exactly one of the two fields is set, unless the request is of a kind that is newer than this
    /// program.
    #[derive(Eq, Hash)]
    pub struct DeviceRequest {
        /// The devices of one class.
        pub exactly: Option<ExactRequest> = 2 "exactly",
        /// Alternatives, of which the first that can be met is.
        pub first_available: Vec<SubRequest> = 3 "firstAvailable",
    }

    /// A request for devices of one class.
    #[derive(Eq, Hash)]
    pub struct ExactRequest {
        /// The device class.
        pub class: Interned = 1 "deviceClassName",
        /// `ExactCount` or `All`.
        pub mode: Interned = 3 "allocationMode",
        /// How many devices, for `ExactCount`.
        pub count: i64 = 4 "count",
    }

    /// An alternative of a request.
    #[derive(Eq, Hash)]
    pub struct SubRequest {
        /// The device class.
        pub class: Interned = 2 "deviceClassName",
        /// `ExactCount` or `All`.
        pub mode: Interned = 4 "allocationMode",
        /// How many devices, for `ExactCount`.
        pub count: i64 = 5 "count",
    }

    /// Whether the claim stands for extended resources of its pod.
    pub struct ExtendedResources {
        /// The annotation that says so.
        pub mark: ExtendedMark = 12 "annotations",
    }

    /// Facts about what the claim asks for.
    pub struct ClaimRequests {
        /// Facts about the requests.
        pub requests: RequestFacts = 1 "devices",
    }

    /// The claim of a pod that the ResourceClaim was made for.
    pub struct Origin {
        /// The annotation that names it.
        pub pod_claim: PodClaimName = 12 "annotations",
    }
}

pooled!(DeviceDemand);

/// The annotation of claims that kube-scheduler makes for the extended resources of a pod. Its value is `true`.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Whether an object has the annotation [`EXTENDED_RESOURCE_CLAIM`] with the value `true`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedMark(pub bool);

impl FieldValue for ExtendedMark {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, EXTENDED_RESOURCE_CLAIM)? {
            self.0 = value == "true";
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, EXTENDED_RESOURCE_CLAIM, |value| Self(value == "true"))
    }
}

/// The annotation of a ResourceClaim that was made from a template: the name of the claim in its pod's spec.
pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// The value of the annotation [`POD_CLAIM_NAME`]. `None` if the annotation is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodClaimName(pub Option<ArcStr>);

impl FieldValue for PodClaimName {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(name) = annotation::entry(field, POD_CLAIM_NAME)? {
            self.0 = Some(name.into());
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, POD_CLAIM_NAME, |name| Self(Some(name.into())))
    }
}

kind! {
    /// A claim of devices.
    pub struct ResourceClaim("resource.k8s.io", "v1", "resourceclaims") {
        demand: Shared<DeviceDemand> = 2 "spec",
        extended: ExtendedResources = 1 "metadata",
        requests: ClaimRequests = 2 "spec",
        origin: Origin = 1 "metadata",
        reservations: Reservations = 3 "status",
        devices: AllocatedDevices = 3 "status",
    }
}
