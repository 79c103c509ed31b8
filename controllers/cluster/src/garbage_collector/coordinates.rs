//! Where references have their owners.

use std::fmt;

use lru::LruCache;
use parking_lot::Mutex;
use steersman_api::{ArcStr, GroupVersion, GroupVersionKind, ObjectKey, OwnerReference, Uid};

/// The owner that a reference names. References to one uid may disagree on everything else; at most one of them is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Coordinates {
    /// The group and version of the owner's kind, such as `apps/v1`.
    pub api_version: ArcStr,
    /// The owner's kind.
    pub kind: ArcStr,
    /// The dependent's namespace. A cluster-scoped owner is outside of it.
    pub namespace: ArcStr,
    /// The owner's name.
    pub name: ArcStr,
    /// The owner's uid.
    pub uid: Uid,
}

impl Coordinates {
    /// The owner that a reference names on an object of this namespace.
    pub(super) fn of(reference: &OwnerReference, namespace: ArcStr) -> Self {
        Self {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            namespace,
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }

    /// A reference to this owner.
    pub(super) fn as_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            ..OwnerReference::default()
        }
    }

    /// Whether a reference on an object of this namespace names this owner.
    pub(super) fn are_of(&self, reference: &OwnerReference, namespace: &str) -> bool {
        self.namespace == namespace
            && self.uid == reference.uid
            && self.name == reference.name
            && self.kind == reference.kind
            && self.api_version == reference.api_version
    }

    /// The owner's kind.
    pub(super) fn gvk(&self) -> GroupVersionKind {
        let GroupVersion { group, version } = GroupVersion::parse(&self.api_version);
        GroupVersionKind { group, version, kind: self.kind.clone() }
    }

    /// The owner's key, if its kind is namespaced.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }

    /// The same owner as one of a cluster-scoped kind.
    pub(super) fn cluster_scoped(&self) -> Self {
        Self { namespace: ArcStr::new(), ..self.clone() }
    }
}

/// Upstream's form of an object in logs and events.
impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, kind, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// How many owners [`AbsentOwners`] remembers. Upstream: `NewReferenceCache(500)`.
const REMEMBERED: std::num::NonZeroUsize = std::num::NonZeroUsize::new(500).expect("it must not be zero");

/// The owners that, according to the API server, do not exist. Their dependents need not ask again: a uid never comes back.
pub(super) struct AbsentOwners(Mutex<LruCache<Coordinates, ()>>);

impl Default for AbsentOwners {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl AbsentOwners {
    /// Remembers an owner. Of a cluster-scoped kind, it has no namespace.
    pub(super) fn add(&self, owner: Coordinates) {
        self.0.lock().put(owner, ());
    }

    /// Whether the API server has said that there is no such owner, in the namespace or cluster-scoped.
    pub(super) fn has(&self, owner: &Coordinates) -> bool {
        let mut absent = self.0.lock();
        absent.get(owner).is_some() || absent.get(&owner.cluster_scoped()).is_some()
    }

    /// Forgets all owners.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
