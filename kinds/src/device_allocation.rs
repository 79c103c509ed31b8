//! The devices that a claim has, and the consumers that they are reserved for.

use serde::Deserialize;
use serde::de::IgnoredAny;
use steersman_api::{ArcStr, Uid};
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

use super::device_taint::DeviceToleration;

projection! {
    /// Whether a claim is allocated, and whose it is.
    pub struct Reservations {
        /// Whether the claim is allocated.
        pub allocation: IsPresent = 1 "allocation",
        /// The consumers that may use the claim's devices.
        pub reserved_for: Vec<Consumer> = 2 "reservedFor",
    }

    /// A consumer of a claim.
    #[derive(Eq)]
    pub struct Consumer {
        /// The API group of the consumer. Empty for pods.
        pub api_group: Interned = 1 "apiGroup",
        /// The resource of the consumer, such as `pods`.
        pub resource: Interned = 3 "resource",
        /// The consumer's name. It is in the claim's namespace.
        pub name: ArcStr = 4 "name",
        /// The consumer's uid.
        pub uid: Uid = 5 "uid",
    }

    /// The devices that a claim has.
    pub struct AllocatedDevices {
        /// The allocation. Without devices if there is none.
        pub allocation: Allocation = 1 "allocation",
    }

    /// An allocation.
    #[derive(Eq)]
    pub struct Allocation {
        /// Its devices.
        pub devices: AllocationResults = 1 "devices",
    }

    /// The devices of an allocation.
    #[derive(Eq)]
    pub struct AllocationResults {
        /// The devices.
        pub results: Vec<AllocatedDevice> = 1 "results",
    }

    /// A device of an allocation.
    #[derive(Eq)]
    pub struct AllocatedDevice {
        /// The device's driver.
        pub driver: Interned = 2 "driver",
        /// The pool that the device is in, among those of the driver.
        pub pool: Interned = 3 "pool",
        /// The device's name in the pool.
        pub device: Interned = 4 "device",
        /// The taints that the claim tolerates, as its request had them.
        pub tolerations: Vec<DeviceToleration> = 6 "tolerations",
    }
}

impl Consumer {
    /// Whether the consumer is a pod.
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }

    /// Whether the consumer is a PodGroup.
    pub fn is_pod_group(&self) -> bool {
        self.api_group == "scheduling.k8s.io" && self.resource == "podgroups"
    }
}

/// Whether a message is present, whatever it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsPresent(pub bool);

impl FieldValue for IsPresent {
    fn merge(&mut self, _: Field<'_>) -> Result<(), WireError> {
        self.0 = true;
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}
