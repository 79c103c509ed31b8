//! The cached fields of namespaces, in groups.

use steersman_informer::{Interned, kind, projection};

projection! {
    /// Whether objects can be created in the namespace.
    pub struct NamespacePhase {
        /// `Active` or `Terminating`.
        pub phase: Interned = 1 "phase",
    }
}

kind! {
    /// A namespace.
    pub struct Namespace("", "v1", "namespaces") {
        phase: NamespacePhase = 3 "status",
    }
}

impl NamespacePhase {
    /// Whether objects can be created in the namespace.
    pub fn is_active(&self) -> bool {
        self.phase == "Active"
    }
}
