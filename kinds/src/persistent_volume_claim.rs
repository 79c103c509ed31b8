//! The cached fields of PersistentVolumeClaims, in groups.

use steersman_informer::{Interned, kind, projection};

projection! {
    /// Whether the claim has a volume.
    pub struct Binding {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Interned = 1 "phase",
    }
}

kind! {
    /// A claim of a persistent volume.
    pub struct PersistentVolumeClaim("", "v1", "persistentvolumeclaims") {
        binding: Binding = 3 "status",
    }
}
