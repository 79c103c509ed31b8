//! The ranges from which a node's pods get their addresses.

use steersman_api::ArcStr;
use steersman_informer::projection;

projection! {
    /// The ranges that the node's pods get their addresses from.
    pub struct PodCidrs {
        /// The ranges, at most one of each IP family, such as `10.244.1.0/24`. Empty until somebody has assigned them;
        /// the API server refuses later changes.
        pub cidrs: Vec<ArcStr> = 7 "podCIDRs",
    }
}
