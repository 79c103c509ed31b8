//! The edges of the graph: how they follow the owner references of objects.

use std::hash::BuildHasher;

use steersman_api::{Meta, OwnerReference};
use steersman_client::discovery::Scope;

use super::super::coordinates::Coordinates;
use super::super::kinds::KindId;
use super::{BLOCKS, END, Edge, Effect, Graph, Known, ObjectId, Sight, is_waiting};

impl Graph {
    /// Updates a node from its object's newest state.
    pub(super) fn sees(&mut self, place: u32, id: &ObjectId, new: &Meta, effects: &mut Vec<Effect>) {
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

    pub(super) fn replace_owners(
        &mut self,
        place: u32,
        new: &Meta,
        known: &impl Known,
        effects: &mut Vec<Effect>,
    ) {
        let lost = self.cut(place);
        for reference in &new.owners {
            self.attach(place, reference, new, known, effects);
        }
        self.let_go(lost, effects);
    }

    /// Removes the node's edges to owners. Owners that waited for this object may go on.
    pub(super) fn detach(&mut self, place: u32, effects: &mut Vec<Effect>) {
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
        let identity = self.named_identity(reference, namespace, known);
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
            if edge.owner != place {
                lost.push((edge.owner, blocks));
            }
        }
        // Of several edges to one owner, those that block it come first.
        lost.sort_unstable_by_key(|(owner, blocks)| (*owner, !blocks));
        lost.dedup_by_key(|(owner, _)| *owner);
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
    pub(super) fn edges_to(&self, owner: u32) -> impl Iterator<Item = &Edge> {
        let edge = |at: u32| (at != END).then(|| self.edges.at(at));
        std::iter::successors(edge(self.nodes.at(owner).dependents), move |last| edge(last.next))
    }

    /// The edges to a node's owners.
    pub(super) fn owners(&self, dependent: u32) -> impl Iterator<Item = &Edge> {
        let edge = |at: u32| (at != END).then(|| self.edges.at(at));
        std::iter::successors(edge(self.nodes.at(dependent).owners), move |last| edge(last.next_owner))
    }

    /// Where a reference on an object of this namespace has its owner. Zero if the collector does not watch the owner's kind.
    pub(super) fn named_identity(
        &self,
        reference: &OwnerReference,
        namespace: &str,
        known: &impl Known,
    ) -> u32 {
        known.kind_of(reference).map_or(0, |(kind, scope)| {
            let namespace = if scope == Scope::Cluster { "" } else { namespace };
            self.identity(kind, namespace, &reference.name)
        })
    }

    /// Where an object is, in the upper 31 bits; never zero, which stands for an unknown place.
    #[allow(clippy::cast_possible_truncation, reason = "a part of the hash is enough")]
    pub(super) fn identity(&self, kind: KindId, namespace: &str, name: &str) -> u32 {
        (self.hasher.hash_one((kind, namespace, name)) as u32 | 1 << 31) & !BLOCKS
    }
}
