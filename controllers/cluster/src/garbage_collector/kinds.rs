//! The kinds of objects that the collector watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use steersman_api::{ArcStr, GroupVersionKind, GroupVersionResource, Meta, OwnerReference, Uid};
use steersman_client::discovery::{Resource, Scope};
use steersman_informer::AnyInformer;

/// The number of a kind. A kind keeps its number for as long as the process runs, also while it is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct KindId(pub(super) u16);

/// A kind that the collector watches.
pub(super) struct Kind {
    pub(super) id: KindId,
    /// The resource under which the collector reads and writes the kind's objects.
    pub(super) resource: GroupVersionResource,
    pub(super) gvk: GroupVersionKind,
    pub(super) scope: Scope,
    pub(super) informer: Arc<dyn AnyInformer>,
    /// The kind has refused a strategic merge patch, as custom resources do.
    merges_only: AtomicBool,
}

impl Kind {
    pub(super) fn new(id: KindId, resource: &Resource, informer: Arc<dyn AnyInformer>) -> Self {
        Self {
            id,
            resource: resource.gvr.clone(),
            gvk: resource.gvk.clone(),
            scope: resource.scope,
            informer,
            merges_only: AtomicBool::new(false),
        }
    }

    /// Whether the API server accepts strategic merge patches of the kind, as far as is known.
    pub(super) fn takes_strategic_patches(&self) -> bool {
        !self.merges_only.load(Ordering::Relaxed)
    }

    /// Remembers that the API server refused a strategic merge patch of the kind.
    pub(super) fn refused_strategic_patch(&self) {
        self.merges_only.store(true, Ordering::Relaxed);
    }
}

/// How far the cache of a kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The first list is under way.
    Listing,
    /// The first list is under way for longer than the collector waits for it: the kind is sick.
    Overdue,
    /// The graph has everything that the first list brought.
    Synced,
}

/// The kinds that the collector watches now.
#[derive(Default)]
pub(super) struct Kinds(RwLock<Table>);

#[derive(Default)]
struct Table {
    /// The numbers that kinds have got, by group and resource.
    numbers: HashMap<(ArcStr, ArcStr), KindId>,
    /// The watched kinds, by number.
    watched: HashMap<KindId, (Arc<Kind>, Progress)>,
    /// The watched kinds, by group and kind. If two resources have objects of one kind, such as a review and its namespaced form,
    /// the one with the lower number counts.
    by_name: HashMap<ArcStr, HashMap<ArcStr, BTreeSet<KindId>>>,
    listing: usize,
    overdue: usize,
}

impl Kinds {
    /// The number of a resource's kind. `None` if 65,536 kinds have numbers already: the collector then ignores the kind.
    pub(super) fn number(&self, resource: &GroupVersionResource) -> Option<KindId> {
        let mut table = self.0.write();
        let next = u16::try_from(table.numbers.len()).ok().map(KindId);
        let name = (resource.group.clone(), resource.resource.clone());
        if let Some(known) = table.numbers.get(&name) {
            return Some(*known);
        }
        table.numbers.insert(name, next?);
        next
    }

    /// Adds a kind whose first list is under way, or replaces the kind of the same number.
    pub(super) fn watch(&self, kind: Kind) {
        let mut table = self.0.write();
        table.remove(kind.id);
        let (id, gvk) = (kind.id, kind.gvk.clone());
        table.by_name.entry(gvk.group).or_default().entry(gvk.kind).or_default().insert(id);
        table.watched.insert(id, (Arc::new(kind), Progress::Listing));
        table.listing += 1;
    }

    /// Removes a kind.
    pub(super) fn unwatch(&self, id: KindId) {
        self.0.write().remove(id);
    }

    /// Records how far the cache of a kind is. Returns false if that changes nothing.
    pub(super) fn set_progress(&self, id: KindId, to: Progress) -> bool {
        let mut table = self.0.write();
        let Some((_, progress)) = table.watched.get_mut(&id) else { return false };
        let from = std::mem::replace(progress, to);
        table.count(from, usize::wrapping_sub);
        table.count(to, usize::wrapping_add);
        from != to
    }

    /// A watched kind.
    pub(super) fn get(&self, id: KindId) -> Option<Arc<Kind>> {
        self.0.read().watched.get(&id).map(|(kind, _)| Arc::clone(kind))
    }

    /// How far the cache of a watched kind is.
    pub(super) fn progress(&self, id: KindId) -> Option<Progress> {
        self.0.read().watched.get(&id).map(|(_, progress)| *progress)
    }

    /// The kinds whose cache is this far.
    pub(super) fn at(&self, progress: Progress) -> Vec<Arc<Kind>> {
        let table = self.0.read();
        let at = table.watched.values().filter(|(_, at)| *at == progress);
        at.map(|(kind, _)| Arc::clone(kind)).collect()
    }

    /// Whether the first lists are complete of all kinds, of all but sick ones, or of fewer.
    pub(super) fn completeness(&self) -> Completeness {
        match &*self.0.read() {
            Table { listing: 0, overdue: 0, .. } => Completeness::Complete,
            Table { listing: 0, .. } => Completeness::ButSick,
            _ => Completeness::Listing,
        }
    }

    /// The watched kind that a reference names, in whatever version.
    pub(super) fn named(&self, reference: &OwnerReference) -> Option<Arc<Kind>> {
        let table = self.0.read();
        let id = table.by_name.get(reference.group())?.get(reference.kind.as_str())?.first()?;
        table.watched.get(id).map(|(kind, _)| Arc::clone(kind))
    }

    /// The cached metadata of an object.
    pub(super) fn cached(&self, id: KindId, uid: &Uid) -> Option<Meta> {
        self.get(id)?.informer.meta_by_uid(uid)
    }

    /// The numbers of all watched kinds.
    pub(super) fn watched(&self) -> Vec<KindId> {
        self.0.read().watched.keys().copied().collect()
    }
}

impl Table {
    fn remove(&mut self, id: KindId) {
        let Some((kind, progress)) = self.watched.remove(&id) else { return };
        self.count(progress, usize::wrapping_sub);
        if let Some(kinds) = self.by_name.get_mut(&kind.gvk.group) {
            kinds.retain(|_, named| {
                named.remove(&id);
                !named.is_empty()
            });
            if kinds.is_empty() {
                self.by_name.remove(&kind.gvk.group);
            }
        }
    }

    /// Counts a kind in or out.
    fn count(&mut self, progress: Progress, change: fn(usize, usize) -> usize) {
        match progress {
            Progress::Listing => self.listing = change(self.listing, 1),
            Progress::Overdue => self.overdue = change(self.overdue, 1),
            Progress::Synced => {}
        }
    }
}

/// Of which kinds the graph has all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Of all kinds.
    Complete,
    /// Of all but sick ones, whose first list is overdue.
    ButSick,
    /// Some kinds are still in their first list, and not overdue.
    Listing,
}

#[cfg(test)]
mod tests {
    use steersman_apiserver::TestServer;
    use steersman_controller::options::OptionSet;
    use steersman_controller::testing::context;

    use super::super::testing::{POD, resource, to};
    use super::*;

    #[tokio::test]
    async fn a_kind_of_two_resources_has_its_name_until_neither_is_watched() {
        let server = TestServer::start().await;
        let (context, _writers) = context(&server, OptionSet::default());
        let kind = |id: u16, name: &str| {
            let resource = resource(name, "Pod");
            let lease = context.informers.lease(&resource.gvr);
            Kind::new(KindId(id), &resource, Arc::clone(lease.informer()))
        };
        let kinds = Kinds::default();
        let named = || kinds.named(&to(POD, "p")).map(|kind| kind.id);
        kinds.watch(kind(0, "pods"));
        kinds.watch(kind(1, "podviews"));
        assert_eq!(named(), Some(KindId(0)));
        kinds.watch(kind(0, "pods"));
        assert_eq!(named(), Some(KindId(0)), "another cache of the same resource");
        kinds.unwatch(KindId(0));
        assert_eq!(named(), Some(KindId(1)));
        kinds.watch(kind(0, "pods"));
        assert_eq!(named(), Some(KindId(0)));
        kinds.unwatch(KindId(1));
        assert_eq!(named(), Some(KindId(0)));
        kinds.unwatch(KindId(0));
        assert_eq!(named(), None);
    }
}
