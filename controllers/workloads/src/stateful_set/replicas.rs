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
    /// This. The pod is available meanwhile, so that the pods after it need not wait.
    Amend(Step),
    /// This. Pods after it must wait, where pods are ordered.
    Do(Step),
}

impl Observed {
    /// Creates the pods that are missing, replaces those that have ended, and gives the others their identity and their
    /// claims. Upstream's `processReplica`, for each pod.
    pub(super) fn replicas(&self, now: Time) -> Next {
        let by_ordinal: HashMap<i32, &Pod> =
            self.numbered().filter_map(|pod| Some((pod.ordinal?, pod))).collect();
        let ordinals = self.ordinals().into_iter();
        let verdicts = ordinals.map(|ordinal| self.replica(ordinal, by_ordinal.get(&ordinal).copied(), now));
        let mut steps = Vec::new();
        for verdict in verdicts {
            match (self.set.order, verdict) {
                (_, Verdict::Right) | (Order::Parallel, Verdict::Wait) => {}
                (_, Verdict::Amend(step)) | (Order::Parallel, Verdict::Do(step)) => steps.push(step),
                (Order::Ready, Verdict::Do(step)) if steps.is_empty() => return Next::Steps(vec![step]),
                (Order::Ready, Verdict::Wait) if steps.is_empty() => return Next::Blocked,
                // The earlier pods come first.
                (Order::Ready, Verdict::Do(_) | Verdict::Wait) => break,
            }
        }
        Next::steps(steps.into_iter())
    }

    fn replica(&self, ordinal: i32, pod: Option<&Pod>, now: Time) -> Verdict {
        let Some(pod) = pod else {
            if self.has_stale_claim(ordinal) {
                return Verdict::Wait;
            }
            let current = self.set.starts_at_current(ordinal);
            let which = if current { Which::Current } else { Which::Update };
            return self.once(self.create(ordinal, which)).map_or(Verdict::Wait, Verdict::Do);
        };
        if pod.has_ended() {
            let delete = (!pod.deleting).then(|| self.delete(ordinal, pod));
            return delete.and_then(|step| self.once(step)).map_or(Verdict::Wait, Verdict::Do);
        }
        if pod.phase == Phase::Pending
            && let Some(step) = self.once(self.complete(ordinal, pod))
        {
            return Verdict::Do(step);
        }
        if let Some(verdict) = self.repair(ordinal, pod) {
            return verdict;
        }
        let is_ready =
            !pod.deleting && pod.is_running_and_ready() && pod.is_available(self.set.min_ready, now);
        if !is_ready && self.set.order == Order::Ready {
            return Verdict::Wait;
        }
        self.once(self.update(ordinal, pod)).map_or(Verdict::Right, Verdict::Amend)
    }

    /// A step, unless it has no writes or was tried in this sync.
    pub(super) fn once(&self, step: PodStep) -> Option<Step> {
        let is_new = !step.writes.is_empty() && !self.was_tried(step.goal, step.ordinal);
        is_new.then_some(Step::Pod(step))
    }

    /// Deletes a pod of a broken revision that was never ready: see [`super::repair`].
    fn repair(&self, ordinal: i32, pod: &Pod) -> Option<Verdict> {
        if !self.may_be_broken(ordinal, pod) {
            return None;
        }
        match self.done.ever_ready.get(&pod.uid) {
            None => Some(Verdict::Do(Step::Inspect(PodRef::of(pod)))),
            Some(true) => None,
            Some(false) => self.once(self.delete(ordinal, pod)).map(Verdict::Do),
        }
    }

    /// Whether a step of this goal was tried for the ordinal in this sync.
    pub(super) fn was_tried(&self, goal: Goal, ordinal: i32) -> bool {
        self.done.tried.contains(&(goal, ordinal))
    }
}
