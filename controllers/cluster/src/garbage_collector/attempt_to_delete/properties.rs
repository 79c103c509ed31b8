//! Any forest of owners and any sequence of deletions, with caches that lag and watches that break off.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use steersman_api::{Meta, OwnerReference, ResourceVersion, Time, Uid};
use steersman_controller::client::Propagation;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::coordinates::Coordinates;
use super::super::graph::{Effect, ObjectId, is_orphaning, is_waiting};
use super::super::kinds::{Completeness, KindId};
use super::super::owners::Standing;
use super::super::testing::{Caches, Change, POD, SET, id, meta, name_of, to};
use super::super::writes::Wrote;
use super::super::{FOREGROUND, ORPHAN};
use super::object::{self, Object, Outcome, Progress, Step};
use super::owner::{self, Owner, Source};

const KINDS: [KindId; 2] = [POD, SET];

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A client creates an object, with references to these objects, and whether they block; or to none that exists.
    Create { kind: usize, owners: Vec<(usize, bool)>, bogus: bool },
    /// A client deletes an object.
    Delete(usize, Propagation),
    /// A client writes an object.
    Touch(usize),
    /// A cache gets its next changes.
    Advance { kind: usize, changes: usize },
    /// A watch breaks off, and its cache is listed anew.
    Relist(usize),
    /// A worker takes a key.
    Sync(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let propagation =
        prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)];
    let owners = prop::collection::vec((0usize..64, any::<bool>()), 0..3);
    let event = prop_oneof![
        4 => (0usize..2, owners, prop::bool::weighted(0.1))
            .prop_map(|(kind, owners, bogus)| Event::Create { kind, owners, bogus }),
        2 => (0usize..64, propagation).prop_map(|(at, propagation)| Event::Delete(at, propagation)),
        1 => (0usize..64).prop_map(Event::Touch),
        4 => (0usize..2, 1usize..4).prop_map(|(kind, changes)| Event::Advance { kind, changes }),
        1 => (0usize..2).prop_map(Event::Relist),
        6 => (0usize..64).prop_map(Event::Sync),
    ];
    prop::collection::vec(event, 0..120)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Object(ObjectId),
    Orphan(ObjectId),
    Owner(Coordinates),
}

/// An API server, the caches behind it, and the collector's queue.
#[derive(Default)]
struct World {
    /// All objects that were ever created, deleted ones included, in the order of their creation.
    all: Vec<ObjectId>,
    objects: BTreeMap<ObjectId, Meta>,
    version: u64,
    /// The changes that each cache has yet to receive.
    behind: BTreeMap<KindId, VecDeque<(ObjectId, Option<Meta>)>>,
    caches: Caches,
    absent: BTreeSet<String>,
    queue: VecDeque<Key>,
    /// The events that happen while the collector works.
    meanwhile: VecDeque<Event>,
}

impl World {
    fn exists(&self, uid: &Uid) -> Option<&Meta> {
        KINDS.into_iter().find_map(|kind| self.objects.get(&ObjectId { kind, uid: uid.clone() }))
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
                meta.deleted = Some(Time::from_seconds(1));
                meta.finalizers = finalizer.map(Into::into).into_iter().collect();
            }
        });
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Create { kind, owners, bogus } => {
                let uid = format!("u{:03}", self.all.len());
                let mut references: Vec<OwnerReference> = Vec::new();
                for (at, blocks) in owners {
                    let Some(owner) = self.all.get(at % self.all.len().max(1)) else { continue };
                    if references.iter().all(|other| other.uid != owner.uid) {
                        let reference = to(owner.kind, &owner.uid.to_string());
                        references.push(OwnerReference { block_owner_deletion: Some(blocks), ..reference });
                    }
                }
                if bogus {
                    references.push(to(SET, "bogus"));
                }
                let id = id(KINDS[kind], &uid);
                self.all.push(id.clone());
                self.objects.insert(id.clone(), meta(&uid).owned(&references));
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

    fn known(&self, reference: &OwnerReference) -> Standing {
        if self.caches.is_gone(reference) {
            return Standing::Dangling;
        }
        let kind =
            KINDS.into_iter().find(|kind| name_of(*kind) == reference.kind).expect("the kind must exist");
        match self.caches.cached.get(&(kind, reference.uid.clone())) {
            Some(owner) if is_waiting(owner) => Standing::Waiting,
            Some(_) => Standing::Solid,
            None if self.absent.contains(&reference.uid.to_string()) => Standing::Dangling,
            None => Standing::Unknown,
        }
    }

    fn look(&mut self, uid: &Uid) -> Standing {
        match self.exists(uid) {
            Some(owner) if is_waiting(owner) => Standing::Waiting,
            Some(_) => Standing::Solid,
            None => {
                self.absent.insert(uid.to_string());
                Standing::Dangling
            }
        }
    }

    fn sync(&mut self, key: Key) {
        match &key {
            Key::Object(id) => self.sync_object(id),
            Key::Orphan(id) => self.orphan(id),
            Key::Owner(coordinates) => self.sync_owner(coordinates),
        }
    }

    fn sync_owner(&mut self, coordinates: &Coordinates) {
        let standing = self.known(&coordinates.as_reference());
        let mut owner = Owner { standing, source: Source::Known, is_watched: true };
        loop {
            match owner::plan(owner) {
                Plan::Done { requeue_after: None } => return,
                Plan::Done { .. } => return self.add(Key::Owner(coordinates.clone())),
                Plan::Act(batch) => {
                    self.interleave();
                    let step = batch.steps[0];
                    let standing = match step {
                        owner::Step::Look => self.look(&coordinates.uid),
                        owner::Step::QueueDependents => {
                            for dependent in self.caches.graph.dependents(&coordinates.uid) {
                                self.add(Key::Object(dependent));
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
        let mut object = Object {
            standings: meta.owners.iter().map(|reference| self.known(reference)).collect(),
            dependents: self.caches.graph.has_dependents(&id.uid),
            is_blocked: self.caches.graph.is_blocked(&id.uid),
            completeness: Completeness::Complete,
            progress: Progress::Begun,
            meta,
        };
        while let Plan::Act(batch) = object::plan(&object) {
            for step in batch.steps {
                self.interleave();
                let outcome = self.act(id, &object, &step);
                let known: BTreeMap<Uid, Standing> = match &outcome {
                    Outcome::Read(Some(meta)) | Outcome::Changed(meta) => {
                        meta.owners.iter().map(|one| (one.uid.clone(), self.known(one))).collect()
                    }
                    _ => BTreeMap::new(),
                };
                object.absorb(&step, StepResult::Done(outcome), |reference| known[&reference.uid]);
            }
        }
    }

    fn act(&mut self, id: &ObjectId, object: &Object, step: &Step) -> Outcome {
        if let Step::Look(at) = step {
            return Outcome::Standing(self.look(&object.meta.owners[*at].uid.clone()));
        }
        let Some(stored) = self.objects.get(id).cloned() else {
            return match step {
                Step::Read => Outcome::Read(None),
                _ => Outcome::Wrote(Wrote::Gone),
            };
        };
        let current = stored.resource_version == object.meta.resource_version;
        match step {
            Step::Look(_) | Step::Read => return Outcome::Read(Some(Box::new(stored))),
            Step::Release(owners) => {
                let rest = stored.owners.iter().filter(|one| !owners.contains(&one.uid)).cloned().collect();
                self.write(id, |meta| meta.owners = rest);
            }
            Step::Unblock => {
                self.write(id, |meta| {
                    meta.owners.iter_mut().for_each(|one| one.block_owner_deletion = Some(false));
                });
                return Outcome::Changed(Box::new(self.objects[id].clone()));
            }
            Step::Delete(_, Some(version)) if *version != stored.resource_version => {
                return Outcome::Wrote(Wrote::Conflict);
            }
            Step::Delete(propagation, _) => {
                let living =
                    |one: &OwnerReference| self.exists(&one.uid).is_some_and(|owner| !is_waiting(owner));
                assert!(!stored.owners.iter().any(living), "{id} has a living owner: {stored:?}");
                self.delete(id, *propagation);
            }
            Step::Finish if !current => return Outcome::Wrote(Wrote::Conflict),
            Step::Finish => self.write(id, |meta| remove(meta, FOREGROUND)),
        }
        Outcome::Wrote(Wrote::Done)
    }

    fn orphan(&mut self, owner: &ObjectId) {
        let cached = self.caches.cached.get(&(owner.kind, owner.uid.clone()));
        if !cached.is_some_and(is_orphaning) {
            return;
        }
        for dependent in self.caches.graph.dependents(&owner.uid) {
            self.interleave();
            self.write(&dependent, |meta| {
                meta.owners = meta.owners.iter().filter(|one| one.uid != owner.uid).cloned().collect();
            });
        }
        self.write(owner, |meta| remove(meta, ORPHAN));
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
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

fn remove(meta: &mut Meta, finalizer: &str) {
    meta.finalizers = meta.finalizers.iter().filter(|one| **one != finalizer).cloned().collect();
}

proptest! {
    #[test]
    fn what_has_a_living_owner_stays_and_all_else_that_had_owners_goes(events in events()) {
        let mut world = World { meanwhile: events.into(), ..World::default() };
        while let Some(event) = world.meanwhile.pop_front() {
            world.happens(event);
        }
        world.settle();
        for (id, meta) in &world.objects {
            let living = meta.owners.iter().any(|one| world.exists(&one.uid).is_some());
            prop_assert!(meta.owners.is_empty() || living, "{id} is garbage: {meta:?}");
            prop_assert!(!meta.is_deleting(), "{id} is stuck: {meta:?}");
        }
        let edges: usize = world.objects.values().map(|meta| meta.owners.len()).sum();
        prop_assert_eq!(world.caches.graph.size()[1].0, edges, "the graph shows what there is");
    }
}
