//! EndpointSlices as their two controllers read and write them.
//!
//! A slice belongs to a service by the label [`SERVICE_NAME`] and to a controller by the label [`MANAGED_BY`]. A controller
//! reads and writes its own slices only.

mod expected;
mod gauges;
pub(crate) mod manifest;
mod options;
mod ports;
mod store;

use steersman_api::{Meta, ObjectKey};
use steersman_informer::keep;
use steersman_kinds::endpoint_slice::{AddressType, Annotations, EndpointSlice, Members, Ports};

pub(crate) use self::gauges::{Counts, Gauges};
pub use self::manifest::Manifest;
pub use self::options::SliceSize;
pub(crate) use self::options::backoff;
pub use self::ports::{canonical_order, port_key};
pub use self::store::SliceRef;
pub(crate) use self::store::{Outcome, Sight, SliceStore};

/// The label with the name of a slice's service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label with the name of the controller that writes a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

keep! {
    /// The fields of a slice that the controllers compare, and those that an update must send back.
    pub struct CachedSlice: EndpointSlice => Annotations, Members, Ports, AddressType
}

/// The key of a slice's service. `None` if the slice names none.
fn service_of(slice: &Meta) -> Option<ObjectKey> {
    let name = slice.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(ObjectKey::new(slice.key.namespace.clone(), name.clone()))
}
