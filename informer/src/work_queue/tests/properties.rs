//! Compares the queue with a model of each key, under random interleavings.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

type Name = u8;

#[derive(Clone, Debug)]
enum Step {
    Add(Name),
    AddAfter(Name, u64),
    Wake(Name),
    /// Takes the next key, if there is one.
    Take,
    /// Ends the work on the n-th of the keys in hand.
    Done(usize),
    Park(usize, u64),
    Pass(u64),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..4_u8;
    let nth = 0..4_usize;
    let time = 1..40_u64;
    prop_oneof![
        6 => name.clone().prop_map(Step::Add),
        3 => (name.clone(), time.clone()).prop_map(|(name, delay)| Step::AddAfter(name, delay)),
        4 => name.prop_map(Step::Wake),
        8 => Just(Step::Take),
        4 => nth.clone().prop_map(Step::Done),
        4 => (nth, time.clone()).prop_map(|(nth, time)| Step::Park(nth, time)),
        3 => time.prop_map(Step::Pass),
        1 => Just(Step::ShutDown),
    ]
}

/// The model of one key, independent of the others.
#[derive(Clone, Default)]
struct Life {
    place: Place,
    /// When a delayed add is due.
    delayed: Option<Instant>,
    /// The deadline of its park, while that runs on.
    behind_until: Option<Instant>,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
enum Place {
    #[default]
    Nowhere,
    Queued,
    InWork {
        added: bool,
        woken: bool,
    },
    Parked,
}

impl Life {
    fn add(&mut self) {
        self.place = match self.place {
            Place::InWork { woken, .. } => Place::InWork { added: true, woken },
            _ => Place::Queued,
        }
    }

    fn wake(&mut self) {
        self.place = match self.place {
            Place::InWork { added, .. } => Place::InWork { added, woken: true },
            Place::Parked => Place::Queued,
            other => other,
        }
    }

    fn fall_due(&mut self, now: Instant) {
        if self.delayed.is_some_and(|due| due <= now) {
            self.delayed = None;
            self.add();
        }
        if self.place == Place::Parked && self.behind_until.is_some_and(|due| due <= now) {
            self.place = Place::Queued;
        }
    }

    fn done(&mut self) {
        self.behind_until = None;
        self.place = match self.place {
            Place::InWork { added: true, .. } => Place::Queued,
            _ => Place::Nowhere,
        }
    }

    fn park(&mut self, until: Instant, expired: bool, open: bool) {
        self.behind_until =
            Some(self.behind_until.filter(|_| !expired).map_or(until, |known| known.min(until)));
        self.place = match self.place {
            Place::InWork { added: true, .. } => Place::Queued,
            Place::InWork { woken: true, .. } if open => Place::Queued,
            _ if open => Place::Parked,
            _ => Place::Nowhere,
        };
    }
}

async fn obeys(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let queue: WorkQueue<Name> = WorkQueue::new(QueueConfig::new("test"));
    let mut lives: BTreeMap<Name, Life> = (0..4).map(|name| (name, Life::default())).collect();
    let mut hands: Vec<(Taken<Name>, bool)> = Vec::new();
    let mut open = true;

    // At the end, workers finish their keys and take all that are left.
    let finish = std::iter::repeat_n([Step::Done(0), Step::Take], 16).flatten();
    for step in steps.into_iter().chain(finish) {
        let now = Instant::now();
        match step.clone() {
            Step::Add(name) => {
                queue.add(name);
                if open {
                    lives.entry(name).and_modify(Life::add);
                }
            }
            Step::AddAfter(name, delay) => {
                queue.add_after(name, ms(delay));
                let due = now + ms(delay);
                lives.entry(name).and_modify(|life| {
                    life.delayed = open.then(|| life.delayed.map_or(due, |known| known.min(due)));
                });
            }
            Step::Wake(name) => {
                queue.wake(&name);
                lives.entry(name).and_modify(Life::wake);
            }
            Step::Take => {
                let taken = look(&queue);
                let expected = lives.values().any(|life| life.place == Place::Queued);
                prop_assert_eq!(taken.is_some(), expected, "whether there is work");
                if let Some(taken) = taken {
                    let life = lives.get_mut(taken.key()).unwrap();
                    prop_assert_eq!(life.place, Place::Queued, "key {} was handed out", taken.key());
                    life.place = Place::InWork { added: false, woken: false };
                    let expired = life.behind_until.is_some_and(|deadline| deadline <= now);
                    prop_assert_eq!(taken.park_expired(), expired);
                    hands.push((taken, expired));
                }
            }
            Step::Done(nth) if nth < hands.len() => {
                let (taken, _) = hands.remove(nth);
                lives.entry(*taken.key()).and_modify(Life::done);
                drop(taken);
            }
            Step::Park(nth, time) if nth < hands.len() => {
                let (taken, expired) = hands.remove(nth);
                lives.entry(*taken.key()).and_modify(|life| life.park(now + ms(time), expired, open));
                taken.park(ms(time));
            }
            Step::Done(_) | Step::Park(..) => {}
            Step::Pass(time) => pass(ms(time)).await,
            Step::ShutDown => {
                queue.shut_down();
                open = false;
                for life in lives.values_mut() {
                    life.delayed = None;
                    if life.place == Place::Parked {
                        life.place = Place::Nowhere;
                    }
                }
            }
        }
        lives.values_mut().for_each(|life| life.fall_due(Instant::now()));
        let count = |is: fn(&Life) -> bool| lives.values().filter(|life| is(life)).count();
        prop_assert_eq!(queue.len(), count(|life| life.place == Place::Queued), "queued after {:?}", step);
        prop_assert_eq!(
            queue.parked_len(),
            count(|life| life.place == Place::Parked),
            "parked after {:?}",
            step
        );
        prop_assert_eq!(
            queue.waiting_len(),
            count(|life| life.delayed.is_some()),
            "delayed after {:?}",
            step
        );
    }
    prop_assert!(hands.is_empty() && queue.is_empty(), "everything is worked off in the end");
    Ok(())
}

proptest! {
    #[test]
    fn every_key_lives_as_the_contract_says(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(obeys(steps))?;
    }

    #[test]
    fn keys_come_by_priority_and_then_by_age(adds in prop::collection::vec((0..30_u8, 0..4_i32), 0..60)) {
        let queue: WorkQueue<u8, i32> = WorkQueue::new(QueueConfig::new("test"));
        let mut expected: Vec<(u8, i32)> = Vec::new();
        for (key, priority) in adds {
            queue.add_with_priority(key, priority);
            match expected.iter_mut().find(|known| known.0 == key) {
                Some(known) => known.1 = known.1.max(priority),
                None => expected.push((key, priority)),
            }
        }
        expected.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        let keys: Vec<_> = expected.into_iter().map(|(key, _)| key).collect();
        prop_assert_eq!(all(&queue), keys);
    }
}
