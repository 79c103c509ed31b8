//! Observations in, steps out. One file for each part of the policy.

mod claims;
mod history;
mod managing;
mod placement;
mod property;
mod rolling;
mod status;
mod template;

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::{ArcStr, Meta, ObjectKey, Time, Uid};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::Plan;
use steersman_informer::wire::IntOrString;

use super::history::Revision;
use super::observed::{Done, Observed, Set, UpdateStrategy};
use super::placement::Verdict;
use super::plan::{Cause, Step, plan};
use super::pods::{End, Pod};
use super::status::Status;

const NOW: i64 = 1_000_000;
/// The hash of the current revision.
const NEW: &str = "new";
/// The hash of the revision before.
const OLD: &str = "old";

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Time {
    ago(0)
}

/// A pod of the current revision that is available on its node.
fn pod(name: &str, node: &str) -> Pod {
    Pod {
        key: ObjectKey::new("ns", name),
        uid: Uid::from(name),
        claim: Claim::Owned,
        hash: NEW.into(),
        generation: ArcStr::default(),
        node: node.into(),
        bound: true,
        end: None,
        deleting: false,
        ready: Some(Some(ago(100))),
        created: Some(ago(100)),
    }
}

/// A pod of the revision before that is available on its node.
fn old(name: &str, node: &str) -> Pod {
    Pod { hash: OLD.into(), created: Some(ago(1000)), ..pod(name, node) }
}

fn unready(pod: Pod) -> Pod {
    Pod { ready: None, ..pod }
}

fn deleting(pod: Pod) -> Pod {
    Pod { deleting: true, ..pod }
}

fn failed(pod: Pod) -> Pod {
    Pod { end: Some(End::Failed), ..unready(pod) }
}

/// A pod that the scheduler has not bound.
fn pending(pod: Pod) -> Pod {
    Pod { bound: false, ..unready(pod) }
}

fn revision(hash: &str, number: i64, is_current: bool) -> Revision {
    let name = format!("set-{hash}");
    let (key, uid) = (ObjectKey::new("ns", name.as_str()), Uid::from(name.as_str()));
    Revision { key, uid, claim: Claim::Owned, hash: hash.into(), number, is_current }
}

fn number(value: i32) -> Option<IntOrString> {
    Some(IntOrString::Int(value))
}

fn percent(value: &str) -> Option<IntOrString> {
    Some(IntOrString::String(value.into()))
}

fn by_unavailable(max_unavailable: Option<IntOrString>) -> UpdateStrategy {
    UpdateStrategy::RollingUpdate { max_unavailable, max_surge: number(0) }
}

fn by_surge(max_surge: Option<IntOrString>) -> UpdateStrategy {
    UpdateStrategy::RollingUpdate { max_unavailable: number(0), max_surge }
}

/// A DaemonSet with these pods that is wanted on these nodes, and that updates one node at a time. Its status is as the
/// controller would write it once nothing else is to do.
fn set(nodes: &[&str], pods: Vec<Pod>) -> Observed {
    let meta = Meta { key: ObjectKey::new("ns", "set"), uid: "set".into(), generation: 3, ..Meta::default() };
    Observed {
        set: Set { meta, strategy: by_unavailable(number(1)), history_limit: 10, ..Set::default() },
        nodes: nodes.iter().map(|node| ((*node).into(), Verdict::Run)).collect(),
        pods,
        revisions: vec![revision(OLD, 1, false), revision(NEW, 2, true)],
        back_off: HashMap::new(),
        grounds: Grounds::Sure,
        done: Done::default(),
    }
}

impl Observed {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A node with another verdict than `Run`.
    fn node(self, name: &str, verdict: Verdict) -> Self {
        self.with(|observed| observed.nodes.push((name.into(), verdict)))
    }

    fn strategy(self, strategy: UpdateStrategy) -> Self {
        self.with(|observed| observed.set.strategy = strategy)
    }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Act(batch) => batch.steps,
        Plan::Done { .. } => Vec::new(),
    }
}

/// The pods that all plans of a sync create and delete if each step succeeds: `+node` and `-pod`, in order.
fn work(observed: &Observed) -> Vec<String> {
    let mut observed = observed.clone();
    let mut work = Vec::new();
    for _ in 0..10 {
        let steps = steps(&observed);
        if steps.is_empty() {
            return work;
        }
        for step in steps {
            use super::plan::Outcome;
            use steersman_controller::controller::StepResult;
            let outcome = match &step {
                Step::Create { node, hash, .. } => {
                    work.push(format!("+{node}"));
                    let made = Pod { hash: hash.clone(), created: Some(now()), ..pending(pod("made", node)) };
                    Outcome::Created(Box::new(made))
                }
                Step::Delete { pod, .. } => {
                    work.push(format!("-{}", pod.key.name));
                    Outcome::Done
                }
                Step::WriteStatus(_) => Outcome::Written(steersman_api::ResourceVersion::default()),
                other => panic!("{other:?}"),
            };
            observed.absorb(step, StepResult::Done(outcome));
        }
    }
    panic!("the sync never ends: {work:?}")
}
