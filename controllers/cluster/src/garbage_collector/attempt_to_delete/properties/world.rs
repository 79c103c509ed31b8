//! An API server, its clients, the caches behind it, and the collector.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use steersman_api::{Deletion, Meta, OwnerReference, ResourceVersion, Time, Uid};
use steersman_controller::client::Propagation;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::super::coordinates::{AbsentOwners, Coordinates};
use super::super::super::graph::{Effect, ObjectId, is_orphaning, is_waiting};
use super::super::super::kinds::{Completeness, KindId};
use super::super::super::owners::Standing;
use super::super::super::testing::{Caches, Change, NODE, conflict, id, meta, name_of, to};
use super::super::super::writes::Wrote;
use super::super::super::{FOREGROUND, ORPHAN};
use super::super::object::{self, Object, Outcome, Progress, Step};
use super::super::owner::{self, Owner, Source};
use super::{Event, KINDS, NAMESPACES, Referred, Wrong};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Object(ObjectId),
    Orphan(ObjectId),
    Owner(Coordinates),
}

/// An API server, the caches behind it, and the collector's queue.
#[derive(Default)]
pub(super) struct World {
    /// All objects that were ever created, deleted ones included, in the order of their creation.
    all: Vec<ObjectId>,
    pub(super) objects: BTreeMap<ObjectId, Meta>,
    version: u64,
    /// The changes that each cache has yet to receive.
    behind: BTreeMap<KindId, VecDeque<(ObjectId, Option<Meta>)>>,
    pub(super) caches: Caches,
    /// The kinds whose first list is overdue. Those whose first list is under way otherwise are in `caches.listing`.
    overdue: BTreeSet<KindId>,
    absent: AbsentOwners,
    queue: VecDeque<Key>,
    /// The events that happen while the collector works.
    pub(super) meanwhile: VecDeque<Event>,
}

impl World {
    /// A world in which these events will happen, and these kinds are in their first list.
    pub(super) fn new(events: Vec<Event>, listing: HashSet<KindId>) -> Self {
        let caches = Caches { listing, ..Caches::default() };
        Self { meanwhile: events.into(), caches, ..Self::default() }
    }

    /// The owner that a reference on an object of this namespace names.
    pub(super) fn owner(&self, reference: &OwnerReference, namespace: &str) -> Option<&Meta> {
        let (kind, uid) = (kind_of(reference), reference.uid.clone());
        let owner = self.objects.get(&ObjectId { kind, uid })?;
        (names(reference, namespace, owner)).then_some(owner)
    }

    fn completeness(&self) -> Completeness {
        match (self.caches.listing.is_empty(), self.overdue.is_empty()) {
            (true, true) => Completeness::Complete,
            (true, false) => Completeness::ButSick,
            (false, _) => Completeness::Listing,
        }
    }

    fn write(&mut self, id: &ObjectId, change: impl FnOnce(&mut Meta)) {
        let Some(mut meta) = self.objects.remove(id) else { return };
        self.version += 1;
        change(&mut meta);
        meta.resource_version = ResourceVersion(self.version);
        let gone = meta.is_deleting() && meta.finalizers.is_empty();
        if !gone {
            self.objects.insert(id.clone(), meta.clone());
        }
        self.behind.entry(id.kind).or_default().push_back((id.clone(), (!gone).then_some(meta)));
    }

    fn delete(&mut self, id: &ObjectId, propagation: Propagation) {
        let finalizer = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        self.write(id, |meta| {
            if !meta.is_deleting() {
                meta.deletion = Deletion::at(Time::from_seconds(1));
                meta.finalizers = finalizer.map(Into::into).into_iter().collect();
            }
        });
    }

    pub(super) fn happens(&mut self, event: Event) {
        match event {
            Event::Create { kind, namespace, owners } => {
                let uid = format!("u{:03}", self.all.len());
                let mut references: Vec<OwnerReference> = Vec::new();
                for Referred { at, blocks, wrong } in owners {
                    let Some(owner) = self.all.get(at % self.all.len().max(1)) else { continue };
                    let mut reference = to(owner.kind, &owner.uid.to_string());
                    match wrong {
                        Wrong::Nothing => {}
                        Wrong::Uid => reference.uid = format!("not-{}", owner.uid).as_str().into(),
                        Wrong::Name => reference.name = "wrong".into(),
                        Wrong::Kind => {
                            reference.kind = name_of(KINDS[(usize::from(owner.kind.0) + 1) % 3]).into();
                        }
                    }
                    reference.block_owner_deletion = Some(blocks);
                    if references.iter().all(|other| other.uid != reference.uid) {
                        references.push(reference);
                    }
                }
                let id = id(KINDS[kind], &uid);
                let namespace = if id.kind == NODE { "" } else { NAMESPACES[namespace] };
                self.all.push(id.clone());
                let mut object = meta(&uid).in_namespace(namespace).owned(&references);
                if object.owners.iter().any(|one| is_unclear(one, &object)) {
                    // The object stays. As in upstream, it would hold up the foreground deletion of its owners for ever.
                    unblock(&mut object);
                }
                self.objects.insert(id.clone(), object);
                self.write(&id, |_| {});
            }
            Event::Delete(at, propagation) => {
                if let Some(id) = self.all.get(at % self.all.len().max(1)).cloned() {
                    self.delete(&id, propagation);
                }
            }
            Event::Touch(at) => {
                if let Some(id) = self.all.get(at % self.all.len().max(1)).cloned() {
                    self.write(&id, |_| {});
                }
            }
            Event::Advance { kind, changes } => {
                for _ in 0..changes {
                    let next = self.behind.entry(KINDS[kind]).or_default().pop_front();
                    if let Some((id, meta)) = next {
                        self.cache(&id, meta);
                    }
                }
            }
            Event::Relist(kind) => {
                let kind = KINDS[kind];
                self.behind.remove(&kind);
                let listed: Vec<_> = self.objects.iter().filter(|(id, _)| id.kind == kind).collect();
                let listed: Vec<_> =
                    listed.into_iter().map(|(id, meta)| (id.clone(), meta.clone())).collect();
                let cached = self.caches.cached.keys().filter(|(other, _)| *other == kind);
                let mut swept: Vec<_> = cached.map(|(_, uid)| ObjectId { kind, uid: uid.clone() }).collect();
                swept.retain(|id| !self.objects.contains_key(id));
                listed.into_iter().for_each(|(id, meta)| self.cache(&id, Some(meta)));
                swept.into_iter().for_each(|id| self.cache(&id, None));
                if self.caches.listing.contains(&kind) || self.overdue.remove(&kind) {
                    self.progressed(kind);
                }
            }
            Event::Overdue(kind) => {
                if self.caches.listing.contains(&KINDS[kind]) {
                    self.overdue.insert(KINDS[kind]);
                    self.progressed(KINDS[kind]);
                }
            }
            Event::Sync(at) => {
                if !self.queue.is_empty() {
                    let key = self.queue.remove(at % self.queue.len()).expect("the index must be in range");
                    self.sync(key);
                }
            }
        }
    }

    fn cache(&mut self, id: &ObjectId, meta: Option<Meta>) {
        let effects = match meta {
            Some(meta) => self.caches.sees(id.kind, meta),
            None => self.caches.loses(id.kind, &id.uid.to_string()),
        };
        self.follow(effects);
    }

    /// The first list of a kind is complete, or overdue.
    fn progressed(&mut self, kind: KindId) {
        let effects = self.caches.settles(kind);
        self.follow(effects);
    }

    fn follow(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.add(match effect {
                Effect::Delete(id) | Effect::Mismatch { dependent: id, .. } => Key::Object(id),
                Effect::Orphan(id) => Key::Orphan(id),
                Effect::Verify(owner) => Key::Owner(owner),
            });
        }
    }

    fn add(&mut self, key: Key) {
        if !self.queue.contains(&key) {
            self.queue.push_back(key);
        }
    }

    /// Something else happens before the collector's next step.
    fn interleave(&mut self) {
        while let Some(event) = self.meanwhile.pop_front() {
            if !matches!(event, Event::Sync(_)) {
                return self.happens(event);
            }
        }
    }

    /// As `Owners::known`.
    fn known(&self, reference: &OwnerReference, namespace: &str) -> Standing {
        let kind = kind_of(reference);
        if namespace.is_empty() && kind != NODE {
            return Standing::Invalid;
        }
        if self.caches.is_gone_from(reference, namespace) {
            return Standing::Dangling;
        }
        match self.caches.cached.get(&(kind, reference.uid.clone())) {
            Some(owner) if names(reference, namespace, owner) => standing(owner),
            _ if self.absent.has(&Coordinates::of(reference, namespace.into())) => Standing::Dangling,
            _ => Standing::Unknown,
        }
    }

    /// As `Owners::look`.
    fn look(&mut self, reference: &OwnerReference, namespace: &str) -> Standing {
        if namespace.is_empty() && kind_of(reference) != NODE {
            return Standing::Invalid;
        }
        let found = self.owner(reference, namespace).map(standing);
        found.unwrap_or_else(|| {
            let owner = Coordinates::of(reference, namespace.into());
            self.absent.add(if kind_of(reference) == NODE { owner.cluster_scoped() } else { owner });
            Standing::Dangling
        })
    }

    fn sync(&mut self, key: Key) {
        match &key {
            Key::Object(id) => self.sync_object(id),
            Key::Orphan(id) => self.orphan(id),
            Key::Owner(coordinates) => self.sync_owner(coordinates),
        }
    }

    fn sync_owner(&mut self, coordinates: &Coordinates) {
        if self.caches.graph.sight(&coordinates.uid).is_none() {
            return;
        }
        let reference = coordinates.as_reference();
        let kind = kind_of(&reference);
        let is_watched = !self.caches.listing.contains(&kind) && !self.overdue.contains(&kind);
        let standing = self.known(&reference, &coordinates.namespace);
        let mut owner = Owner { standing, source: Source::Known, is_watched };
        loop {
            match owner::plan(owner) {
                Plan::Done { requeue_after: None } => return,
                Plan::Done { .. } => return self.add(Key::Owner(coordinates.clone())),
                Plan::Act(batch) => {
                    self.interleave();
                    let step = batch.steps[0];
                    let standing = match step {
                        owner::Step::Look => self.look(&reference, &coordinates.namespace),
                        owner::Step::QueueDependents => {
                            for dependent in self.caches.graph.dependents(&coordinates.uid) {
                                let cached = self.caches.cached.get(&(dependent.kind, dependent.uid.clone()));
                                let names_it = |meta: &Meta| {
                                    let mut references = meta.owners.iter();
                                    references.any(|one| coordinates.are_of(one, &meta.key.namespace))
                                };
                                if cached.is_some_and(names_it) {
                                    self.add(Key::Object(dependent));
                                }
                            }
                            owner.standing
                        }
                    };
                    owner.absorb(step, StepResult::Done(standing));
                }
            }
        }
    }

    fn sync_object(&mut self, id: &ObjectId) {
        let Some(meta) = self.caches.cached.get(&(id.kind, id.uid.clone())).cloned() else { return };
        if is_waiting(&meta) {
            let effects = self.caches.acquaints(id.kind, &id.uid);
            self.follow(effects);
        }
        let namespace = meta.key.namespace.clone();
        let mut object = Object {
            standings: meta.owners.iter().map(|reference| self.known(reference, &namespace)).collect(),
            dependents: self.caches.graph.has_dependents(&id.uid),
            is_blocked: self.caches.graph.is_blocked(&id.uid),
            completeness: self.completeness(),
            progress: Progress::Begun,
            met_conflict: false,
            meta,
        };
        loop {
            let batch = match object::plan(&object) {
                Plan::Act(batch) => batch,
                Plan::Done { requeue_after: None } => return,
                Plan::Done { .. } => return self.add(Key::Object(id.clone())),
            };
            for step in batch.steps {
                self.interleave();
                let outcome = self.act(id, &object, &step);
                if matches!(&outcome, Outcome::Wrote(Wrote::Conflict(_)) if object.met_conflict) {
                    // The sync fails.
                    return self.add(Key::Object(id.clone()));
                }
                let known: BTreeMap<Uid, Standing> = match &outcome {
                    Outcome::Read(Some(meta)) | Outcome::Changed(meta) => {
                        let standing = |one: &OwnerReference| (one.uid.clone(), self.known(one, &namespace));
                        meta.owners.iter().map(standing).collect()
                    }
                    _ => BTreeMap::new(),
                };
                object.absorb(&step, StepResult::Done(outcome), |reference| known[&reference.uid]);
            }
        }
    }

    fn act(&mut self, id: &ObjectId, object: &Object, step: &Step) -> Outcome {
        let namespace = &object.meta.key.namespace;
        if let Step::Look(at) = step {
            return Outcome::Standing(self.look(&object.meta.owners[*at], namespace));
        }
        let Some(stored) = self.objects.get(id).cloned() else {
            return match step {
                Step::Read => Outcome::Read(None),
                _ => Outcome::Wrote(Wrote::Gone),
            };
        };
        let current = stored.resource_version == object.meta.resource_version;
        let lives = |one: &OwnerReference| self.owner(one, namespace).is_some_and(|owner| !is_waiting(owner));
        match step {
            Step::Look(_) | Step::Read => return Outcome::Read(Some(Box::new(stored))),
            Step::Release(owners) => {
                let (lost, rest): (Vec<_>, Vec<_>) =
                    stored.owners.iter().cloned().partition(|one| owners.contains(&one.uid));
                assert!(!lost.iter().any(lives), "{id} loses a living owner: {lost:?}");
                let rest = rest.into();
                self.write(id, |meta| meta.owners = rest);
            }
            Step::Unblock => {
                self.write(id, unblock);
                return Outcome::Changed(Box::new(self.objects[id].clone()));
            }
            Step::Delete(_, Some(version)) if *version != stored.resource_version => {
                return Outcome::Wrote(conflict());
            }
            Step::Delete(propagation, _) => {
                assert!(!stored.owners.iter().any(lives), "{id} has a living owner: {stored:?}");
                let is_unclear = |one: &OwnerReference| is_unclear(one, &stored);
                assert!(!stored.owners.iter().any(is_unclear), "{id} may have an owner: {stored:?}");
                self.delete(id, *propagation);
            }
            Step::Finish if !current => return Outcome::Wrote(conflict()),
            Step::Finish => self.write(id, |meta| remove(meta, FOREGROUND)),
        }
        Outcome::Wrote(Wrote::Done)
    }

    fn orphan(&mut self, owner: &ObjectId) {
        let cached = self.caches.cached.get(&(owner.kind, owner.uid.clone()));
        let Some(cached) = cached.filter(|cached| is_orphaning(cached)).cloned() else { return };
        if self.completeness() == Completeness::Listing {
            return self.add(Key::Orphan(owner.clone()));
        }
        // Sick kinds are listed.
        let is_listed = |(id, meta): &(&ObjectId, &Meta)| {
            let namespace = &cached.key.namespace;
            let is_in_reach = namespace.is_empty() || meta.key.namespace == *namespace;
            let names_it = meta.owners.iter().any(|reference| reference.uid == owner.uid);
            self.overdue.contains(&id.kind) && is_in_reach && names_it
        };
        let mut dependents: BTreeSet<_> = self.caches.graph.dependents(&owner.uid).into_iter().collect();
        dependents.extend(self.objects.iter().filter(is_listed).map(|(id, _)| id.clone()));
        for dependent in dependents {
            self.interleave();
            self.write(&dependent, |meta| {
                meta.owners = meta.owners.iter().filter(|one| one.uid != owner.uid).cloned().collect();
            });
        }
        self.write(owner, |meta| remove(meta, ORPHAN));
    }

    /// Lets everything come to its end.
    pub(super) fn settle(&mut self) {
        for kind in 0..KINDS.len() {
            self.happens(Event::Relist(kind));
        }
        for _ in 0..10_000 {
            let before = self.version;
            for kind in 0..KINDS.len() {
                self.happens(Event::Advance { kind, changes: 1000 });
            }
            for key in std::mem::take(&mut self.queue) {
                self.sync(key);
            }
            let idle = self.behind.values().all(VecDeque::is_empty);
            if idle && self.version == before && self.queue.is_empty() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.queue);
    }
}

/// The kind that a reference names.
fn kind_of(reference: &OwnerReference) -> KindId {
    KINDS.into_iter().find(|kind| name_of(*kind) == reference.kind).expect("the kind must exist")
}

/// Whether a reference on an object of this namespace names `owner`, which has its uid and its kind.
fn names(reference: &OwnerReference, namespace: &str, owner: &Meta) -> bool {
    owner.key.name == reference.name && (kind_of(reference) == NODE || owner.key.namespace == namespace)
}

fn standing(owner: &Meta) -> Standing {
    if is_waiting(owner) { Standing::Waiting } else { Standing::Solid }
}

/// Whether the reference does not say in which namespace the object has its owner.
pub(super) fn is_unclear(reference: &OwnerReference, object: &Meta) -> bool {
    object.key.namespace.is_empty() && kind_of(reference) != NODE
}

/// Has none of the object's references hold up the deletion of its owner.
fn unblock(meta: &mut Meta) {
    let references = meta.owners.iter().cloned();
    meta.owners = references.map(|one| OwnerReference { block_owner_deletion: Some(false), ..one }).collect();
}

fn remove(meta: &mut Meta, finalizer: &str) {
    meta.finalizers = meta.finalizers.iter().filter(|one| **one != finalizer).cloned().collect();
}
