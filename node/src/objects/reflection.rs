//! What a reflector tells, kept whole and handed out without copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_informer::Object;
use steersman_informer::delta_fifo::Delta;
use steersman_informer::wire::Decoded;
use steersman_informer::wire::whole::Whole;

use super::watched_object::Kept;

/// The objects of a reflector by their key.
pub(super) struct Reflection<T> {
    /// `None` for an object that is there, but was never read.
    objects: BTreeMap<ObjectKey, Option<Arc<T>>>,
    /// The list under way.
    list: Option<List>,
}

#[derive(Default)]
struct List {
    named: BTreeSet<ObjectKey>,
    /// It named an object that nobody can tell: what it does not name may be there.
    blurred: bool,
}

impl<T: Kept> Reflection<T> {
    pub(super) fn new() -> Self {
        Self { objects: BTreeMap::new(), list: None }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Option<Arc<T>>> {
        self.objects.get(key)
    }

    /// Those of a namespace that could be read.
    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let objects = self.objects.iter().filter(|(key, _)| &*key.namespace == namespace);
        objects.filter_map(|(_, object)| object.clone()).collect()
    }

    /// Takes a change over. Says whether it completed a list.
    pub(super) fn apply(&mut self, delta: Delta<Whole<T>>) -> bool {
        match delta {
            Delta::ListBegun => self.list = Some(List::default()),
            Delta::Replaced(object) => match self.put(object) {
                Some(key) => _ = self.list.as_mut().map(|list| list.named.insert(key)),
                None => self.list.iter_mut().for_each(|list| list.blurred = true),
            },
            Delta::Added(object) | Delta::Updated(object) => _ = self.put(object),
            Delta::Deleted(object) => {
                if let Some(object) = object.object() {
                    self.objects.remove(&object.meta().key);
                }
            }
            Delta::ListComplete(_) => {
                if let Some(list) = self.list.take().filter(|list| !list.blurred) {
                    self.objects.retain(|key, _| list.named.contains(key));
                }
                return true;
            }
            Delta::Bookmark(_) => {}
        }
        false
    }

    /// The key of what was put, if anybody can tell. What can't be read leaves the last good state in its place.
    fn put(&mut self, object: Decoded<Whole<T>>) -> Option<ObjectKey> {
        let whole = object.object()?;
        let key = whole.meta().key.clone();
        let read = whole.object().cloned().map(Arc::new);
        let place = self.objects.entry(key.clone()).or_default();
        if read.is_some() {
            *place = read;
        }
        Some(key)
    }
}
