//! When a pod started.

use steersman_api::Time;
use steersman_informer::projection;

projection! {
    /// When a pod's kubelet took the pod on.
    pub struct PodStart {
        /// The time; `None` if no kubelet has taken the pod on yet.
        pub start_time: Option<Time> = 7 "startTime",
    }
}
