//! The cached fields of DeviceClasses, in groups.

use steersman_informer::{Interned, kind, projection};

projection! {
    /// The extended resource that a device class stands for.
    pub struct ExtendedResource {
        /// The name that pods request it by, such as `example.com/gpu`. Empty if there is none.
        pub name: Interned = 4 "extendedResourceName",
    }
}

kind! {
    /// A class of devices.
    pub struct DeviceClass("resource.k8s.io", "v1", "deviceclasses") {
        extended_resource: ExtendedResource = 2 "spec",
    }
}
