//! The cached fields of StatefulSets, in groups.

use steersman_informer::{kind, projection};

projection! {
    /// A StatefulSet's spec without its templates.
    pub struct StatefulSetSpec {
        /// The number of pods that the set shall have. The API server sets it to 1 if it is absent.
        pub replicas: Option<i32> = 1 "replicas",
    }
}

kind! {
    /// A StatefulSet.
    pub struct StatefulSet("apps", "v1", "statefulsets") {
        spec: StatefulSetSpec = 2 "spec",
    }
}
