//! The rules of the queue as a plain state, without lock, clock or task.

use std::cmp::Reverse;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use super::delaying::Waiting;
use super::metrics::{QueueMetrics, Snapshot};
use super::ordered::OrderedKeys;
use super::{Key, Priority};

/// All keys of a queue. `queue`, `processing` and `parked` have no key in common; `waiting` is independent of them.
///
/// Upstream's `dirty` set, the keys that still need work, is here `queue` together with the keys in `processing` that are
/// marked `again`.
pub(super) struct State<K, P> {
    /// The queued keys. A key enters by `add`, by `wake` or when it is due, and leaves by `take` alone.
    queue: OrderedKeys<K, Reverse<P>, Queued>,
    /// The keys that workers have, from `take` to `finish`.
    processing: HashMap<K, InWork<P>>,
    /// The delayed keys, with the times at which they are added. Cleared by `shut_down`.
    waiting: Waiting<K, P>,
    /// The parked keys, with their deadlines. A key enters by `finish` and leaves by `add`, by `wake` or at its deadline. Cleared
    /// by `shut_down`.
    parked: Waiting<K, P>,
    phase: Phase,
    /// The number of keys that were queued since the caller last took this number. So many workers should be woken.
    pushed: usize,
    metrics: QueueMetrics,
}

struct Queued {
    /// When the key was added or due: `workqueue_queue_duration_seconds` counts from this time.
    since: Instant,
    /// See [`Handout::park_deadline`].
    park_deadline: Option<Instant>,
}

struct InWork<P> {
    /// When the worker got the key.
    since: Instant,
    /// The key was added since, so it is queued again afterwards.
    again: Option<Again<P>>,
    /// The key was woken since, so it must not be parked.
    woken: bool,
}

struct Again<P> {
    since: Instant,
    priority: P,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Accepts keys and gives them to workers. Left by `shut_down` and `drain`.
    Open,
    /// Gives the remaining keys to workers, while a caller waits for the end. Left by `shut_down`.
    Draining,
    /// Gives the remaining keys to workers; no caller waits. Left by `drain`.
    ShutDown,
}

/// A key as a worker gets it.
pub(super) struct Handout<K, P> {
    pub(super) key: K,
    pub(super) priority: P,
    /// The time until which the key may be parked in all, if its worker parked it last time.
    pub(super) park_deadline: Option<Instant>,
}

/// What a worker finds in the queue.
pub(super) enum Next<K, P> {
    Work(Handout<K, P>),
    /// No key. The next one is due at this time, unless one is added before.
    Nothing(Option<Instant>),
    /// No key, and none will come.
    End,
}

/// How a worker ended its work on a key.
pub(super) enum End<P> {
    Done,
    Parked { until: Instant, priority: P },
}

impl<K: Key, P: Priority> State<K, P> {
    pub(super) fn new(metrics: QueueMetrics) -> Self {
        Self {
            queue: OrderedKeys::default(),
            processing: HashMap::new(),
            waiting: Waiting::default(),
            parked: Waiting::default(),
            phase: Phase::Open,
            pushed: 0,
            metrics,
        }
    }

    pub(super) fn add(&mut self, key: K, priority: P, since: Instant) {
        if self.phase != Phase::Open {
            return;
        }
        if let Some(work) = self.processing.get_mut(&key) {
            match &mut work.again {
                Some(again) if again.priority < priority => again.priority = priority,
                Some(_) => {}
                None => {
                    work.again = Some(Again { since, priority });
                    self.metrics.added();
                }
            }
        } else if let Some((deadline, parked)) = self.parked.remove(&key) {
            self.metrics.added();
            self.push(key, priority.max(parked), Queued { since, park_deadline: Some(deadline) });
        } else if let Some((Reverse(known), queued)) = self.queue.get(&key) {
            if *known < priority {
                let queued = Queued { ..*queued };
                self.queue.insert(key, Reverse(priority), queued);
            }
        } else {
            self.metrics.added();
            self.push(key, priority, Queued { since, park_deadline: None });
        }
    }

    pub(super) fn add_at(&mut self, key: K, priority: P, at: Instant) {
        if self.phase == Phase::Open {
            self.waiting.put(key, at, priority);
        }
    }

    /// Queues a parked key, and marks a key that a worker has. Ignores other keys.
    pub(super) fn wake(&mut self, key: &K, now: Instant) {
        if let Some(work) = self.processing.get_mut(key) {
            work.woken = true;
        } else if let Some((deadline, priority)) = self.parked.remove(key) {
            self.metrics.added();
            self.push(key.clone(), priority, Queued { since: now, park_deadline: Some(deadline) });
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> Next<K, P> {
        let Some((key, Reverse(priority), queued)) = self.queue.pop_first() else {
            return match self.phase {
                Phase::Open => Next::Nothing(self.next_due()),
                Phase::Draining | Phase::ShutDown => Next::End,
            };
        };
        self.metrics.taken(now - queued.since);
        self.processing.insert(key.clone(), InWork { since: now, again: None, woken: false });
        Next::Work(Handout { key, priority, park_deadline: queued.park_deadline })
    }

    pub(super) fn finish(&mut self, key: K, end: End<P>, now: Instant) {
        let work = self.processing.remove(&key).expect("a key that was handed out must be in processing");
        self.metrics.worked(now - work.since);
        match (work.again, end) {
            (Some(again), End::Done) => {
                self.push(key, again.priority, Queued { since: again.since, park_deadline: None });
            }
            (Some(again), End::Parked { until, priority }) => {
                let priority = again.priority.max(priority);
                self.push(key, priority, Queued { since: again.since, park_deadline: Some(until) });
            }
            (None, End::Parked { until, priority }) if self.phase == Phase::Open => {
                if work.woken {
                    self.metrics.added();
                    self.push(key, priority, Queued { since: now, park_deadline: Some(until) });
                } else {
                    self.parked.put(key, until, priority);
                }
            }
            (None, End::Done | End::Parked { .. }) => {}
        }
    }

    /// Queues every key that is due. Its time in the queue counts from when it was due, not from this call.
    pub(super) fn release_due(&mut self, now: Instant) {
        while let Some((key, at, priority)) = self.waiting.pop_due(now) {
            self.add(key, priority, at);
        }
        while let Some((key, at, priority)) = self.parked.pop_due(now) {
            self.metrics.added();
            self.push(key, priority, Queued { since: at, park_deadline: Some(at) });
        }
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.next().into_iter().chain(self.parked.next()).min()
    }

    fn push(&mut self, key: K, priority: P, queued: Queued) {
        self.queue.insert(key, Reverse(priority), queued);
        self.pushed += 1;
    }

    pub(super) fn take_pushed(&mut self) -> usize {
        std::mem::take(&mut self.pushed)
    }

    pub(super) fn shut_down(&mut self) {
        self.close(Phase::ShutDown);
    }

    pub(super) fn drain(&mut self) {
        self.close(Phase::Draining);
    }

    fn close(&mut self, phase: Phase) {
        self.phase = phase;
        self.waiting = Waiting::default();
        self.parked = Waiting::default();
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Whether a drain is over: no key is queued or with a worker.
    pub(super) fn is_drained(&self) -> bool {
        self.phase == Phase::ShutDown || (self.queue.len() == 0 && self.processing.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn parked_len(&self) -> usize {
        self.parked.len()
    }

    /// The delayed keys, the first that is due first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&K, Instant)> {
        self.waiting.iter()
    }

    /// The parked keys, the first whose deadline comes first.
    pub(super) fn parked(&self) -> impl Iterator<Item = (&K, Instant)> {
        self.parked.iter()
    }

    pub(super) fn longest_running(&self, now: Instant) -> Option<(K, Duration)> {
        let (key, work) = self.processing.iter().min_by_key(|(_, work)| work.since)?;
        Some((key.clone(), now - work.since))
    }

    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let again = self.processing.values().filter(|work| work.again.is_some()).count();
        let running = self.processing.values().map(|work| now - work.since);
        Snapshot {
            depth: self.queue.len() + again,
            unfinished: running.clone().sum(),
            longest: running.max().unwrap_or_default(),
        }
    }
}
