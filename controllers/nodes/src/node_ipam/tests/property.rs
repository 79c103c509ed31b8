//! What holds for any sequence of nodes that come and go, writes that fail or get lost, late caches and failovers.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use steersman_api::{ArcStr, Meta, Uid};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, Plan};

use super::super::ledger::{Certainty, Ledger};
use super::super::plan::{Observed, Outcome, Step, plan};
use super::ledger;

/// The number of blocks, and the most nodes at a time.
const BLOCKS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A node of this name appears, with a new uid.
    Create(usize),
    Delete(usize),
    /// The cache shows the next change.
    See,
    /// A sync of the node, whose write fares so.
    Sync(usize, Fate),
    /// Another process takes over, whose cache has the same contents.
    Failover,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Applied,
    Refused,
    /// The API server acts on the write, and no answer comes.
    AppliedUnanswered,
    /// The write never arrives, and no answer comes.
    Lost,
}

fn event() -> impl Strategy<Value = Event> {
    let fate = prop_oneof![
        3 => Just(Fate::Applied),
        1 => Just(Fate::Refused),
        1 => Just(Fate::AppliedUnanswered),
        1 => Just(Fate::Lost),
    ];
    prop_oneof![
        3 => (0..BLOCKS).prop_map(Event::Create),
        2 => (0..BLOCKS).prop_map(Event::Delete),
        6 => Just(Event::See),
        6 => (0..BLOCKS, fate).prop_map(|(node, fate)| Event::Sync(node, fate)),
        1 => Just(Event::Failover),
    ]
}

#[derive(Clone, Debug)]
struct Node {
    uid: Uid,
    cidrs: Vec<ArcStr>,
}

struct World {
    server: BTreeMap<usize, Node>,
    cache: BTreeMap<usize, Node>,
    /// The changes that the cache has not seen.
    changes: VecDeque<(usize, Option<Node>)>,
    ledger: Ledger,
    nodes_so_far: usize,
}

impl World {
    fn new() -> Self {
        let ledger = ledger(&[("10.0.0.0/30", 32)], &[]);
        Self {
            server: BTreeMap::new(),
            cache: BTreeMap::new(),
            changes: VecDeque::new(),
            ledger,
            nodes_so_far: 0,
        }
    }

    fn set(&mut self, name: usize, node: Option<Node>) {
        match node.clone() {
            Some(node) => self.server.insert(name, node),
            None => self.server.remove(&name),
        };
        self.changes.push_back((name, node));
    }

    fn see(&mut self) {
        let Some((name, node)) = self.changes.pop_front() else { return };
        let uid = node.as_ref().map(|node| node.uid.clone());
        let before = match node {
            Some(node) => self.cache.insert(name, node),
            None => self.cache.remove(&name),
        };
        if let Some(before) = before.filter(|before| Some(&before.uid) != uid.as_ref()) {
            self.ledger.release(&before.uid);
        }
    }

    /// The new leader's list. Its cache sees the deletions that the list has already afterwards.
    fn fail_over(&mut self) {
        self.ledger = ledger(&[("10.0.0.0/30", 32)], &[]);
        for node in self.server.values().filter(|node| !node.cidrs.is_empty()) {
            self.ledger.written(&node.uid, "n", &node.cidrs).unwrap();
        }
    }

    fn sync(&mut self, name: usize, fate: Fate) {
        let Some(node) = self.cache.get(&name).cloned() else { return };
        let meta = Meta { uid: node.uid.clone(), ..Meta::default() };
        let holding = self.ledger.holding(&node.uid).cloned();
        let mut observed = Observed { meta, cidrs: node.cidrs.clone(), holding, is_done: false };
        while let Plan::Act(Batch { steps, .. }) = plan(&observed) {
            let outcome = match steps[0] {
                Step::Record => {
                    self.ledger.written(&node.uid, "n", &node.cidrs).unwrap();
                    Outcome::Done
                }
                Step::Propose => match self.ledger.propose(&node.uid) {
                    Ok(holding) => Outcome::Proposed(holding.clone()),
                    Err(_) => return,
                },
                Step::Write => match self.write(name, &observed, fate) {
                    Some(outcome) => outcome,
                    None => return,
                },
            };
            observed.absorb(StepResult::Done(outcome));
        }
    }

    /// As the controller's own write: it has the uid as its precondition.
    fn write(&mut self, name: usize, observed: &Observed, fate: Fate) -> Option<Outcome> {
        let (uid, holding) = (&observed.meta.uid, observed.holding.as_ref().unwrap());
        let was_in_doubt = holding.certainty == Certainty::InDoubt;
        self.ledger.now(uid, Certainty::InDoubt);
        let cidrs: Vec<ArcStr> =
            holding.ranges.iter().flatten().map(|range| range.to_string().into()).collect();
        let there = self.server.get(&name).filter(|node| node.uid == *uid).cloned();
        let is_refused = matches!(fate, Fate::Refused);
        if let (Some(node), Fate::Applied | Fate::AppliedUnanswered) = (&there, fate) {
            assert!(
                node.cidrs.is_empty() || node.cidrs == cidrs,
                "a node must keep its ranges: {node:?} {cidrs:?}"
            );
            self.set(name, Some(Node { cidrs, ..node.clone() }));
        }
        match fate {
            Fate::Applied if there.is_some() => {
                self.ledger.now(uid, Certainty::Written);
                Some(Outcome::Done)
            }
            // Gone, or another node has the name.
            Fate::Applied => {
                self.ledger.release(uid);
                Some(Outcome::Done)
            }
            _ => {
                if is_refused && !was_in_doubt {
                    self.ledger.release(uid);
                }
                None
            }
        }
    }

    fn no_block_is_given_twice(&self) -> bool {
        let mut all: Vec<_> = self.server.values().flat_map(|node| &node.cidrs).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() == count
    }
}

proptest! {
    #[test]
    fn no_block_is_given_twice_and_none_is_lost(events in vec(event(), 0..120)) {
        let mut world = World::new();
        for event in events {
            match event {
                Event::Create(name) if !world.server.contains_key(&name) => {
                    world.nodes_so_far += 1;
                    let uid = format!("u{}", world.nodes_so_far).as_str().into();
                    world.set(name, Some(Node { uid, cidrs: Vec::new() }));
                }
                Event::Delete(name) if world.server.contains_key(&name) => world.set(name, None),
                Event::Create(_) | Event::Delete(_) => {}
                Event::See => world.see(),
                Event::Sync(name, fate) => world.sync(name, fate),
                Event::Failover => world.fail_over(),
            }
            prop_assert!(world.no_block_is_given_twice(), "{:?}", world.server);
        }
        // In the end there are as many blocks as nodes, and each gets one.
        for name in 0..BLOCKS {
            if !world.server.contains_key(&name) {
                world.nodes_so_far += 1;
                let uid = format!("u{}", world.nodes_so_far).as_str().into();
                world.set(name, Some(Node { uid, cidrs: Vec::new() }));
            }
        }
        for _ in 0..2 {
            while !world.changes.is_empty() {
                world.see();
            }
            for name in 0..BLOCKS {
                world.sync(name, Fate::Applied);
            }
        }
        prop_assert!(world.server.values().all(|node| node.cidrs.len() == 1), "{:?}", world.server);
        prop_assert!(world.no_block_is_given_twice(), "{:?}", world.server);
    }
}
