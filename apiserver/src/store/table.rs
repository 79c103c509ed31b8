//! One resource's objects and the history of their changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use arcstr::ArcStr;
use steersman_api::ObjectKey;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Error, Object};

/// What a table's history may weigh: states differ in size by thousands, so their number alone is no bound.
const HEAVIEST: usize = 32 * 1024 * 1024;

/// Objects as they stood at one version, in the order of their keys.
pub(crate) struct Snapshot {
    /// The version they stood at.
    pub(crate) version: u64,
    /// All of them.
    pub(crate) objects: Vec<Arc<Object>>,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// It is new.
    Added,
    /// It was replaced.
    Modified,
    /// It is gone.
    Deleted,
}

/// One entry of the history.
pub(crate) struct Change {
    /// What happened.
    pub(crate) kind: ChangeKind,
    /// The new state; of a deletion the last state, under the version of the deletion.
    pub(crate) object: Arc<Object>,
    /// The state before; `None` only where the object is new.
    pub(crate) before: Option<Arc<Object>>,
    /// When it was written.
    pub(crate) at: Instant,
    /// What the new state weighs.
    weight: usize,
    /// See [`before_as_of_now`](Self::before_as_of_now).
    stamped: OnceLock<Arc<Object>>,
}

impl Change {
    /// The version of this change.
    pub(crate) fn version(&self) -> u64 {
        self.object.version
    }

    /// The state before, under this change's version: what a watcher is told who loses sight of the object.
    /// Made once, for all watchers.
    pub(crate) fn before_as_of_now(&self) -> Option<&Arc<Object>> {
        let before = self.before.as_ref()?;
        Some(self.stamped.get_or_init(|| Arc::new(before.at_version(self.version()))))
    }
}

/// Present objects, and the changes that led to them as far as they are remembered.
pub(super) struct Table {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Oldest first, versions strictly ascending. Undone from the back, it leads from `objects` to any version that
    /// is not before `compacted`. Has all changes that are not settled, since they may have to be undone.
    history: VecDeque<Arc<Change>>,
    /// Maximum length of the settled part of `history`.
    limit: usize,
    /// The weight of all changes in `history`. Above [`HEAVIEST`] only while there is one change, or they are not settled.
    weight: usize,
    /// The version of the newest forgotten change.
    compacted: u64,
    /// The version of the last change; wakes those who follow.
    wake: watch::Sender<u64>,
}

impl Table {
    /// One that remembers `limit` changes, and nothing of how versions before `compacted` were.
    pub(super) fn new(limit: usize, compacted: u64) -> Self {
        let wake = watch::Sender::new(0);
        Self { objects: BTreeMap::new(), history: VecDeque::new(), limit, weight: 0, compacted, wake }
    }

    /// Puts an object in without history.
    pub(super) fn restore(&mut self, object: Arc<Object>) {
        self.objects.insert(object.key.clone(), object);
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether `seen` is still the present state.
    pub(super) fn check(&self, seen: &Object) -> Result<(), Error> {
        match self.objects.get(&seen.key) {
            Some(present) if present.version == seen.version => Ok(()),
            _ => Err(Error::Stale),
        }
    }

    /// Puts an object in, in the place of its state before. Changes up to `settled` may be forgotten for it.
    pub(super) fn put(&mut self, object: Arc<Object>, settled: u64) {
        let before = self.objects.insert(object.key.clone(), Arc::clone(&object));
        let kind = if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.remember(kind, object, before, settled);
    }

    /// Removes the object of which this is the last state. Changes up to `settled` may be forgotten for it.
    pub(super) fn remove(&mut self, last: Arc<Object>, settled: u64) {
        let before = self.objects.remove(&last.key);
        self.remember(ChangeKind::Deleted, last, before, settled);
    }

    fn remember(&mut self, kind: ChangeKind, object: Arc<Object>, before: Option<Arc<Object>>, settled: u64) {
        let weight = object.weight();
        let change = Change { kind, object, before, at: Instant::now(), weight, stamped: OnceLock::new() };
        self.weight += weight;
        self.history.push_back(Arc::new(change));
        while (self.history.len() > self.limit || self.weight > HEAVIEST && self.history.len() > 1)
            && self.history.front().is_some_and(|oldest| oldest.version() <= settled)
            && let Some(forgotten) = self.history.pop_front()
        {
            self.compacted = forgotten.version();
            self.weight -= forgotten.weight;
        }
    }

    /// Undoes the changes after a version. Returns them, the newest first.
    pub(super) fn undo_after(&mut self, version: u64) -> Vec<Arc<Change>> {
        let mut undone = Vec::new();
        while self.history.back().is_some_and(|newest| newest.version() > version)
            && let Some(change) = self.history.pop_back()
        {
            self.weight -= change.weight;
            match &change.before {
                Some(before) => self.objects.insert(before.key.clone(), Arc::clone(before)),
                None => self.objects.remove(&change.object.key),
            };
            undone.push(change);
        }
        undone
    }

    /// Forgets the changes up to `settled` that were made before that moment. Returns them for the caller to drop.
    pub(super) fn forget(&mut self, before: Instant, settled: u64) -> VecDeque<Arc<Change>> {
        let kept = self.history.partition_point(|change| change.at < before && change.version() <= settled);
        let later = self.history.split_off(kept);
        let forgotten = std::mem::replace(&mut self.history, later);
        self.weight -= forgotten.iter().map(|change| change.weight).sum::<usize>();
        if let Some(last) = forgotten.back() {
            self.compacted = last.version();
        }
        forgotten
    }

    pub(super) fn announce(&self, version: u64) {
        self.wake.send_replace(version);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// Forgets the changes up to a version.
    pub(super) fn compact(&mut self, version: u64) {
        self.history.retain(|change| change.version() > version);
        self.weight = self.history.iter().map(|change| change.weight).sum();
        self.compacted = version;
    }

    /// The changes after a version up to `settled`, at most `max` of them, and whether these are all.
    pub(super) fn after(
        &self,
        version: u64,
        settled: u64,
        max: usize,
    ) -> Result<(Vec<Arc<Change>>, bool), Error> {
        if version < self.compacted {
            return Err(Error::Compacted(self.compacted));
        }
        let from = self.history.partition_point(|change| change.version() <= version);
        let to = self.history.partition_point(|change| change.version() <= settled).max(from);
        let changes: Vec<_> = self.history.range(from..to).take(max).cloned().collect();
        let all = from + changes.len() == to;
        Ok((changes, all))
    }

    /// The present objects of a namespace, or of all if it is empty.
    pub(super) fn now(&self, namespace: &str) -> Vec<Arc<Object>> {
        if namespace.is_empty() {
            return self.objects.values().cloned().collect();
        }
        let first = ObjectKey::new(namespace, ArcStr::new());
        let range = self.objects.range((Bound::Included(first), Bound::Unbounded));
        range
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// The objects as they stood at a version that has been reached.
    pub(super) fn at(&self, version: u64, namespace: &str) -> Result<Vec<Arc<Object>>, Error> {
        if version < self.compacted {
            return Err(Error::Compacted(self.compacted));
        }
        let newer = self.history.iter().rev().take_while(|change| change.version() > version);
        let mut undone: BTreeMap<&ObjectKey, Option<&Arc<Object>>> = BTreeMap::new();
        for change in newer {
            undone.insert(&change.object.key, change.before.as_ref());
        }
        if undone.is_empty() {
            return Ok(self.now(namespace));
        }
        let wanted = |key: &ObjectKey| namespace.is_empty() || key.namespace == namespace;
        let mut objects: Vec<Arc<Object>> = self
            .now(namespace)
            .into_iter()
            .filter(|object| !undone.contains_key(&object.key))
            .chain(undone.iter().filter(|(key, _)| wanted(key)).filter_map(|(_, before)| before.cloned()))
            .collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(objects)
    }
}
