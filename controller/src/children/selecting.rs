//! Which owners select an object: an index of owners by one label of their selectors.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, ObjectKey};
use steersman_informer::{IndexValue, View};

use super::{Children, Owns};

/// The index of owners by namespace and one label that all objects of the owner's selector have.
pub(super) const BY_SELECTOR: &str = "selectorLabel";

/// The function of [`BY_SELECTOR`].
///
/// A selected object has all labels of the selector, so one of them suffices to find the owner. An owner whose selector
/// demands no single value of any label is found under its namespace alone.
pub(super) fn by_selector<O: Owns>(owner: &View<O>) -> Vec<IndexValue> {
    if O::BY_REFERENCE_ONLY {
        return Vec::new();
    }
    let Ok(selector) = O::selector(owner.object()) else { return Vec::new() };
    let namespace = &owner.meta().key.namespace;
    vec![selector.demanded_label().map_or_else(
        || IndexValue::Text(namespace.clone()),
        |(key, value)| IndexValue::Triple(namespace.clone(), key.into(), value.clone()),
    )]
}

impl<O: Owns> Children<O> {
    /// The owners in a namespace whose selectors select an object with these labels. For empty selectors see
    /// [`Owns::EMPTY_SELECTOR_SELECTS`]. An object without labels is selected by none, as upstream. No owner that goes by
    /// references only selects anything.
    pub fn selecting(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        let mut found = BTreeSet::new();
        if labels.is_empty() || O::BY_REFERENCE_ONLY {
            return found;
        }
        let exact = labels
            .iter()
            .map(|(key, value)| IndexValue::Triple(namespace.clone(), key.clone(), value.clone()));
        for entry in exact.chain([IndexValue::Text(namespace.clone())]) {
            let Ok(owners) = self.owner_lister.by_index(&self.by_selector, &entry) else {
                // One of the owners can't be read. The others must not suffer for it: all of the namespace are synced.
                self.owner_lister.for_each_meta(|meta| {
                    if meta.key.namespace == *namespace {
                        found.insert(meta.key.clone());
                    }
                });
                return found;
            };
            let selects = |owner: &&View<O>| {
                O::selector(owner.object()).is_ok_and(|selector| {
                    (O::EMPTY_SELECTOR_SELECTS || !selector.is_empty()) && selector.matches(labels)
                })
            };
            found.extend(owners.iter().filter(selects).map(|owner| owner.meta().key.clone()));
        }
        found
    }
}
