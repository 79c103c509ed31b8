//! The tolerations of a pod.

use steersman_informer::projection;

use super::scheduling::Toleration;
use super::shared::pooled;

projection! {
    /// The taints that do not keep the pod away from a node. Cached once for all pods with equal tolerations.
    #[derive(Eq, Hash)]
    pub struct Tolerations {
        /// The tolerations, in the order in which they are tried.
        pub list: Vec<Toleration> = 22 "tolerations",
    }
}

pooled!(Tolerations);
