//! Nodes, in groups of fields.

use steersman_informer::{Interned, kind, projection};

use super::condition::{Picked, Ready};

projection! {
    /// What keeps pods away from it.
    pub struct Taints {
        /// In no order.
        pub taints: Vec<Taint> = 5 "taints",
    }

    /// One reason to stay away.
    pub struct Taint {
        /// Such as `node.kubernetes.io/out-of-service`.
        pub key: Interned = 1 "key",
    }

    /// Whether its kubelet says that it can run pods.
    pub struct Readiness {
        /// Absent counts as not ready.
        pub ready: Picked<Ready> = 4 "conditions",
    }
}

impl Taints {
    /// Whether any taint has that key, as upstream's `TaintKeyExists`.
    pub fn has(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }
}

kind! {
    /// A node.
    pub struct Node("", "v1", "nodes") {
        taints: Taints = 2 "spec",
        readiness: Readiness = 3 "status",
    }
}
