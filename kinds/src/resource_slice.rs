//! The cached fields of ResourceSlices, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::device_taint::{DeviceTaint, NO_EXECUTE};

projection! {
    /// The devices of a slice whose taints end pods.
    #[derive(Eq)]
    pub struct TaintedDevices {
        /// The driver of the slice's devices.
        pub driver: Interned = 1 "driver",
        /// The pool that the slice is a part of.
        pub pool: Pool = 2 "pool",
        /// The devices.
        pub devices: TaintedList = 6 "devices",
    }

    /// The devices of a slice.
    pub struct PublishedDevices {
        /// The devices.
        pub devices: Vec<PublishedDevice> = 6 "devices",
    }

    /// A device.
    pub struct PublishedDevice {
        /// The device's name in the pool.
        pub name: Interned = 1 "name",
    }

    /// The pool of a slice.
    #[derive(Eq)]
    pub struct Pool {
        /// The pool's name among those of the driver.
        pub name: Interned = 1 "name",
        /// The generation of the slice. Only the slices of a pool's highest generation count.
        pub generation: i64 = 2 "generation",
    }

    /// A device with its taints.
    #[derive(Eq)]
    pub struct TaintedDevice {
        /// The device's name in the pool.
        pub name: Interned = 1 "name",
        /// Its taints with the effect `NoExecute`.
        pub taints: Vec<DeviceTaint> = 8 "taints",
    }
}

/// The devices of a slice that have a taint with the effect `NoExecute`, with these taints alone. Few devices have one: the
/// others take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintedList(pub Box<[TaintedDevice]>);

impl TaintedList {
    fn extend(&mut self, devices: impl IntoIterator<Item = TaintedDevice>) {
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.extend(devices.into_iter().filter_map(|mut device| {
            device.taints.retain(|taint| taint.effect == NO_EXECUTE);
            (!device.taints.is_empty()).then_some(device)
        }));
        self.0 = all.into();
    }
}

impl FieldValue for TaintedList {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut device = TaintedDevice::default();
        device.merge(field)?;
        if !device.taints.is_empty() {
            self.extend([device]);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut list = Self::default();
        list.extend(Vec::<TaintedDevice>::from_json(deserializer)?);
        Ok(list)
    }
}

kind! {
    /// A part of a pool of devices, which its driver publishes.
    pub struct ResourceSlice("resource.k8s.io", "v1", "resourceslices") {
        tainted: TaintedDevices = 2 "spec",
        published: PublishedDevices = 2 "spec",
    }
}
