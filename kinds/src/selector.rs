//! A `metav1.LabelSelector` as specs contain it.

use std::fmt::Write;

use steersman_api::meta::LabelMap;
use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, LabelSelector};
use steersman_informer::projection;

projection! {
    /// Selects objects by their labels. All requirements must hold. A selector without requirements selects all
    /// objects.
    #[derive(Eq)]
    pub struct SelectorSpec {
        /// Labels that an object must have, with their values.
        pub match_labels: LabelMap = 1 "matchLabels",
        /// Other requirements.
        pub match_expressions: Vec<SelectorRequirement> = 2 "matchExpressions",
    }

    /// A requirement for one label.
    #[derive(Eq)]
    pub struct SelectorRequirement {
        /// The label's key.
        pub key: ArcStr = 1 "key",
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: ArcStr = 2 "operator",
        /// The values for `In` and `NotIn`.
        pub values: Vec<ArcStr> = 3 "values",
    }
}

impl SelectorSpec {
    /// Compiles the selector, as upstream's `LabelSelectorAsSelector`.
    ///
    /// # Errors
    /// If a requirement is invalid. The API server refuses such requirements.
    pub fn to_selector(&self) -> Result<LabelSelector, InvalidSelector> {
        let labels = self.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut selector = LabelSelector::from_labels(labels);
        for SelectorRequirement { key, operator, values } in &self.match_expressions {
            selector.require(key, operator, values.iter().map(ArcStr::as_str))?;
        }
        Ok(selector)
    }

    /// The selector as Go prints it.
    pub fn go_text(&self) -> String {
        let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
        for (key, value) in self.match_labels.iter() {
            _ = write!(text, "{key}: {value},");
        }
        text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
        for SelectorRequirement { key, operator, values } in &self.match_expressions {
            let values: Vec<&str> = values.iter().map(|value| &**value).collect();
            let values = values.join(" ");
            _ = write!(text, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
        }
        text.push_str("},}");
        text
    }
}
