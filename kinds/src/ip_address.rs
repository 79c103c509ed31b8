//! The cached fields of IPAddresses, in groups.

use steersman_informer::{Interned, kind, projection};

use steersman_api::ArcStr;

/// The label with the part of the cluster that manages an IPAddress.
pub const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] for the addresses of services. The API server's allocator makes and deletes those.
pub const ALLOCATOR: &str = "ipallocator.k8s.io";

projection! {
    /// What the address was given to.
    pub struct IpAddressSpec {
        /// The object that has the address.
        pub parent_ref: Parent = 1 "parentRef",
    }

    /// A reference to the object that has an address.
    pub struct Parent {
        /// The object's API group. Empty for the core group.
        pub group: Interned = 1 "group",
        /// The object's resource in URLs, such as `services`.
        pub resource: Interned = 2 "resource",
        /// The object's namespace.
        pub namespace: Interned = 3 "namespace",
        /// The object's name.
        pub name: ArcStr = 4 "name",
    }
}

kind! {
    /// An IP address that some object has. The object's name is the address.
    pub struct IPAddress("networking.k8s.io", "v1", "ipaddresses") {
        spec: IpAddressSpec = 2 "spec",
    }
}
