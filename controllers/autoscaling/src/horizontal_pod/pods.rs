//! The pods of an autoscaler's target, and which of them count.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_informer::View;
use steersman_kinds::pod::{Phase, Readiness};
use steersman_kinds::pod_resources::PodDemand;
use steersman_kinds::pod_start::PodStart;
use steersman_kinds::shared::Shared;

use super::ScaledPod;

/// A pod that the target's selector selects.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    /// The pod's name.
    pub name: ArcStr,
    /// What the pod does.
    pub state: State,
    /// Whether the pod's phase is `Running`. It may be so although the pod is being deleted.
    pub is_running: bool,
    /// When the pod's kubelet took it on.
    pub started: Option<Time>,
    /// The condition `Ready`.
    pub ready: Option<Ready>,
    /// What the pod requests.
    pub demand: Shared<PodDemand>,
}

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The pod is being deleted, or has ended for good. Upstream counts pods that succeeded as running pods without metrics.
    Ending,
    /// Not all containers have been started yet.
    Pending,
    /// The pod runs.
    Running,
    /// Its phase is unknown or not set.
    Unknown,
}

/// The condition `Ready` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// Whether the pod is ready.
    pub status: ConditionStatus,
    /// When `status` last changed.
    pub since: Option<Time>,
}

/// The value of a metric of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// When the value was taken. `None` stands for the beginning of time.
    pub at: Option<Timestamp>,
    /// The time before `at` that the value describes.
    pub window: Duration,
    /// The value in thousandths.
    pub value: i64,
}

/// The values of a metric, by the names of pods.
pub(super) type Samples = HashMap<ArcStr, Sample>;

/// How long after its start a pod may not be ready to be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartUp {
    /// The time in which the processor usage of a pod counts only if the pod is ready, and has been for a whole window.
    pub cpu_initialization: Duration,
    /// The time in which a change of readiness counts as the initial one.
    pub initial_readiness: Duration,
}

/// The pods by how they count.
#[derive(Debug, Default)]
pub(super) struct Groups<'a> {
    /// The number of pods that are measured.
    pub ready: usize,
    /// The pods that are not ready yet, so that they are not measured.
    pub unready: Vec<&'a Pod>,
    /// The pods that have no value.
    pub missing: Vec<&'a Pod>,
    /// The pods that don't count.
    pub ignored: Vec<&'a Pod>,
}

impl Pod {
    /// The pod in the cache.
    pub(super) fn of(pod: &View<ScaledPod>) -> Self {
        let phase = &pod.get::<Phase>().phase;
        let state = match &**phase {
            _ if pod.meta().is_deleting() => State::Ending,
            "Failed" | "Succeeded" => State::Ending,
            "Pending" => State::Pending,
            "Running" => State::Running,
            _ => State::Unknown,
        };
        let ready = pod.get::<Readiness>().ready;
        Self {
            name: pod.meta().key.name.clone(),
            state,
            is_running: *phase == "Running",
            started: pod.get::<PodStart>().start_time,
            ready: ready.status.map(|status| Ready { status, since: ready.last_transition_time }),
            demand: pod.get::<Shared<PodDemand>>().clone(),
        }
    }

    /// Whether the pod is running and ready. As upstream, a pod that is being deleted may be.
    pub(super) fn is_ready(&self) -> bool {
        self.is_running && self.ready.is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    /// Whether the processor usage of the pod does not count yet. `now` is the current time.
    fn is_starting(&self, sample: &Sample, start_up: StartUp, now: Timestamp) -> bool {
        let (Some(ready), Some(started)) = (self.ready, self.started) else { return true };
        let is_unready = ready.status == ConditionStatus::False;
        let since = nanos(ready.since.map(Timestamp::from));
        if nanos(Some(started.into())) + length(start_up.cpu_initialization) > nanos(Some(now)) {
            return is_unready || nanos(sample.at) < since.saturating_add(length(sample.window));
        }
        is_unready && nanos(Some(started.into())) + length(start_up.initial_readiness) > since
    }
}

impl<'a> Groups<'a> {
    /// Groups the pods. `resource` is the measured resource; empty for other metrics.
    pub(super) fn of(
        pods: &'a [Pod],
        samples: &Samples,
        resource: &str,
        start_up: StartUp,
        now: Timestamp,
    ) -> Self {
        let mut groups = Self::default();
        for pod in pods {
            match (pod.state, samples.get(&pod.name)) {
                (State::Ending, _) => groups.ignored.push(pod),
                (State::Pending, _) => groups.unready.push(pod),
                (_, None) => groups.missing.push(pod),
                (_, Some(sample)) if resource == "cpu" && pod.is_starting(sample, start_up, now) => {
                    groups.unready.push(pod);
                }
                _ => groups.ready += 1,
            }
        }
        groups
    }
}

/// Nanoseconds since 1970. Go's zero time, which stands for times that are not set, comes before all others.
fn nanos(time: Option<Timestamp>) -> i128 {
    time.map_or(i128::MIN / 2, Timestamp::as_nanosecond)
}

fn length(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}
