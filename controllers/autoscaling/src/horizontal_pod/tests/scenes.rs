//! Pods and metrics for tables.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::Time;
use steersman_api::condition::ConditionStatus;
use steersman_informer::wire::FieldValue;
use steersman_kinds::pod_resources::PodDemand;
use steersman_kinds::shared::Shared;

use super::super::calculator::Scene;
use super::super::pods::{Pod, Ready, Sample, Samples, StartUp, State};
use super::super::tolerance::Tolerances;

/// The current time, in seconds.
pub(super) const NOW: i64 = 1_000_000;
/// How new pods count in the tables.
pub(super) const START_UP: StartUp =
    StartUp { cpu_initialization: Duration::from_secs(60 * 2), initial_readiness: Duration::from_secs(10) };

pub(super) fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

pub(super) fn now() -> Timestamp {
    ago(0).into()
}

/// What a pod requests whose spec has these fields.
pub(super) fn demand(spec: Value) -> Shared<PodDemand> {
    Shared::new(PodDemand::from_json(spec).unwrap())
}

/// A running pod that started and became ready four minutes ago. Its containers `main` and `side` request a processor each.
pub(super) fn pod(name: &str) -> Pod {
    let request = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let containers = json!([{"name": "main", "resources": request}, {"name": "side", "resources": request}]);
    Pod {
        name: name.into(),
        state: State::Running,
        is_running: true,
        started: Some(ago(240)),
        ready: Some(Ready { status: ConditionStatus::True, since: Some(ago(240)) }),
        demand: demand(json!({"containers": containers})),
    }
}

/// The same pod in another state.
pub(super) trait Like: Sized {
    /// It has never been ready.
    fn unready(self) -> Self;
    /// It started just now, and is ready.
    fn newly(self) -> Self;
    /// It is in this state.
    fn is(self, state: State) -> Self;
    /// Each of its two containers requests this much of a processor.
    fn requests(self, cpu: &str) -> Self;
}

impl Like for Pod {
    fn unready(self) -> Self {
        let since = self.started;
        Self { ready: Some(Ready { status: ConditionStatus::False, since }), ..self }
    }

    fn newly(self) -> Self {
        let ready = self.ready.map(|ready| Ready { since: Some(ago(0)), ..ready });
        Self { started: Some(ago(0)), ready, ..self }
    }

    fn is(self, state: State) -> Self {
        Self { state, is_running: state == State::Running, ..self }
    }

    fn requests(self, cpu: &str) -> Self {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        Self { demand: demand(json!({"containers": [container, container]})), ..self }
    }
}

/// The pods `p0`, `p1` and so on, with these changes.
pub(super) fn pods(changes: &[fn(Pod) -> Pod]) -> Vec<Pod> {
    changes.iter().enumerate().map(|(at, change)| change(pod(&format!("p{at}")))).collect()
}

/// The values of the pods `p0`, `p1` and so on, measured just now over a minute.
pub(super) fn samples(values: &[i64]) -> Samples {
    let sample = |value: &i64| Sample { at: Some(now()), window: Duration::from_secs(60), value: *value };
    values.iter().enumerate().map(|(at, value)| (format!("p{at}").into(), sample(value))).collect()
}

/// A target with this number of replicas and these pods.
pub(super) fn scene(wanted: i32, pods: &[Pod]) -> Scene<'_> {
    let tolerances = Tolerances { down: 0.1, up: 0.1 };
    Scene { pods, wanted, current: wanted, tolerances, start_up: START_UP, now: now() }
}
