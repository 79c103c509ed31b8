//! Which autoscalers select a pod.

use std::collections::{BTreeSet, HashMap};

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, LabelSelector, ObjectKey};

/// The selectors of all autoscalers: those of the scales of their targets, as they were last read.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    namespaces: HashMap<ArcStr, Namespace>,
}

/// The autoscalers of one namespace, by their names. Each that has a selector is in one of the two indexes.
#[derive(Debug, Default)]
struct Namespace {
    /// All autoscalers. `None`: the target has not been read yet, has no valid selector, or was scaled to zero.
    all: HashMap<ArcStr, Option<LabelSelector>>,
    /// Those whose selector demands a label, by its key and then by its value.
    by_label: HashMap<ArcStr, HashMap<ArcStr, BTreeSet<ArcStr>>>,
    /// Those whose selector demands no label.
    others: BTreeSet<ArcStr>,
}

impl Rivals {
    /// Adds an autoscaler whose target has not been read yet. Returns whether it is new.
    pub(super) fn add(&mut self, key: &ObjectKey) -> bool {
        let all = &mut self.namespaces.entry(key.namespace.clone()).or_default().all;
        let is_new = !all.contains_key(&key.name);
        if is_new {
            all.insert(key.name.clone(), None);
        }
        is_new
    }

    /// Sets the selector of an autoscaler, if it exists.
    pub(super) fn set(&mut self, key: &ObjectKey, selector: &LabelSelector) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        match namespace.all.get(&key.name) {
            None => return,
            Some(Some(known)) if known == selector => return,
            Some(_) => namespace.unindex(&key.name),
        }
        namespace.all.insert(key.name.clone(), Some(selector.clone()));
        namespace.place(selector, |names| _ = names.insert(key.name.clone()));
    }

    /// Forgets the selector of an autoscaler.
    pub(super) fn unset(&mut self, key: &ObjectKey) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        namespace.unindex(&key.name);
        if let Some(selector) = namespace.all.get_mut(&key.name) {
            *selector = None;
        }
    }

    /// Removes an autoscaler. Returns whether it existed.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return false };
        namespace.unindex(&key.name);
        let existed = namespace.all.remove(&key.name).is_some();
        if namespace.all.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        existed
    }

    /// The autoscalers of a namespace that select any of the pods with these labels.
    pub(super) fn selecting<'a>(
        &self,
        namespace: &ArcStr,
        pods: impl IntoIterator<Item = &'a Labels>,
    ) -> BTreeSet<ObjectKey> {
        let Some(known) = self.namespaces.get(namespace) else { return BTreeSet::new() };
        let mut found = BTreeSet::new();
        for labels in pods {
            // Usually the first pod tells all: most namespaces have few autoscalers, and a target's pods have the same labels.
            if found.len() == known.all.len() {
                break;
            }
            let demanding = labels.iter().filter_map(|(key, value)| known.by_label.get(key)?.get(value));
            for name in demanding.flatten().chain(&known.others) {
                let selector = known.all.get(name).and_then(Option::as_ref);
                if !found.contains(name) && selector.is_some_and(|selector| selector.matches(labels)) {
                    found.insert(name);
                }
            }
        }
        found.into_iter().map(|name| ObjectKey::new(namespace.clone(), name.clone())).collect()
    }
}

impl Namespace {
    fn unindex(&mut self, name: &ArcStr) {
        if let Some(Some(selector)) = self.all.get(name).cloned() {
            self.place(&selector, |names| _ = names.remove(name));
        }
    }

    /// Changes the entry of an index where autoscalers with this selector are.
    fn place(&mut self, selector: &LabelSelector, change: impl FnOnce(&mut BTreeSet<ArcStr>)) {
        let Some((key, value)) = selector.demanded_label() else { return change(&mut self.others) };
        let values = self.by_label.entry(key.into()).or_default();
        let names = values.entry(value.clone()).or_default();
        change(names);
        if names.is_empty() {
            values.remove(value);
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }
}
