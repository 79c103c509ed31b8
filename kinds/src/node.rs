//! The cached fields of nodes, in groups.

use steersman_informer::{Interned, kind, projection};

use super::condition::{Picked, Ready};

projection! {
    /// The node's taints, which keep pods away from it.
    pub struct Taints {
        /// The taints, in no particular order.
        pub taints: Vec<Taint> = 5 "taints",
    }

    /// A taint.
    #[derive(PartialEq, Eq)]
    pub struct Taint {
        /// The taint's key, such as `node.kubernetes.io/out-of-service`.
        pub key: Interned = 1 "key",
        /// The taint's value, with which tolerations compare theirs.
        pub value: Interned = 2 "value",
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: Interned = 3 "effect",
    }

    /// Whether the node is ready to run pods, as its kubelet reports.
    pub struct Readiness {
        /// The condition `Ready`. A node without it is not ready.
        pub ready: Picked<Ready> = 4 "conditions",
    }
}

impl Taints {
    /// Whether a taint has this key, as upstream's `TaintKeyExists`.
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
