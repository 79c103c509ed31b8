//! The cached fields of Namespaces, in groups.

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_informer::{Interned, kind, projection};

projection! {
    /// The finalizers in a namespace's spec. The API server removes a deleted namespace once this list is empty, and that of
    /// its metadata.
    pub struct NamespaceFinalizers {
        /// The finalizers. The API server adds `kubernetes` to each namespace.
        pub finalizers: Vec<Interned> = 1 "finalizers",
    }

    /// Whether objects can be created in the namespace.
    pub struct NamespacePhase {
        /// `Active` or `Terminating`.
        pub phase: Interned = 1 "phase",
    }

    /// A namespace's status.
    pub struct NamespaceStatus {
        /// `Active` or `Terminating`.
        pub phase: Interned = 1 "phase",
        /// The conditions, at most one of each type.
        pub conditions: Vec<NamespaceCondition> = 2 "conditions",
    }

    /// A condition of a namespace. It tells of the namespace's deletion.
    pub struct NamespaceCondition {
        /// The condition's type, such as `NamespaceContentRemaining`.
        pub kind: Interned = 1 "type",
        /// Whether the condition holds.
        pub status: ConditionStatus = 2 "status",
        /// When `status` last changed.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// Why `status` is what it is, in one word for programs.
        pub reason: Interned = 5 "reason",
        /// The same for people.
        pub message: ArcStr = 6 "message",
    }
}

kind! {
    /// A Namespace.
    pub struct Namespace("", "v1", "namespaces") {
        finalizers: NamespaceFinalizers = 2 "spec",
        phase: NamespacePhase = 3 "status",
        status: NamespaceStatus = 3 "status",
    }
}

impl NamespacePhase {
    /// Whether objects can be created in the namespace.
    pub fn is_active(&self) -> bool {
        self.phase == "Active"
    }
}
