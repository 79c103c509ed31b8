//! The graph of owners and dependents.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use steersman_api::{Meta, OwnerReference, Uid};
use steersman_client::discovery::Scope;

use self::slab::Slab;
use super::coordinates::Coordinates;
use super::kinds::KindId;
use super::{FOREGROUND, ORPHAN};

mod links;
mod slab;
#[cfg(test)]
mod tests;

/// An object in the caches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectId {
    /// The object's kind.
    pub kind: KindId,
    /// The object's uid.
    pub uid: Uid,
}

/// What the graph reads of kinds and caches.
pub(super) trait Known {
    /// The kind that a reference names, in whatever version, and its scope. `None` if the collector does not watch it.
    fn kind_of(&self, reference: &OwnerReference) -> Option<(KindId, Scope)>;
    /// The metadata of a cached object.
    fn cached(&self, kind: KindId, uid: &Uid) -> Option<Meta>;
    /// Whether the kind's first list is under way and not overdue.
    fn is_listing(&self, kind: KindId) -> bool;
}

/// What must be done because the graph has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Attempt to delete the object.
    Delete(ObjectId),
    /// Orphan the object's dependents.
    Orphan(ObjectId),
    /// Ask the API server whether the owner exists: no cache shows it.
    Verify(Coordinates),
    /// Attempt to delete the dependent: a cache shows its owner, but the reference has another namespace, name or kind.
    Mismatch {
        /// The dependent.
        dependent: ObjectId,
        /// The owner, as the caches have it.
        owner: ObjectId,
    },
}

/// What the collector knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Only references name it. It may exist.
    Unobserved,
    /// A cache has it.
    Observed,
    /// A cache had it, and got its deletion. A uid never comes back, so each reference to it dangles; but an aggregated API
    /// server may show the same object as one of another kind, which may still exist.
    Gone,
}

/// The references between cached objects.
///
/// Nodes are the objects that have owners or dependents; a node of any other object would cost memory for nothing. An edge is
/// one owner reference. A node holds no name: the caches do. In place of namespace and name, nodes and edges hold a hash by
/// which a reference is compared with the owner that it names. (The hash is seeded, so users can't forge one. If two are equal
/// by chance, a wrong reference counts as right, and its object stays.)
///
/// The caches' tasks change the graph one change at a time, under a lock, each after its cache has changed. If an owner and
/// its dependent change at the same time, the later of the two changes sees the other.
#[derive(Default)]
pub(super) struct Graph {
    hasher: RandomState,
    by_uid: HashTable<u32>,
    nodes: Slab<Node>,
    edges: Slab<Edge>,
    /// The number of unobserved nodes of each kind, by the kind's number.
    unobserved: Vec<u32>,
}

struct Node {
    uid: Uid,
    /// The first edge from a dependent.
    dependents: u32,
    /// The first edge to an owner. Only observed nodes have some.
    owners: u32,
    /// How many dependents a foreground deletion of this object waits for.
    blocking: u32,
    /// Where the object is. Zero if it is not observed.
    identity: u32,
    /// The kind of an observed object, or the one that the first reference to it named.
    kind: Option<KindId>,
    sight: Sight,
    /// The object is being deleted in the foreground.
    waiting: bool,
}

struct Edge {
    owner: u32,
    dependent: u32,
    /// The neighbours among the edges from dependents of the owner.
    next: u32,
    previous: u32,
    /// The dependent's next edge to an owner.
    next_owner: u32,
    /// Where the reference has its owner, in the upper 31 bits; in the lowest, whether it blocks the owner's deletion.
    identity: u32,
}

/// The end of a list of edges.
const END: u32 = u32::MAX;
/// The lowest bit of an edge's identity.
const BLOCKS: u32 = 1;

/// Whether a foreground deletion of the object waits for its dependents.
pub(super) fn is_waiting(meta: &Meta) -> bool {
    meta.is_deleting() && meta.has_finalizer(FOREGROUND)
}

/// Whether the object waits for its dependents to be orphaned.
pub(super) fn is_orphaning(meta: &Meta) -> bool {
    meta.is_deleting() && meta.has_finalizer(ORPHAN)
}

impl Graph {
    /// A cache has a new state of an object. `old` is the state before, if the cache had one of the same uid.
    pub(super) fn observed(
        &mut self,
        kind: KindId,
        old: Option<&Meta>,
        new: &Meta,
        known: &impl Known,
        effects: &mut Vec<Effect>,
    ) {
        let id = ObjectId { kind, uid: new.uid.clone() };
        let mut place = self.find(&new.uid);
        if place.is_none() && !new.owners.is_empty() {
            place = Some(self.insert(new.uid.clone(), Some(kind)));
        }
        if let Some(place) = place {
            self.sees(place, &id, new, effects);
            let unchanged = old.is_some_and(|old| old.owners == new.owners);
            if !unchanged || self.nodes.at(place).owners == END {
                self.replace_owners(place, new, known, effects);
            }
            self.remove_if_idle(place);
        }
        if is_orphaning(new) {
            if !old.is_some_and(is_orphaning) {
                effects.push(Effect::Orphan(id));
            }
        } else if is_waiting(new) && !old.is_some_and(|old| is_waiting(old) && !is_orphaning(old)) {
            effects.extend(self.dependents(&new.uid).into_iter().map(Effect::Delete));
            effects.push(Effect::Delete(id));
        }
    }

    /// Updates the node of an object that a cache shows, if only references have named the object so far. All of them may name a
    /// wrong kind, and the graph then does not know that a cache has the object.
    pub(super) fn acquaint(&mut self, id: &ObjectId, meta: &Meta, effects: &mut Vec<Effect>) {
        if let Some(place) = self.find(&id.uid)
            && self.nodes.at(place).sight == Sight::Unobserved
        {
            self.sees(place, id, meta, effects);
        }
    }

    /// A cache got the deletion of an object. Changes nothing if another kind's cache shows the object.
    pub(super) fn deleted(&mut self, kind: KindId, last: &Meta, effects: &mut Vec<Effect>) {
        let Some(place) = self.find(&last.uid) else { return };
        if self.observed_kind(&last.uid).is_some_and(|observed| observed != kind) {
            return;
        }
        let identity = self.identity(kind, &last.key.namespace, &last.key.name);
        self.detach(place, effects);
        // Before the kind: the node is counted under it.
        self.set_sight(place, Sight::Gone);
        let node = self.nodes.at_mut(place);
        (node.kind, node.identity, node.waiting) = (Some(kind), identity, false);
        effects.extend(self.dependents(&last.uid).into_iter().map(Effect::Delete));
        self.remove_if_idle(place);
    }

    /// The first list of a kind is complete, or overdue: owners of that kind that are still unobserved must be verified.
    pub(super) fn settled(&self, kind: KindId, known: &impl Known, effects: &mut Vec<Effect>) {
        if self.unobserved.get(usize::from(kind.0)).is_none_or(|count| *count == 0) {
            return;
        }
        for place in self.nodes.places() {
            let owner = self.nodes.at(place);
            if owner.kind != Some(kind) || owner.sight != Sight::Unobserved {
                continue;
            }
            for dependent in self.dependents(&owner.uid) {
                let Some(meta) = known.cached(dependent.kind, &dependent.uid) else { continue };
                let references = meta.owners.iter().filter(|reference| reference.uid == owner.uid);
                effects.extend(
                    references.map(|one| Effect::Verify(Coordinates::of(one, meta.key.namespace.clone()))),
                );
            }
        }
    }

    /// The kind is no longer watched, so its objects count as unobserved. They are not gone: the API server may have stopped
    /// serving the kind.
    pub(super) fn forget(&mut self, kind: KindId, effects: &mut Vec<Effect>) {
        for place in self.nodes.places() {
            // An earlier turn may have removed the node.
            if self
                .nodes
                .get(place)
                .is_some_and(|node| node.kind == Some(kind) && node.sight == Sight::Observed)
            {
                self.detach(place, effects);
                self.set_sight(place, Sight::Unobserved);
                let node = self.nodes.at_mut(place);
                (node.waiting, node.identity) = (false, 0);
                self.remove_if_idle(place);
            }
        }
    }

    /// What is known of an object. `None` if no reference names it and it has no owners.
    pub(super) fn sight(&self, uid: &Uid) -> Option<Sight> {
        self.find(uid).map(|place| self.nodes.at(place).sight)
    }

    /// Whether a cache got the deletion of the very owner that a reference on an object of this namespace names.
    pub(super) fn is_gone(&self, reference: &OwnerReference, namespace: &str, known: &impl Known) -> bool {
        let Some(place) = self.find(&reference.uid) else { return false };
        let node = self.nodes.at(place);
        node.sight == Sight::Gone && node.identity == self.named_identity(reference, namespace, known)
    }

    /// The kind under which an object is observed.
    pub(super) fn observed_kind(&self, uid: &Uid) -> Option<KindId> {
        let node = self.nodes.at(self.find(uid)?);
        node.kind.filter(|_| node.sight == Sight::Observed)
    }

    /// Whether a foreground deletion of the object must wait for dependents.
    pub(super) fn is_blocked(&self, uid: &Uid) -> bool {
        self.find(uid).is_some_and(|place| self.nodes.at(place).blocking > 0)
    }

    /// The object's dependents, each once.
    pub(super) fn dependents(&self, uid: &Uid) -> Vec<ObjectId> {
        let Some(owner) = self.find(uid) else { return Vec::new() };
        let mut dependents: Vec<_> =
            self.edges_to(owner).filter_map(|edge| self.id(edge.dependent)).collect();
        dependents.sort();
        dependents.dedup();
        dependents
    }

    /// What the object's dependents are like.
    pub(super) fn has_dependents(&self, uid: &Uid) -> Dependents {
        let Some(owner) = self.find(uid) else { return Dependents::None };
        if self.nodes.at(owner).dependents == END {
            return Dependents::None;
        }
        let waiting = self.edges_to(owner).any(|edge| self.nodes.at(edge.dependent).waiting);
        if waiting { Dependents::Waiting } else { Dependents::Some }
    }

    /// All nodes, for people to look at.
    pub(super) fn dump(&self) -> Vec<Shown> {
        let shown = |place: u32| {
            let Node { uid, kind, sight, waiting, .. } = self.nodes.at(place);
            let owners = self.owners(place).map(|edge| self.nodes.at(edge.owner).uid.clone()).collect();
            Shown { uid: uid.clone(), kind: *kind, sight: *sight, waiting: *waiting, owners }
        };
        self.nodes.places().into_iter().map(shown).collect()
    }

    /// The number of nodes and their memory in bytes, and the same of edges.
    pub(super) fn size(&self) -> [(usize, usize); 2] {
        let table = self.by_uid.allocation_size();
        [(self.nodes.len(), self.nodes.bytes() + table), (self.edges.len(), self.edges.bytes())]
    }

    fn find(&self, uid: &Uid) -> Option<u32> {
        let same = |place: &u32| self.nodes.at(*place).uid == *uid;
        self.by_uid.find(self.hasher.hash_one(uid), same).copied()
    }

    fn id(&self, place: u32) -> Option<ObjectId> {
        let node = self.nodes.at(place);
        node.kind.map(|kind| ObjectId { kind, uid: node.uid.clone() })
    }

    fn insert(&mut self, uid: Uid, kind: Option<KindId>) -> u32 {
        let hash = self.hasher.hash_one(&uid);
        let place = self.nodes.insert(Node {
            uid,
            dependents: END,
            owners: END,
            blocking: 0,
            identity: 0,
            kind,
            sight: Sight::Unobserved,
            waiting: false,
        });
        let Self { hasher, by_uid, nodes, .. } = self;
        by_uid.insert_unique(hash, place, |place| hasher.hash_one(&nodes.at(*place).uid));
        self.count_unobserved(place, u32::wrapping_add);
        place
    }

    fn set_sight(&mut self, place: u32, sight: Sight) {
        self.count_unobserved(place, u32::wrapping_sub);
        self.nodes.at_mut(place).sight = sight;
        self.count_unobserved(place, u32::wrapping_add);
    }

    /// Counts a node in or out, if it is unobserved.
    fn count_unobserved(&mut self, place: u32, change: fn(u32, u32) -> u32) {
        let node = self.nodes.at(place);
        if let Some(kind) = node.kind
            && node.sight == Sight::Unobserved
        {
            let at = usize::from(kind.0);
            if self.unobserved.len() <= at {
                self.unobserved.resize(at + 1, 0);
            }
            self.unobserved[at] = change(self.unobserved[at], 1);
        }
    }

    fn remove_if_idle(&mut self, place: u32) {
        let node = self.nodes.at(place);
        if node.dependents != END || node.owners != END {
            return;
        }
        let hash = self.hasher.hash_one(&node.uid);
        if let Ok(entry) = self.by_uid.find_entry(hash, |other| *other == place) {
            entry.remove();
        }
        self.count_unobserved(place, u32::wrapping_sub);
        self.nodes.remove(place);
    }
}

/// A node as people see it.
pub(super) struct Shown {
    /// The object's uid.
    pub(super) uid: Uid,
    /// Its kind, as far as it is known.
    pub(super) kind: Option<KindId>,
    /// What is known of the object.
    pub(super) sight: Sight,
    /// Whether the object waits for its dependents to be deleted.
    pub(super) waiting: bool,
    /// The uids of its owners.
    pub(super) owners: Vec<Uid>,
}

/// What the dependents of an object are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependents {
    /// There are none.
    None,
    /// There are some, and none of them waits for its own dependents.
    Some,
    /// At least one of them is being deleted in the foreground.
    Waiting,
}
