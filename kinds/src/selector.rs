//! A `metav1.LabelSelector` as specs have it.

use steersman_api::meta::Labels;
use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, LabelSelector};
use steersman_informer::projection;

projection! {
    /// Which labels an object must have. All requirements must hold; with none of them everything is meant.
    pub struct SelectorSpec {
        /// Labels and their values.
        pub match_labels: Labels = 1 "matchLabels",
        /// The others.
        pub match_expressions: Vec<SelectorRequirement> = 2 "matchExpressions",
    }

    /// What one label must be.
    pub struct SelectorRequirement {
        /// Of the label.
        pub key: ArcStr = 1 "key",
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: ArcStr = 2 "operator",
        /// For `In` and `NotIn`.
        pub values: Vec<ArcStr> = 3 "values",
    }
}

impl SelectorSpec {
    /// As something that can be asked, as upstream's `LabelSelectorAsSelector`.
    ///
    /// # Errors
    /// A requirement that the API server would not have let through.
    pub fn to_selector(&self) -> Result<LabelSelector, InvalidSelector> {
        let labels = self.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut selector = LabelSelector::from_labels(labels);
        for SelectorRequirement { key, operator, values } in &self.match_expressions {
            selector.require(key, operator, values.iter().map(ArcStr::as_str))?;
        }
        Ok(selector)
    }
}
