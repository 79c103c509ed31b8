//! Objects and caches for tests of the graph.

use std::collections::{HashMap, HashSet};

use steersman_api::{
    Deletion, GroupVersionKind, GroupVersionResource, Meta, ObjectKey, OwnerReference, ResourceVersion,
    Status, Time, Uid,
};
use steersman_client::discovery::{Resource, Scope};
use steersman_controller::context::ControllerContext;

use super::collector::Collector;
use super::graph::{Effect, Graph, Known, ObjectId};
use super::kinds::KindId;
use super::writes::Wrote;

pub(super) const POD: KindId = KindId(0);
pub(super) const SET: KindId = KindId(1);
pub(super) const NODE: KindId = KindId(2);

/// The kinds of the tests: `Pod`, `Set` and the cluster-scoped `Node`.
pub(super) fn name_of(kind: KindId) -> &'static str {
    ["Pod", "Set", "Node"][usize::from(kind.0)]
}

pub(super) fn id(kind: KindId, uid: &str) -> ObjectId {
    ObjectId { kind, uid: uid.into() }
}

/// An object of the namespace `ns` whose name is its uid.
pub(super) fn meta(uid: &str) -> Meta {
    Meta {
        key: ObjectKey::new("ns", uid),
        uid: uid.into(),
        resource_version: ResourceVersion(1),
        ..Meta::default()
    }
}

/// A reference to the object of that name, which is its uid too.
pub(super) fn to(kind: KindId, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: name_of(kind).into(),
        name: uid.into(),
        uid: uid.into(),
        ..OwnerReference::default()
    }
}

/// A reference that blocks a foreground deletion of the owner.
pub(super) fn blocking(kind: KindId, uid: &str) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(true), ..to(kind, uid) }
}

/// Shorthands that make one object from another.
pub(super) trait Change: Sized {
    fn owned(self, owners: &[OwnerReference]) -> Self;
    fn in_namespace(self, namespace: &str) -> Self;
    fn deleted(self, finalizers: &[&str]) -> Self;
    fn held_by(self, finalizers: &[&str]) -> Self;
}

impl Change for Meta {
    fn owned(self, owners: &[OwnerReference]) -> Self {
        Self { owners: owners.into(), ..self }
    }
    fn in_namespace(mut self, namespace: &str) -> Self {
        self.key.namespace = namespace.into();
        self
    }
    fn deleted(self, finalizers: &[&str]) -> Self {
        Self { deletion: Deletion::at(Time::from_seconds(1)), ..self.held_by(finalizers) }
    }
    fn held_by(self, finalizers: &[&str]) -> Self {
        Self { finalizers: finalizers.iter().map(|one| (*one).into()).collect(), ..self }
    }
}

/// The outcome of a write that the API server refused because the object has changed.
pub(super) fn conflict() -> Wrote {
    Wrote::Conflict(Box::new(Status::failure(409, "Conflict", "the object has been modified")))
}

/// A collector without kinds.
pub(super) fn collector(context: &ControllerContext) -> Collector {
    Collector {
        graph: Default::default(),
        kinds: Default::default(),
        absent: Default::default(),
        missing: Default::default(),
        attempt_to_delete: context.queue("delete"),
        attempt_to_orphan: context.queue("orphan"),
        recorder: context.recorder("test"),
    }
}

/// A namespaced resource of the core group, which the collector watches.
pub(super) fn resource(name: &str, kind: &str) -> Resource {
    Resource {
        gvr: GroupVersionResource::new("", "v1", name),
        gvk: GroupVersionKind { group: "".into(), version: "v1".into(), kind: kind.into() },
        scope: Scope::Namespaced,
        verbs: ["delete", "list", "watch"].map(Into::into).into(),
        singular: "".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    }
}

/// The caches of the tests, with their graph.
#[derive(Default)]
pub(super) struct Caches {
    pub(super) graph: Graph,
    pub(super) cached: HashMap<(KindId, Uid), Meta>,
    pub(super) listing: HashSet<KindId>,
    pub(super) unwatched: HashSet<KindId>,
}

struct View<'a>(&'a Caches);

impl Known for View<'_> {
    fn kind_of(&self, reference: &OwnerReference) -> Option<(KindId, Scope)> {
        let all = [(POD, Scope::Namespaced), (SET, Scope::Namespaced), (NODE, Scope::Cluster)];
        let known = all.into_iter().find(|(kind, _)| name_of(*kind) == reference.kind)?;
        (!self.0.unwatched.contains(&known.0)).then_some(known)
    }
    fn cached(&self, kind: KindId, uid: &Uid) -> Option<Meta> {
        self.0.cached.get(&(kind, uid.clone())).cloned()
    }
    fn is_listing(&self, kind: KindId) -> bool {
        self.0.listing.contains(&kind)
    }
}

impl Caches {
    /// A cache gets a state of an object.
    pub(super) fn sees(&mut self, kind: KindId, meta: Meta) -> Vec<Effect> {
        let old = self.cached.insert((kind, meta.uid.clone()), meta.clone());
        let mut effects = Vec::new();
        let mut graph = std::mem::take(&mut self.graph);
        graph.observed(kind, old.as_ref(), &meta, &View(self), &mut effects);
        self.graph = graph;
        effects
    }

    /// A sync looks at an object that waits for its dependents.
    pub(super) fn acquaints(&mut self, kind: KindId, uid: &Uid) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(meta) = self.cached.get(&(kind, uid.clone())) {
            self.graph.acquaint(&ObjectId { kind, uid: uid.clone() }, meta, &mut effects);
        }
        effects
    }

    /// A cache gets the deletion of an object.
    pub(super) fn loses(&mut self, kind: KindId, uid: &str) -> Vec<Effect> {
        let Some(last) = self.cached.remove(&(kind, uid.into())) else { return Vec::new() };
        let mut effects = Vec::new();
        self.graph.deleted(kind, &last, &mut effects);
        effects
    }

    /// Whether a cache got the deletion of the owner that a reference on an object of the namespace `ns` names.
    pub(super) fn is_gone(&self, reference: &OwnerReference) -> bool {
        self.is_gone_from(reference, "ns")
    }

    /// The same of a reference on an object of that namespace.
    pub(super) fn is_gone_from(&self, reference: &OwnerReference, namespace: &str) -> bool {
        self.graph.is_gone(reference, namespace, &View(self))
    }

    /// The first list of a kind is complete.
    pub(super) fn settles(&mut self, kind: KindId) -> Vec<Effect> {
        self.listing.remove(&kind);
        let mut effects = Vec::new();
        self.graph.settled(kind, &View(self), &mut effects);
        effects
    }

    /// The kind is no longer watched.
    pub(super) fn forgets(&mut self, kind: KindId) -> Vec<Effect> {
        self.unwatched.insert(kind);
        self.cached.retain(|(other, _), _| *other != kind);
        let mut effects = Vec::new();
        self.graph.forget(kind, &mut effects);
        effects
    }
}
