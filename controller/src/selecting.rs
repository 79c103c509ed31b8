//! Finds the objects whose selectors select an object: the owners of a pod, its services, its budgets.

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, LabelSelector, ObjectKey};
use steersman_informer::wire::Selection;
use steersman_informer::{Index, IndexValue, Informer, Lister, View};

/// An object that selects others of its namespace by their labels.
pub trait Selecting: Selection + Sized {
    /// The object's selector. `None` if the object selects nothing.
    fn selector(object: &View<Self>) -> Option<LabelSelector>;
}

/// The index of selecting objects by namespace and by one label that all selected objects have.
const BY_SELECTOR: &str = "selectorLabel";

/// The function of [`BY_SELECTOR`].
///
/// A selected object has all labels of the selector, so that one of them is enough to find the selecting object. An object whose
/// selector demands no single value of any label is found under its namespace alone.
fn by_selector<S: Selecting>(object: &View<S>) -> Vec<IndexValue> {
    let Some(selector) = S::selector(object) else { return Vec::new() };
    let namespace = &object.meta().key.namespace;
    vec![selector.demanded_label().map_or_else(
        || IndexValue::Text(namespace.clone()),
        |(key, value)| IndexValue::Triple(namespace.clone(), key.into(), value.clone()),
    )]
}

/// The selecting objects of one kind.
pub struct Selectors<S: Selection> {
    objects: Lister<S>,
    by_selector: Index<S>,
}

impl<S: Selecting> Selectors<S> {
    /// Adds the index to the cache.
    pub fn new(objects: &Informer<S>) -> Self {
        Self { objects: objects.lister(), by_selector: objects.add_index(BY_SELECTOR, by_selector) }
    }

    /// The objects of a namespace that select an object with these labels. All objects of the namespace if one that may select it
    /// can't be read, so that the others do not suffer.
    pub fn selecting(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        let mut found = BTreeSet::new();
        let demanded = labels
            .iter()
            .map(|(key, value)| IndexValue::Triple(namespace.clone(), key.clone(), value.clone()));
        for entry in demanded.chain([IndexValue::Text(namespace.clone())]) {
            let Ok(objects) = self.objects.by_index(&self.by_selector, &entry) else {
                self.objects.for_each_meta(|meta| {
                    if meta.key.namespace == *namespace {
                        found.insert(meta.key.clone());
                    }
                });
                return found;
            };
            let selects =
                |object: &&View<S>| S::selector(object).is_some_and(|selector| selector.matches(labels));
            found.extend(objects.iter().filter(selects).map(|object| object.meta().key.clone()));
        }
        found
    }
}

impl<S: Selection> Clone for Selectors<S> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), by_selector: self.by_selector }
    }
}
