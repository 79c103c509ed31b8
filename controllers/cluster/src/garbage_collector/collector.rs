//! The state that the parts of the collector share: the graph, the kinds, and the queues.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{Meta, OwnerReference, Uid};
use steersman_client::discovery::Scope;
use steersman_client::events::{EventType, Recorder, reference};
use steersman_informer::MetaChange;
use steersman_informer::work_queue::WorkQueue;

use super::coordinates::{AbsentOwners, Coordinates};
use super::graph::{Effect, Graph, Known, ObjectId};
use super::kinds::{Completeness, Kind, KindId, Kinds, Progress};
use super::missing_kinds::MissingKinds;

/// How long an owner that no cache shows has to appear before the API server is asked whether it exists: the caches of
/// dependents are often a little ahead of those of owners.
const GRACE: Duration = Duration::from_secs(1);

/// A key of the queue `garbage_collector_attempt_to_delete`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// An object that may have to go.
    Object(ObjectId),
    /// An owner that references name and that no cache shows. Upstream: a virtual node.
    Owner(Arc<Coordinates>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(id) => id.uid.fmt(f),
            Self::Owner(coordinates) => coordinates.fmt(f),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uid.fmt(f)
    }
}

/// The shared state.
pub(super) struct Collector {
    /// Locked by the tasks of the caches, one change at a time. Holds no other lock while it waits. Locked before `kinds`.
    pub(super) graph: Mutex<Graph>,
    pub(super) kinds: Kinds,
    pub(super) absent: AbsentOwners,
    pub(super) missing: MissingKinds,
    pub(super) attempt_to_delete: WorkQueue<Key>,
    pub(super) attempt_to_orphan: WorkQueue<ObjectId>,
    pub(super) recorder: Recorder,
}

impl Known for Kinds {
    fn kind_of(&self, reference: &OwnerReference) -> Option<(KindId, Scope)> {
        self.named(reference).map(|kind| (kind.id, kind.scope))
    }

    fn cached(&self, kind: KindId, uid: &Uid) -> Option<Meta> {
        Self::cached(self, kind, uid)
    }

    fn is_listing(&self, kind: KindId) -> bool {
        self.progress(kind) == Some(Progress::Listing)
    }
}

impl Collector {
    /// Applies a change of a cache to the graph, and queues what follows from it.
    pub(super) fn changed(&self, kind: KindId, change: MetaChange<'_>) {
        if change.newest().uid.is_empty() {
            return;
        }
        let mut effects = Vec::new();
        let mut graph = self.graph.lock();
        match change {
            MetaChange::Added { meta, .. } | MetaChange::Resync { meta } => {
                graph.observed(kind, None, meta, &self.kinds, &mut effects);
            }
            MetaChange::Updated { old, new } if old.uid == new.uid => {
                graph.observed(kind, Some(old), new, &self.kinds, &mut effects);
            }
            MetaChange::Updated { old, new } => {
                graph.deleted(kind, old, &mut effects);
                graph.observed(kind, None, new, &self.kinds, &mut effects);
            }
            MetaChange::Deleted { last } => graph.deleted(kind, last, &mut effects),
        }
        drop(graph);
        self.queue(effects);
    }

    /// Records how far the cache of a kind is, and has the owners verified that it still does not show.
    pub(super) fn progressed(&self, kind: KindId, progress: Progress) {
        if self.kinds.set_progress(kind, progress) {
            let mut effects = Vec::new();
            self.graph.lock().settled(kind, &self.kinds, &mut effects);
            self.queue(effects);
        }
    }

    /// Stops counting on the cache of a kind, which no longer calls the collector.
    pub(super) fn forget(&self, kind: KindId) {
        let mut effects = Vec::new();
        let mut graph = self.graph.lock();
        graph.forget(kind, &mut effects);
        self.kinds.unwatch(kind);
        drop(graph);
        self.queue(effects);
    }

    /// Counts on another cache of a kind, which has yet to list the kind's objects. The old one no longer calls the collector.
    ///
    /// [`Self::dependents`] never reads the kind as listed while the graph lacks the kind's objects.
    pub(super) fn replace(&self, kind: Kind) {
        let (id, mut effects) = (kind.id, Vec::new());
        let mut graph = self.graph.lock();
        self.kinds.watch(kind);
        graph.forget(id, &mut effects);
        drop(graph);
        self.queue(effects);
    }

    /// Has the graph know of an object that waits for its dependents: the last one that goes must queue the object.
    pub(super) fn acquaint(&self, id: &ObjectId) {
        let mut effects = Vec::new();
        let mut graph = self.graph.lock();
        // Read under the lock: the graph then gets the deletion of an object that the cache still shows.
        if let Some(meta) = self.kinds.cached(id.kind, &id.uid) {
            graph.acquaint(id, &meta, &mut effects);
        }
        drop(graph);
        self.queue(effects);
    }

    /// Reads an owner's dependents, and of which kinds the graph has all dependents, at one moment.
    pub(super) fn dependents<T>(&self, read: impl FnOnce(&Graph) -> T) -> (T, Completeness) {
        let graph = self.graph.lock();
        (read(&graph), self.kinds.completeness())
    }

    /// As [`dependents`](Self::dependents), with the sick kinds if the graph lacks the dependents of some.
    pub(super) fn dependents_to_orphan(&self, owner: &Uid) -> (Vec<ObjectId>, Completeness, Vec<Arc<Kind>>) {
        let graph = self.graph.lock();
        // A kind may become overdue at any time, so the completeness must be read first. A kind whose first list completes
        // meanwhile is no gap: the graph, which is locked, has all of its objects.
        let completeness = self.kinds.completeness();
        let sick = match completeness {
            Completeness::ButSick => self.kinds.at(Progress::Overdue),
            Completeness::Complete | Completeness::Listing => Vec::new(),
        };
        (graph.dependents(owner), completeness, sick)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.graph.lock() = Graph::default();
        self.kinds.watched().into_iter().for_each(|kind| self.kinds.unwatch(kind));
        self.absent.clear();
        self.missing.clear();
    }

    fn queue(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Delete(object) => self.attempt_to_delete.add(Key::Object(object)),
                Effect::Orphan(object) => self.attempt_to_orphan.add(object),
                Effect::Verify(owner) => {
                    self.attempt_to_delete.add_after(Key::Owner(Arc::new(owner)), GRACE);
                }
                Effect::Mismatch { dependent, owner } => {
                    self.report_wrong_namespace(&dependent, &owner);
                    self.attempt_to_delete.add(Key::Object(dependent));
                }
            }
        }
    }

    /// Queues the dependents whose reference to an owner has exactly these coordinates: there is no such owner.
    pub(super) fn queue_dependents(&self, owner: &Coordinates) {
        let (dependents, observed) = {
            let graph = self.graph.lock();
            (graph.dependents(&owner.uid), graph.observed_kind(&owner.uid))
        };
        for dependent in dependents {
            let Some(meta) = self.kinds.cached(dependent.kind, &dependent.uid) else { continue };
            if !meta.owners.iter().any(|reference| owner.are_of(reference, &meta.key.namespace)) {
                continue;
            }
            if let Some(kind) = observed {
                self.report_wrong_namespace(&dependent, &ObjectId { kind, uid: owner.uid.clone() });
            }
            self.attempt_to_delete.add(Key::Object(dependent));
        }
    }

    /// Records an event for a dependent of an owner that is in another namespace.
    fn report_wrong_namespace(&self, dependent: &ObjectId, owner: &ObjectId) {
        let Some(kind) = self.kinds.get(dependent.kind) else { return };
        let Some(meta) = kind.informer.meta_by_uid(&dependent.uid) else { return };
        let Some(named) = self.kinds.cached(owner.kind, &owner.uid) else { return };
        let namespace = &meta.key.namespace;
        if named.key.namespace.is_empty() || named.key.namespace == *namespace {
            return;
        }
        let Some(wrong) = meta.owners.iter().find(|reference| reference.uid == owner.uid) else { return };
        let message = format!(
            "ownerRef {} does not exist in namespace {namespace:?}",
            Coordinates::of(wrong, namespace.clone())
        );
        let mut involved = reference(&kind.gvk, &meta);
        // As upstream's, so that equal events are counted as one.
        involved.resource_version = None;
        self.recorder.event(&involved, EventType::Warning, "OwnerRefInvalidNamespace", message);
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::Meta;
    use steersman_apiserver::TestServer;
    use steersman_controller::context::ControllerContext;
    use steersman_controller::options::OptionSet;
    use steersman_controller::testing::context;

    use super::super::testing::{Change, POD, SET, collector, id, meta, resource, to};
    use super::*;

    fn pods(context: &ControllerContext) -> Kind {
        let resource = resource("pods", "Pod");
        let lease = context.informers.lease(&resource.gvr);
        Kind::new(POD, &resource, Arc::clone(lease.informer()))
    }

    #[tokio::test]
    async fn a_kind_whose_cache_is_replaced_counts_as_being_listed() {
        let server = TestServer::start().await;
        let (context, _writers) = context(&server, OptionSet::default());
        let collector = collector(&context);
        let pod: Meta = meta("p").owned(&[to(SET, "s")]);
        let lists = || {
            collector.changed(POD, MetaChange::Added { meta: &pod, initial: true });
            collector.progressed(POD, Progress::Synced);
        };
        collector.kinds.watch(pods(&context));
        lists();
        let dependents = || collector.dependents(|graph| graph.dependents(&"s".into()));
        let all = (vec![id(POD, "p")], Completeness::Complete);
        assert_eq!(dependents(), all);
        collector.replace(pods(&context));
        assert_eq!(dependents(), (Vec::new(), Completeness::Listing));
        lists();
        assert_eq!(dependents(), all);
    }
}
