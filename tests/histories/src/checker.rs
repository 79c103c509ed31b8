//! Whether calls that overlap can have taken place one after another.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993) with the memory of Lowe ("Testing for
//! linearizability", 2017): orders that differ, but have the same calls behind them and lead to the same state, are followed once.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// What was called, and when.
#[derive(Debug, Clone)]
pub struct Call<A> {
    /// A moment before the call took effect. Moments are numbers that grow; no two are the same.
    pub began: u64,
    /// A moment after which it can't have taken effect any more.
    pub ended: u64,
    /// Whether it is known that the call took effect.
    pub is_certain: bool,
    /// What it does, and what it was answered.
    pub act: A,
}

/// How an object behaves when nobody else uses it.
pub trait Model {
    /// What is done to it, with the answer.
    type Act;
    /// What it remembers.
    type State: Clone + Eq + Hash + Debug;

    /// The state after an act; `None` if the act would have been answered otherwise in this state.
    fn after(state: &Self::State, act: &Self::Act) -> Option<Self::State>;
}

/// Calls that can't have taken place in any order.
#[derive(Debug, PartialEq, Eq)]
pub struct Stuck<S> {
    /// How many of the certain calls can be explained at most.
    pub explained: usize,
    /// The certain calls that could come next, by their places among the calls. The answer of each is wrong.
    pub next: Vec<usize>,
    /// The states that the object may have then.
    pub states: Vec<S>,
}

/// The certain calls that an order already contains, by their places in [`Search::certain`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Done {
    /// All certain calls before this place.
    prefix: usize,
    /// Certain calls beyond it, in order.
    beyond: Vec<usize>,
}

/// What orders with the same certain calls behind them have led to: a state, and the ways there, each of which is the open calls
/// that took effect in it. A way that used more open calls can reach nothing that a way with fewer of them can't, and is dropped.
type Level<S> = HashMap<(Done, S), Vec<Vec<usize>>>;

struct Search<'a, M: Model> {
    calls: &'a [Call<M::Act>],
    /// The places of the certain calls, by their beginnings.
    certain: Vec<usize>,
    /// The places of the others, by their beginnings.
    open: Vec<usize>,
}

/// Looks for an order of the calls in which each takes effect between its beginning and its end, and is answered as the model says.
///
/// # Errors
/// No order explains the answers.
pub fn linearize<M: Model>(first: M::State, calls: &[Call<M::Act>]) -> Result<(), Stuck<M::State>> {
    let places = |certain: bool| {
        let mut places: Vec<usize> =
            (0..calls.len()).filter(|place| calls[*place].is_certain == certain).collect();
        places.sort_by_key(|place| calls[*place].began);
        places
    };
    Search::<M> { calls, certain: places(true), open: places(false) }.run(first)
}

impl<M: Model> Search<'_, M> {
    fn run(&self, first: M::State) -> Result<(), Stuck<M::State>> {
        let start = Done { prefix: 0, beyond: Vec::new() };
        let mut level: Level<M::State> = HashMap::from([((start, first), vec![Vec::new()])]);
        for explained in 0..self.certain.len() {
            self.try_open(&mut level);
            let mut next = Level::new();
            for ((done, state), ways) in &level {
                for place in self.candidates(done) {
                    let call = &self.calls[self.certain[place]];
                    let Some(after) = M::after(state, &call.act) else { continue };
                    let done = done.with(place);
                    let latest = self.latest_begin(&done);
                    for way in ways {
                        // No open call that had ended before can take effect any more, whether it did on this way or not.
                        let may = |place: &usize| self.calls[self.open[*place]].ended > latest;
                        let way = way.iter().copied().filter(may).collect();
                        insert(&mut next, (done.clone(), after.clone()), way);
                    }
                }
            }
            if next.is_empty() {
                return Err(self.stuck(explained, &level));
            }
            level = next;
        }
        Ok(())
    }

    /// The certain calls that are still to come, by their beginnings.
    fn to_come(&self, done: &Done) -> impl Iterator<Item = usize> {
        (done.prefix..self.certain.len()).filter(|place| done.beyond.binary_search(place).is_err())
    }

    /// The certain calls that may come next: those that began before any that is still to come had ended.
    fn candidates(&self, done: &Done) -> impl Iterator<Item = usize> {
        let mut end = u64::MAX;
        self.to_come(done).take_while(move |place| {
            let call = &self.calls[self.certain[*place]];
            let may = call.began < end;
            end = end.min(call.ended);
            may
        })
    }

    /// Adds what open calls lead to if they take effect now.
    fn try_open(&self, level: &mut Level<M::State>) {
        let mut found: Vec<(Done, M::State, Vec<usize>)> = Vec::new();
        for ((done, state), ways) in &*level {
            found.extend(ways.iter().map(|way| (done.clone(), state.clone(), way.clone())));
        }
        while let Some((done, state, way)) = found.pop() {
            for place in self.open_candidates(&done, &way) {
                let act = &self.calls[self.open[place]].act;
                let Some(after) = M::after(&state, act).filter(|after| *after != state) else { continue };
                let mut way = way.clone();
                way.insert(way.partition_point(|other| *other < place), place);
                if insert(level, (done.clone(), after.clone()), way.clone()) {
                    found.push((done.clone(), after, way));
                }
            }
        }
    }

    /// When the last of the certain calls that are behind began; zero if there is none.
    fn latest_begin(&self, done: &Done) -> u64 {
        let last = done.beyond.last().copied().or(done.prefix.checked_sub(1));
        last.map_or(0, |place| self.calls[self.certain[place]].began)
    }

    /// The open calls that may take effect next. An open call A may not if a certain call that is still to come ended before A began,
    /// or if A ended before a call began that is behind.
    fn open_candidates<'b>(&'b self, done: &Done, way: &'b [usize]) -> impl Iterator<Item = usize> + 'b {
        let earliest_end = self.earliest_end(done);
        let latest_open = way.last().map_or(0, |place| self.calls[self.open[*place]].began);
        let latest_begin = self.latest_begin(done).max(latest_open);
        (0..self.open.len()).filter(move |place| {
            let call = &self.calls[self.open[*place]];
            call.began < earliest_end && call.ended > latest_begin && way.binary_search(place).is_err()
        })
    }

    /// The earliest end of the certain calls that are still to come. Only the candidates matter: the others began after it.
    fn earliest_end(&self, done: &Done) -> u64 {
        let ends = self.candidates(done).map(|place| self.calls[self.certain[place]].ended);
        ends.min().unwrap_or(u64::MAX)
    }

    fn stuck(&self, explained: usize, level: &Level<M::State>) -> Stuck<M::State> {
        let (mut next, mut states) = (Vec::new(), Vec::new());
        for (done, state) in level.keys() {
            next.extend(self.candidates(done).map(|place| self.certain[place]));
            if !states.contains(state) {
                states.push(state.clone());
            }
        }
        next.sort_unstable();
        next.dedup();
        Stuck { explained, next, states }
    }
}

impl Done {
    fn with(&self, place: usize) -> Self {
        let mut done = self.clone();
        done.beyond.insert(done.beyond.partition_point(|other| *other < place), place);
        let joined =
            done.beyond.iter().enumerate().take_while(|(at, place)| **place == done.prefix + at).count();
        done.beyond.drain(..joined);
        done.prefix += joined;
        done
    }
}

/// Adds a way unless the level has a part of it, and removes the ways of which it is a part. Returns whether it was added.
fn insert<S: Eq + Hash>(level: &mut Level<S>, key: (Done, S), way: Vec<usize>) -> bool {
    let ways = level.entry(key).or_default();
    let is_part =
        |part: &[usize], whole: &[usize]| part.iter().all(|place| whole.binary_search(place).is_ok());
    if ways.iter().any(|other| is_part(other, &way)) {
        return false;
    }
    ways.retain(|other| !is_part(&way, other));
    ways.push(way);
    true
}
