//! The pods that must leave their nodes, by the time at which they must.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use steersman_api::{ObjectKey, Uid};
use tokio::time::Instant;

use super::verdict::{Since, Verdict};

/// One heap of timers for all pods on tainted nodes.
///
/// As in upstream, a timer that runs is never changed: other taints and tolerations only cancel it.
#[derive(Debug, Default)]
pub struct Timers {
    pods: HashMap<ObjectKey, Entry>,
    /// Each pod whose state is [`State::Waiting`], and outdated entries, which `due` drops.
    heap: BinaryHeap<Reverse<(Instant, ObjectKey)>>,
}

#[derive(Debug)]
struct Entry {
    uid: Uid,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The pod came to its node at this instant, and was not decided on yet.
    Arrived(Instant),
    /// The pod tolerates all taints for ever.
    Stays,
    /// The pod leaves at `until`. `attempts` deletions have failed; `due` is when the first was due.
    Waiting { until: Instant, due: Instant, attempts: u32 },
    /// The pod is being deleted.
    Leaving { due: Instant, attempts: u32 },
}

/// A pod that must leave now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The pod's key.
    pub pod: ObjectKey,
    /// The pod's uid.
    pub uid: Uid,
    /// When the pod had to leave.
    pub at: Instant,
    /// The number of earlier attempts, which failed.
    pub attempts: u32,
}

/// Whether a change cancelled a timer, which the controller reports by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A timer was cancelled.
    Yes,
    /// No timer ran.
    No,
}

/// The longest wait between two attempts to delete a pod.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Timers {
    /// Records that a pod has just come to its node.
    pub fn arrived(&mut self, pod: &ObjectKey, uid: &Uid, now: Instant) {
        self.set(pod, uid, State::Arrived(now));
    }

    /// Until when the pod was surely exempt from its node's taints, if that is known.
    pub fn exempt_until(&self, pod: &ObjectKey, uid: &Uid, now: Instant) -> Option<Since> {
        let entry = self.pods.get(pod).filter(|entry| entry.uid == *uid)?;
        match entry.state {
            State::Arrived(at) => Some(Since::instant(at)),
            State::Stays => Some(Since::instant(now)),
            State::Waiting { .. } | State::Leaving { .. } => None,
        }
    }

    /// Forgets a pod that is gone, if it has no timer. Returns whether a timer must be cancelled.
    pub fn forget(&mut self, pod: &ObjectKey) -> bool {
        match self.pods.get(pod).map(|entry| entry.state) {
            None => false,
            Some(State::Waiting { .. } | State::Leaving { .. }) => true,
            Some(State::Arrived(_) | State::Stays) => {
                self.pods.remove(pod);
                false
            }
        }
    }

    /// Whether surely no timer runs: timers that were cancelled may still count.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether anything is known of a pod.
    pub fn knows(&self, pod: &ObjectKey) -> bool {
        self.pods.contains_key(pod)
    }

    /// Follows a verdict on a pod.
    pub fn apply(&mut self, pod: &ObjectKey, uid: &Uid, verdict: Verdict, now: Instant) -> Cancelled {
        let mut cancelled = Cancelled::No;
        if self.pods.get(pod).is_some_and(|entry| entry.uid != *uid) {
            cancelled = self.remove(pod);
        }
        let state = self.pods.get(pod).map(|entry| entry.state);
        let is_waiting = matches!(state, Some(State::Waiting { attempts: 0, .. }));
        match verdict {
            Verdict::Untainted => return or(self.remove(pod), cancelled),
            Verdict::Stays => {
                self.set(pod, uid, State::Stays);
                if is_waiting {
                    cancelled = Cancelled::Yes;
                }
            }
            Verdict::LeavesNow => match state {
                Some(State::Leaving { .. } | State::Waiting { attempts: 1.., .. }) => {}
                Some(State::Waiting { until, .. }) if until <= now => {}
                _ => {
                    self.wait(pod, uid, now);
                    if is_waiting {
                        cancelled = Cancelled::Yes;
                    }
                }
            },
            Verdict::LeavesAt(at) => match state {
                Some(State::Leaving { .. } | State::Waiting { .. }) => {}
                _ => self.wait(pod, uid, at),
            },
        }
        cancelled
    }

    /// Forgets a pod: it is gone, or its node has no such taint any more.
    pub fn remove(&mut self, pod: &ObjectKey) -> Cancelled {
        match self.pods.remove(pod).map(|entry| entry.state) {
            Some(State::Waiting { attempts: 0, .. }) => Cancelled::Yes,
            _ => Cancelled::No,
        }
    }

    /// Cancels all timers: another process may have led meanwhile.
    pub fn reset(&mut self) {
        self.heap.clear();
        self.pods.retain(|_, entry| matches!(entry.state, State::Arrived(_) | State::Stays));
    }

    /// When the next pod must leave. May be too early by an outdated entry.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next pod that must leave, which counts as being deleted from now on.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        while self.next().is_some_and(|at| at <= now) {
            let Reverse((at, pod)) = self.heap.pop()?;
            let Some(entry) = self.pods.get_mut(&pod) else { continue };
            if let State::Waiting { until, due, attempts } = entry.state
                && until == at
            {
                entry.state = State::Leaving { due, attempts };
                return Some(Due { uid: entry.uid.clone(), pod, at: due, attempts });
            }
        }
        None
    }

    /// Records that a due pod has been deleted.
    pub fn deleted(&mut self, due: &Due) {
        if self.is_leaving(due) {
            self.pods.remove(&due.pod);
        }
    }

    /// Records that the deletion of a due pod failed. It is due again after a wait, which doubles from one second.
    pub fn failed(&mut self, due: &Due, now: Instant) {
        if self.is_leaving(due) {
            let wait = Duration::from_secs(1 << due.attempts.min(6)).min(LONGEST_WAIT);
            let (until, attempts) = (now + wait, due.attempts.saturating_add(1));
            self.set(&due.pod, &due.uid, State::Waiting { until, due: due.at, attempts });
            self.heap.push(Reverse((until, due.pod.clone())));
        }
    }

    fn is_leaving(&self, due: &Due) -> bool {
        let entry = self.pods.get(&due.pod);
        entry.is_some_and(|entry| entry.uid == due.uid && matches!(entry.state, State::Leaving { .. }))
    }

    fn wait(&mut self, pod: &ObjectKey, uid: &Uid, at: Instant) {
        self.set(pod, uid, State::Waiting { until: at, due: at, attempts: 0 });
        self.heap.push(Reverse((at, pod.clone())));
        self.sweep();
    }

    fn set(&mut self, pod: &ObjectKey, uid: &Uid, state: State) {
        self.pods.insert(pod.clone(), Entry { uid: uid.clone(), state });
    }

    /// Drops outdated entries once they are the most.
    fn sweep(&mut self) {
        if self.heap.len() > 64 + 2 * self.pods.len() {
            let pods = &self.pods;
            self.heap.retain(|Reverse((at, pod))| {
                matches!(pods.get(pod), Some(Entry { state: State::Waiting { until, .. }, .. }) if until == at)
            });
        }
    }
}

fn or(one: Cancelled, other: Cancelled) -> Cancelled {
    if one == Cancelled::Yes { one } else { other }
}
