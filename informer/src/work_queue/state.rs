//! Which keys are where: the rules of the queue, without lock, clock or task.

use std::cmp::Reverse;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;

use super::delaying::Waiting;
use super::metrics::{QueueMetrics, Snapshot};
use super::ordered::OrderedKeys;
use super::{Key, Priority};

/// Where every key is. `queue`, `processing` and `parked` hold no key in common; `waiting` is independent of them.
///
/// Upstream's `dirty` set, the keys that still need work, is here `queue` together with those in `processing` that are
/// marked `again`; so it cannot disagree with them.
pub(super) struct State<K, P> {
    /// Keys for the next worker. A key enters by `add`, `wake` or as its time comes, and leaves by `take` alone.
    queue: OrderedKeys<K, Reverse<P>, Queued>,
    /// Keys with a worker, from `take` to `finish`.
    processing: HashMap<K, InWork<P>>,
    /// Keys to be added at a moment. Cleared by `shut_down`.
    waiting: Waiting<K, P>,
    /// Keys put aside, with the moment at which they come back by themselves. A key enters by `finish` and leaves by
    /// `add`, `wake` or at that moment. Cleared by `shut_down`.
    parked: Waiting<K, P>,
    phase: Phase,
    /// Keys put into `queue` since the caller last took this number: so many workers should look.
    pushed: usize,
    metrics: QueueMetrics,
}

struct Queued {
    /// When it was added (or due): what `workqueue_queue_duration_seconds` counts from.
    since: Instant,
    /// See [`Handout::park_deadline`].
    park_deadline: Option<Instant>,
}

struct InWork<P> {
    /// When it was handed out.
    since: Instant,
    /// It was added since: it goes back to the queue afterwards.
    again: Option<Again<P>>,
    /// It was woken since: to park it would be to miss that.
    woken: bool,
}

struct Again<P> {
    since: Instant,
    priority: P,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Takes in and hands out. Left by `shut_down` and `drain`.
    Open,
    /// Hands out what is left, and somebody waits for the end. Left by `shut_down`.
    Draining,
    /// Hands out what is left; nobody waits. Left by `drain`.
    ShutDown,
}

/// What a worker gets.
pub(super) struct Handout<K, P> {
    pub(super) key: K,
    pub(super) priority: P,
    /// If its last work ended by parking: the moment up to which it may be parked in all.
    pub(super) park_deadline: Option<Instant>,
}

/// What there is for a worker now.
pub(super) enum Next<K, P> {
    Work(Handout<K, P>),
    /// Nothing before this moment, if nobody adds.
    Nothing(Option<Instant>),
    /// Nothing, and nothing will come.
    End,
}

/// How the work on a key ended.
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

    /// A parked key goes to the queue; one in work remembers; any other has nothing to be woken from.
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

    /// Moves every key whose time has come to the queue. Its turn counts from that time, not from when anybody looked.
    pub(super) fn release_due(&mut self, now: Instant) {
        while let Some((key, at, priority)) = self.waiting.pop_due(now) {
            self.add(key, priority, at);
        }
        while let Some((key, at, priority)) = self.parked.pop_due(now) {
            self.metrics.added();
            self.push(key, priority, Queued { since: at, park_deadline: Some(at) });
        }
    }

    /// When `release_due` has something to do next.
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

    /// Whether there is nothing to wait for before a drain is over.
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
