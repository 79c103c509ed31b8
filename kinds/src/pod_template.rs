//! The labels of a pod template, as specs contain it.

use steersman_api::meta::LabelMap;
use steersman_informer::projection;

projection! {
    /// A pod template of which only the labels are cached.
    pub struct LabelledTemplate {
        /// The metadata of the pods to come.
        pub metadata: LabelledMeta = 1 "metadata",
    }

    /// Metadata of which only the labels are cached.
    pub struct LabelledMeta {
        /// The labels.
        pub labels: LabelMap = 11 "labels",
    }
}
