//! What is done about the pods that a set wants.

use std::collections::HashMap;

use steersman_api::Time;

use super::observed::{Observed, Order};
use super::plan::{Next, PodRef, Step};
use super::pods::{Phase, Pod};
use super::steps::{Goal, PodStep, Which};

/// What is to be done about one pod.
enum Verdict {
    /// Nothing: the pod is as it should be.
    Right,
    /// Nothing yet. Pods after it must wait, where pods are ordered.
    Wait,
    /// This.
    Do(Step),
}

impl Observed {
    /// Creates the pods that are missing, replaces those that have ended, and gives the others their identity and their
    /// claims. Upstream's `processReplica`, for each pod.
    pub(super) fn replicas(&self, now: Time) -> Next {
        let by_ordinal: HashMap<i32, &Pod> =
            self.numbered().filter_map(|pod| Some((pod.ordinal?, pod))).collect();
        let wanted = self.set.start..self.set.end();
        let verdicts = wanted.map(|ordinal| self.replica(ordinal, by_ordinal.get(&ordinal).copied(), now));
        match self.set.order {
            Order::Ready => {
                for verdict in verdicts {
                    match verdict {
                        Verdict::Right => {}
                        Verdict::Wait => return Next::Blocked,
                        Verdict::Do(step) => return Next::Steps(vec![step]),
                    }
                }
                Next::Nothing
            }
            Order::Parallel => Next::steps(verdicts.filter_map(|verdict| match verdict {
                Verdict::Do(step) => Some(step),
                Verdict::Right | Verdict::Wait => None,
            })),
        }
    }

    fn replica(&self, ordinal: i32, pod: Option<&Pod>, now: Time) -> Verdict {
        let Some(pod) = pod else {
            if self.has_stale_claim(ordinal) {
                return Verdict::Wait;
            }
            let current = self.set.starts_at_current(ordinal);
            let which = if current { Which::Current } else { Which::Update };
            return self.once(self.create(ordinal, which)).unwrap_or(Verdict::Wait);
        };
        if pod.has_ended() {
            let delete = (!pod.deleting).then(|| self.delete(ordinal, pod));
            return delete.and_then(|step| self.once(step)).unwrap_or(Verdict::Wait);
        }
        if pod.phase == Phase::Pending
            && let Some(verdict) = self.once(self.complete(ordinal, pod))
        {
            return verdict;
        }
        if let Some(verdict) = self.repair(ordinal, pod) {
            return verdict;
        }
        let is_ready =
            !pod.deleting && pod.is_running_and_ready() && pod.is_available(self.set.min_ready, now);
        if !is_ready && self.set.order == Order::Ready {
            return Verdict::Wait;
        }
        self.once(self.update(ordinal, pod)).unwrap_or(Verdict::Right)
    }

    /// A step, unless it has no writes or was tried in this sync.
    fn once(&self, step: PodStep) -> Option<Verdict> {
        let is_new = !step.writes.is_empty() && !self.done.tried.contains(&(step.goal, step.ordinal));
        is_new.then(|| Verdict::Do(Step::Pod(step)))
    }

    /// Deletes a pod of a broken revision that was never ready: see [`super::repair`].
    fn repair(&self, ordinal: i32, pod: &Pod) -> Option<Verdict> {
        if !self.may_be_broken(ordinal, pod) {
            return None;
        }
        match self.done.ever_ready.get(&pod.uid) {
            None => Some(Verdict::Do(Step::Inspect(PodRef::of(pod)))),
            Some(true) => None,
            Some(false) => self.once(self.delete(ordinal, pod)),
        }
    }

    /// The steps of these, each unless it has no writes or was tried in this sync.
    pub(super) fn untried(&self, steps: impl Iterator<Item = PodStep>) -> Vec<Step> {
        let is_new =
            |step: &PodStep| !step.writes.is_empty() && !self.done.tried.contains(&(step.goal, step.ordinal));
        steps.filter(is_new).map(Step::Pod).collect()
    }

    /// Whether a step of this goal was tried for the ordinal in this sync.
    pub(super) fn was_tried(&self, goal: Goal, ordinal: i32) -> bool {
        self.done.tried.contains(&(goal, ordinal))
    }
}
