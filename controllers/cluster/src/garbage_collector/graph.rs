//! The graph of owners and dependents.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use steersman_api::{Meta, OwnerReference, Uid};
use steersman_client::discovery::Scope;

use self::slab::Slab;
use super::coordinates::Coordinates;
use super::kinds::KindId;
use super::{FOREGROUND, ORPHAN};

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
    /// A cache had it, and got its deletion. A uid never comes back, so each reference to it dangles.
    Gone,
}

/// The references between cached objects.
///
/// Nodes are the objects that have owners or dependents; a node of any other object would cost memory for nothing. An edge is
/// one owner reference. A node holds no name: the caches do. In place of namespace and name, nodes and edges hold a hash by
/// which a reference is compared with the owner that it names. (The hash is seeded, so nobody can forge one. If two are equal
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

    /// A cache got the deletion of an object.
    pub(super) fn deleted(&mut self, last: &Meta, effects: &mut Vec<Effect>) {
        let Some(place) = self.find(&last.uid) else { return };
        self.detach(place, effects);
        self.set_sight(place, Sight::Gone);
        self.nodes.at_mut(place).waiting = false;
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

    /// Updates a node from its object's newest state.
    fn sees(&mut self, place: u32, id: &ObjectId, new: &Meta, effects: &mut Vec<Effect>) {
        let identity = self.identity(id.kind, &new.key.namespace, &new.key.name);
        let before = self.nodes.at(place).sight;
        self.set_sight(place, Sight::Observed);
        let node = self.nodes.at_mut(place);
        node.kind = Some(id.kind);
        (node.identity, node.waiting) = (identity, is_waiting(new));
        if before != Sight::Observed {
            let wrong = self.edges_to(place).filter(|edge| edge.identity & !BLOCKS != identity);
            let mismatch = |dependent| Effect::Mismatch { dependent, owner: id.clone() };
            effects.extend(wrong.filter_map(|edge| self.id(edge.dependent)).map(mismatch));
        }
    }

    fn replace_owners(&mut self, place: u32, new: &Meta, known: &impl Known, effects: &mut Vec<Effect>) {
        let lost = self.cut(place);
        for reference in &new.owners {
            self.attach(place, reference, new, known, effects);
        }
        self.let_go(lost, effects);
    }

    /// Removes the node's edges to owners. Owners that waited for this object may go on.
    fn detach(&mut self, place: u32, effects: &mut Vec<Effect>) {
        let lost = self.cut(place);
        self.let_go(lost, effects);
    }

    /// Adds an edge.
    fn attach(
        &mut self,
        place: u32,
        reference: &OwnerReference,
        new: &Meta,
        known: &impl Known,
        effects: &mut Vec<Effect>,
    ) {
        let namespace = &new.key.namespace;
        let named = known.kind_of(reference);
        let identity = named.map_or(0, |(kind, scope)| {
            let namespace = if scope == Scope::Cluster { "" } else { namespace };
            self.identity(kind, namespace, &reference.name)
        });
        let kind = named.map(|(kind, _)| kind);
        let owner = self.find(&reference.uid).unwrap_or_else(|| self.insert(reference.uid.clone(), kind));
        // Of an object without references there is no node, so the cache must tell.
        if self.nodes.at(owner).sight == Sight::Unobserved
            && let Some(kind) = kind
            && let Some(meta) = known.cached(kind, &reference.uid)
        {
            self.sees(owner, &ObjectId { kind, uid: reference.uid.clone() }, &meta, effects);
        }
        let blocks = reference.block_owner_deletion == Some(true) && owner != place;
        let next = self.nodes.at(owner).dependents;
        let next_owner = self.nodes.at(place).owners;
        let edge = Edge {
            owner,
            dependent: place,
            next,
            previous: END,
            next_owner,
            identity: identity | u32::from(blocks),
        };
        let edge = self.edges.insert(edge);
        if next != END {
            self.edges.at_mut(next).previous = edge;
        }
        self.nodes.at_mut(place).owners = edge;
        let node = self.nodes.at_mut(owner);
        node.dependents = edge;
        node.blocking += u32::from(blocks);
        let dependent = || self.id(place).expect("an object with owners must have a kind");
        let node = self.nodes.at(owner);
        match node.sight {
            Sight::Gone => effects.push(Effect::Delete(dependent())),
            Sight::Observed if node.identity != identity => {
                let owner = self.id(owner).expect("an observed object must have a kind");
                effects.push(Effect::Mismatch { dependent: dependent(), owner });
            }
            Sight::Observed if node.waiting => effects.push(Effect::Delete(dependent())),
            Sight::Observed => {}
            // The end of the list shows the owner, or has it verified.
            Sight::Unobserved if node.kind == kind && kind.is_some_and(|kind| known.is_listing(kind)) => {}
            Sight::Unobserved => effects.push(Effect::Verify(Coordinates::of(reference, namespace.clone()))),
        }
    }

    /// Removes the node's edges to owners. Returns the other nodes that they led to, and whether an edge blocked that owner.
    fn cut(&mut self, place: u32) -> Vec<(u32, bool)> {
        let mut lost: Vec<(u32, bool)> = Vec::new();
        let mut at = std::mem::replace(&mut self.nodes.at_mut(place).owners, END);
        while at != END {
            let edge = self.edges.remove(at);
            at = edge.next_owner;
            if edge.next != END {
                self.edges.at_mut(edge.next).previous = edge.previous;
            }
            let owner = self.nodes.at_mut(edge.owner);
            let blocks = edge.identity & BLOCKS != 0;
            owner.blocking -= u32::from(blocks);
            match edge.previous {
                END => owner.dependents = edge.next,
                previous => self.edges.at_mut(previous).next = edge.next,
            }
            match lost.iter_mut().find(|(owner, _)| *owner == edge.owner) {
                Some((_, blocked)) => *blocked |= blocks,
                None if edge.owner != place => lost.push((edge.owner, blocks)),
                None => {}
            }
        }
        lost
    }

    /// Queues those of these owners that wait for no dependent any more, and removes those that no edge holds.
    fn let_go(&mut self, owners: Vec<(u32, bool)>, effects: &mut Vec<Effect>) {
        for (owner, was_blocked) in owners {
            let node = self.nodes.at(owner);
            if was_blocked && node.waiting && node.blocking == 0 {
                effects.extend(self.id(owner).map(Effect::Delete));
            }
            self.remove_if_idle(owner);
        }
    }

    /// The edges from a node's dependents.
    fn edges_to(&self, owner: u32) -> impl Iterator<Item = &Edge> {
        let edge = |at: u32| (at != END).then(|| self.edges.at(at));
        std::iter::successors(edge(self.nodes.at(owner).dependents), move |last| edge(last.next))
    }

    /// The edges to a node's owners.
    fn owners(&self, dependent: u32) -> impl Iterator<Item = &Edge> {
        let edge = |at: u32| (at != END).then(|| self.edges.at(at));
        std::iter::successors(edge(self.nodes.at(dependent).owners), move |last| edge(last.next_owner))
    }

    /// Where an object is, in the upper 31 bits; never zero, which stands for an unknown place.
    #[allow(clippy::cast_possible_truncation, reason = "a part of the hash is enough")]
    fn identity(&self, kind: KindId, namespace: &str, name: &str) -> u32 {
        (self.hasher.hash_one((kind, namespace, name)) as u32 | 1 << 31) & !BLOCKS
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
