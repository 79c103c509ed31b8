//! Which owners select an object.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, LabelSelector, ObjectKey};
use steersman_informer::View;

use super::{Children, Owns};
use crate::selecting::Selecting;

impl<O: Owns> Selecting for O {
    fn selector(owner: &View<O>) -> Option<LabelSelector> {
        if O::BY_REFERENCE_ONLY {
            return None;
        }
        let selector = O::selector(owner.object()).ok()?;
        (O::EMPTY_SELECTOR_SELECTS || !selector.is_empty()).then_some(selector)
    }
}

impl<O: Owns> Children<O> {
    /// The owners in a namespace whose selectors select an object with these labels. For empty selectors see
    /// [`Owns::EMPTY_SELECTOR_SELECTS`]. An object without labels is selected by none, as upstream. No owner that goes by
    /// references only selects anything.
    pub fn selecting(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        if labels.is_empty() || O::BY_REFERENCE_ONLY {
            return BTreeSet::new();
        }
        self.selectors.selecting(namespace, labels)
    }
}
