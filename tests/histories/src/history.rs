//! Records the server's answers to clients and its watch events, and checks that they are consistent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::checker::{Call, Stuck, linearize};
use crate::register::{Act, Outcome, Register};

/// The objects that clients use: `object-0` and so on.
pub(crate) const KEYS: usize = 4;

/// The state of an object, as the server returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its `resourceVersion`.
    pub(crate) version: u64,
    pub(crate) value: u64,
}

/// All objects at a version.
pub(crate) type States = BTreeMap<usize, Seen>;

/// The server's answers to all clients, over all lives of the server.
#[derive(Debug, Default)]
pub struct History {
    moments: AtomicU64,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    life: usize,
    calls: Vec<Recorded>,
    lists: Vec<Listed>,
    watches: Vec<Watched>,
}

/// One client's call on one object.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) client: usize,
    pub(crate) key: usize,
    pub(crate) began: u64,
    /// `None` while the outcome is not known and the server lives.
    pub(crate) ended: Option<u64>,
    pub(crate) act: Act,
    pub(crate) outcome: Outcome,
    /// The state of the object in the answer.
    pub(crate) seen: Option<Seen>,
}

/// A list of all objects.
#[derive(Debug)]
struct Listed {
    life: usize,
    began: u64,
    version: u64,
    states: States,
}

/// One watch, from a list on.
#[derive(Debug)]
struct Watched {
    life: usize,
    start: u64,
    states: States,
    events: Vec<Told>,
    /// The version of its last event or bookmark.
    through: u64,
}

/// An event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// The moment at which the watcher received it.
    pub(crate) at: u64,
    pub(crate) version: u64,
    pub(crate) key: usize,
    /// `None` if the object was deleted.
    pub(crate) value: Option<u64>,
}

/// The size of a history.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How often the server lived.
    pub lives: usize,
    /// Calls on one object. A list counts as one of each object.
    pub calls: usize,
    /// Calls of which it is not known whether they took effect.
    pub unknown: usize,
    /// Lists.
    pub lists: usize,
    /// Events of watches.
    pub events: usize,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.lives += other.lives;
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.lists += other.lists;
        self.events += other.events;
    }
}

impl History {
    /// The next moment.
    pub(crate) fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// How many calls have been recorded. A list counts as one of each object.
    pub fn calls(&self) -> usize {
        self.record.lock().calls.len()
    }

    pub(crate) fn note(&self, call: Recorded) {
        self.record.lock().calls.push(call);
    }

    pub(crate) fn note_list(&self, client: usize, began: u64, version: u64, states: States) {
        let ended = Some(self.moment());
        let mut record = self.record.lock();
        for key in 0..KEYS {
            let seen = states.get(&key).copied();
            let outcome = seen.map_or(Outcome::Missing, |seen| Outcome::Is(seen.value));
            record.calls.push(Recorded { client, key, began, ended, act: Act::Get, outcome, seen });
        }
        let life = record.life;
        record.lists.push(Listed { life, began, version, states });
    }

    /// Returns the watch's number.
    pub(crate) fn note_watch(&self, start: u64, states: States) -> usize {
        let mut record = self.record.lock();
        let life = record.life;
        record.watches.push(Watched { life, start, states, events: Vec::new(), through: start });
        record.watches.len() - 1
    }

    pub(crate) fn note_event(&self, watch: usize, told: Told) {
        let watch = &mut self.record.lock().watches[watch];
        watch.events.push(told);
        watch.through = watch.through.max(told.version);
    }

    pub(crate) fn note_bookmark(&self, watch: usize, version: u64) {
        let watch = &mut self.record.lock().watches[watch];
        watch.through = watch.through.max(version);
    }

    /// Ends the current life. The server must be dead, and all clients and watchers must have ended: calls that have not taken effect
    /// never will.
    pub fn end_life(&self) {
        let now = self.moment();
        let mut record = self.record.lock();
        for call in &mut record.calls {
            call.ended.get_or_insert(now);
        }
        record.life += 1;
    }

    /// Checks that the server's answers and events are consistent. Must be called after [`end_life`](Self::end_life).
    ///
    /// # Errors
    /// The first inconsistency, described for people.
    pub fn verify(&self) -> Result<Summary, String> {
        let record = self.record.lock();
        record.answers_show_what_was_written()?;
        record.versions_have_one_state()?;
        record.writes_have_growing_versions()?;
        record.lists_are_fresh()?;
        for life in 0..record.life {
            record.watches_agree(life)?;
            record.lists_are_as_watched(life)?;
        }
        for key in 0..KEYS {
            record.is_linearizable(key)?;
        }
        Ok(Summary {
            lives: record.life,
            calls: record.calls.len(),
            unknown: record.calls.iter().filter(|call| call.outcome == Outcome::Unknown).count(),
            lists: record.lists.len(),
            events: record.watches.iter().map(|watch| watch.events.len()).sum(),
        })
    }
}

impl Recorded {
    /// Whether the answer confirms a write and has the object.
    fn has_written(&self) -> bool {
        self.outcome == Outcome::Done && self.seen.is_some()
    }
}

impl Watched {
    /// The states at a version that the watch [covers](Self::covers).
    fn states_at(&self, version: u64) -> States {
        let mut states = self.states.clone();
        for told in self.events.iter().take_while(|told| told.version <= version) {
            match told.value {
                Some(value) => states.insert(told.key, Seen { version: told.version, value }),
                None => states.remove(&told.key),
            };
        }
        states
    }

    /// Whether the watch has sent all events up to this version, and began before it.
    fn covers(&self, version: u64) -> bool {
        self.start < version && version <= self.through
    }
}

impl Record {
    /// All states in answers and events.
    fn seen(&self) -> impl Iterator<Item = (usize, Seen)> {
        let calls = self.calls.iter().filter_map(|call| Some((call.key, call.seen?)));
        let lists = self.lists.iter().flat_map(|list| list.states.iter().map(|(key, seen)| (*key, *seen)));
        let told = self.watches.iter().flat_map(|watch| {
            let written = |told: &Told| Some((told.key, Seen { version: told.version, value: told.value? }));
            watch.events.iter().filter_map(written)
        });
        calls.chain(lists).chain(told)
    }

    fn answers_show_what_was_written(&self) -> Result<(), String> {
        let shows_another =
            |call: &&Recorded| call.has_written() && call.act.value() != call.seen.map(|seen| seen.value);
        match self.calls.iter().find(shows_another) {
            Some(call) => Err(format!("the answer shows another state than was written: {call:?}")),
            None => Ok(()),
        }
    }

    fn versions_have_one_state(&self) -> Result<(), String> {
        let mut states = BTreeMap::new();
        for (key, seen) in self.seen() {
            let known = *states.entry(seen.version).or_insert((key, seen.value));
            if known != (key, seen.value) {
                return Err(format!("version {} is {known:?}, and {:?}", seen.version, (key, seen.value)));
            }
        }
        Ok(())
    }

    /// The writes that were answered, by their ends, with the greatest version until each of them.
    fn greatest_versions(&self) -> Vec<(u64, u64)> {
        let written = self.calls.iter().filter(|call| call.has_written());
        let mut written: Vec<_> =
            written.filter_map(|call| Some((call.ended?, call.seen?.version))).collect();
        written.sort_unstable();
        let mut greatest = 0;
        for (_, version) in &mut written {
            greatest = greatest.max(*version);
            *version = greatest;
        }
        written
    }

    fn writes_have_growing_versions(&self) -> Result<(), String> {
        let greatest = self.greatest_versions();
        for call in self.calls.iter().filter(|call| call.has_written()) {
            let before = greatest_before(&greatest, call.began);
            if call.seen.is_some_and(|seen| seen.version <= before) {
                return Err(format!("a write of version {before} had ended before this one began: {call:?}"));
            }
        }
        Ok(())
    }

    fn lists_are_fresh(&self) -> Result<(), String> {
        let greatest = self.greatest_versions();
        for list in &self.lists {
            let before = greatest_before(&greatest, list.began);
            if list.version < before {
                return Err(format!(
                    "a write of version {before} had ended before this list began: {list:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that each watch sends the same events, once and in order.
    fn watches_agree(&self, life: usize) -> Result<(), String> {
        let watches: Vec<_> = self.watches.iter().filter(|watch| watch.life == life).collect();
        let mut log = BTreeMap::new();
        let told =
            watches.iter().flat_map(|watch| &watch.events).map(|told| (told.version, (told.key, told.value)));
        // Each state in an answer must also be in the events.
        let seen = self.calls.iter().filter_map(|call| Some((call.key, call.seen?)));
        let seen = seen.map(|(key, seen)| (seen.version, (key, Some(seen.value))));
        let seen = seen.filter(|(version, _)| watches.iter().any(|watch| watch.covers(*version)));
        for (version, state) in told.chain(seen) {
            let known = *log.entry(version).or_insert(state);
            if known != state {
                return Err(format!("at version {version} there is {known:?}, and also {state:?}"));
            }
        }
        for watch in watches {
            let expected: Vec<u64> = log.keys().copied().filter(|version| watch.covers(*version)).collect();
            let told: Vec<u64> = watch.events.iter().map(|told| told.version).collect();
            if told != expected {
                return Err(format!(
                    "a watch from version {} to {} told of {told:?}, and not of {expected:?}",
                    watch.start, watch.through
                ));
            }
        }
        Ok(())
    }

    /// Checks that each list has the states that the watches had at its version.
    fn lists_are_as_watched(&self, life: usize) -> Result<(), String> {
        for list in self.lists.iter().filter(|list| list.life == life) {
            for watch in self.watches.iter().filter(|watch| watch.life == life) {
                if watch.covers(list.version) && watch.states_at(list.version) != list.states {
                    return Err(format!(
                        "{list:?}, but by a watch from version {} on it was {:?}",
                        watch.start,
                        watch.states_at(list.version)
                    ));
                }
            }
        }
        Ok(())
    }

    fn is_linearizable(&self, key: usize) -> Result<(), String> {
        let mut recorded: Vec<_> = self.calls.iter().filter(|call| call.key == key).cloned().collect();
        recorded.sort_by_key(|call| call.began);
        self.make_certain(&mut recorded);
        let call = |call: &Recorded| Call {
            began: call.began,
            ended: call.ended.expect("the life of each call has ended"),
            is_certain: call.outcome != Outcome::Unknown,
            act: (call.act, call.outcome),
        };
        let calls: Vec<_> = recorded.iter().map(call).collect();
        linearize::<Register>(None, &calls).map_err(|stuck| tell(key, &recorded, &stuck))
    }

    /// Marks writes as done whose client got no answer, but that a watch has sent: they took effect before the event.
    fn make_certain(&self, calls: &mut [Recorded]) {
        let mut told_at = BTreeMap::<u64, u64>::new();
        for told in self.watches.iter().flat_map(|watch| &watch.events) {
            if let Some(value) = told.value {
                let at = told_at.entry(value).or_insert(told.at);
                *at = told.at.min(*at);
            }
        }
        for call in calls.iter_mut().filter(|call| call.outcome == Outcome::Unknown) {
            if let Some(at) = call.act.value().and_then(|value| told_at.get(&value)) {
                call.outcome = Outcome::Done;
                call.ended = call.ended.min(Some(*at));
            }
        }
    }
}

/// The greatest version of the writes that had ended before this moment.
fn greatest_before(greatest: &[(u64, u64)], moment: u64) -> u64 {
    let before = greatest.partition_point(|(ended, _)| *ended < moment);
    before.checked_sub(1).map_or(0, |last| greatest[last].1)
}

/// What leads to the calls that can't be explained.
fn tell(key: usize, calls: &[Recorded], stuck: &Stuck<Option<u64>>) -> String {
    const BEFORE: usize = 25;
    let Stuck { explained, next, states } = stuck;
    let mut text = format!(
        "object-{key}: no order explains more than {explained} calls. It may be {states:?} then, and next is one of those with a star:"
    );
    let (first, last) = (next.first().copied().unwrap_or(0), next.last().copied().unwrap_or(0));
    for (place, call) in calls.iter().enumerate().take(last + 3).skip(first.saturating_sub(BEFORE)) {
        let star = if next.contains(&place) { '*' } else { ' ' };
        let Recorded { client, began, ended, act, outcome, seen, .. } = call;
        let version = seen.map(|seen| seen.version);
        let _ =
            write!(text, "\n{star} client {client}, {began} to {ended:?}: {act:?} {outcome:?} {version:?}");
    }
    text
}
