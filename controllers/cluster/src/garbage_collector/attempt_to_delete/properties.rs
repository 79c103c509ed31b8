//! Any forest of owners and any sequence of deletions, in two namespaces and outside of them, with references that are wrong, first
//! lists that take long, caches that lag and watches that break off.

use proptest::prelude::*;
use steersman_api::OwnerReference;
use steersman_controller::client::Propagation;

use super::super::kinds::KindId;
use super::super::testing::{NODE, POD, SET};

mod world;
use world::{World, is_unclear};

const KINDS: [KindId; 3] = [POD, SET, NODE];
const NAMESPACES: [&str; 2] = ["ns", "other"];

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A client creates an object with references to these objects.
    Create { kind: usize, namespace: usize, owners: Vec<Referred> },
    /// A client deletes an object.
    Delete(usize, Propagation),
    /// A client writes an object.
    Touch(usize),
    /// A cache gets its next changes.
    Advance { kind: usize, changes: usize },
    /// A watch breaks off, and its cache is listed anew. This ends the first list.
    Relist(usize),
    /// The first list of a kind is overdue: the kind is sick.
    Overdue(usize),
    /// A worker takes a key.
    Sync(usize),
}

/// A reference to an object.
#[derive(Clone, Debug)]
struct Referred {
    at: usize,
    blocks: bool,
    wrong: Wrong,
}

/// What is wrong about a reference, besides its namespace.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Nothing,
    Uid,
    Name,
    /// It names the next kind.
    Kind,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let propagation =
        prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)];
    let wrong = prop_oneof![
        12 => Just(Wrong::Nothing), 1 => Just(Wrong::Uid), 1 => Just(Wrong::Name), 1 => Just(Wrong::Kind),
    ];
    let referred =
        (0usize..64, any::<bool>(), wrong).prop_map(|(at, blocks, wrong)| Referred { at, blocks, wrong });
    let owners = prop::collection::vec(referred, 0..3);
    let kind = || prop_oneof![3 => Just(0usize), 3 => Just(1), 1 => Just(2)];
    let namespace = prop_oneof![4 => Just(0usize), 1 => Just(1)];
    let event = prop_oneof![
        4 => (kind(), namespace, owners)
            .prop_map(|(kind, namespace, owners)| Event::Create { kind, namespace, owners }),
        2 => (0usize..64, propagation).prop_map(|(at, propagation)| Event::Delete(at, propagation)),
        1 => (0usize..64).prop_map(Event::Touch),
        5 => (kind(), 1usize..4).prop_map(|(kind, changes)| Event::Advance { kind, changes }),
        1 => kind().prop_map(Event::Relist),
        1 => kind().prop_map(Event::Overdue),
        6 => (0usize..64).prop_map(Event::Sync),
    ];
    prop::collection::vec(event, 0..120)
}

proptest! {
    #[test]
    fn what_has_a_living_owner_stays_and_all_else_that_had_owners_goes(
        events in events(),
        listing in prop::collection::vec(prop::bool::weighted(0.3), KINDS.len()),
    ) {
        let listing = KINDS.into_iter().zip(listing).filter(|(_, is)| *is).map(|(kind, _)| kind);
        let mut world = World::new(events, listing.collect());
        while let Some(event) = world.meanwhile.pop_front() {
            world.happens(event);
        }
        world.settle();
        for (id, meta) in &world.objects {
            let lives = |one: &OwnerReference| world.owner(one, &meta.key.namespace).is_some();
            // An object stays as well if a reference does not say where the owner is.
            let stays = meta.owners.iter().any(|one| lives(one) || is_unclear(one, meta));
            prop_assert!(meta.owners.is_empty() || stays, "{id} is garbage: {meta:?}");
            prop_assert!(!meta.is_deleting(), "{id} is stuck: {meta:?}");
        }
        let edges: usize = world.objects.values().map(|meta| meta.owners.len()).sum();
        prop_assert_eq!(world.caches.graph.size()[1].0, edges, "the graph shows what there is");
    }
}
