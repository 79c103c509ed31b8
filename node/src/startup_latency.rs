//! How long pods take from their creation until all their containers run (`PodStartupLatencyTracker` upstream).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{Gauge, Histogram, HistogramOpts, Registry};

use crate::restart_policy::is_restartable_init_container;
use crate::status_manager::conditions::is_terminal;

/// In seconds: narrow where objectives are, and up to an hour.
const BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Watches pods of the API server start. A clone is the same.
///
/// A pod is timed once, when the API server first shows all its containers running; pods that had begun before they were first
/// seen, or that had to wait for room in the cluster, are not. What is kept of a pod goes with it
/// ([`forget`](Self::forget)).
#[derive(Debug, Clone)]
pub struct StartupLatency {
    pods: Arc<Mutex<HashMap<String, Course>>>,
    whole: Histogram,
    objective: Histogram,
    first_network_pod: Gauge,
}

/// What is known of a pod.
#[derive(Debug)]
enum Course {
    /// It is on its way. From when to when its images were pulled.
    Starting(Vec<(Timestamp, Timestamp)>),
    /// It was timed, or is not to be.
    Settled,
}

impl Default for StartupLatency {
    fn default() -> Self {
        Self::new()
    }
}

impl StartupLatency {
    /// Of no pod yet.
    pub fn new() -> Self {
        let histogram = |name: &str, what: &str| {
            let help = format!(
                "Duration in seconds to start a pod{what}, measured from pod creation timestamp to when all its \
                 containers are reported as started and observed via watch"
            );
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()))
                .expect("the histogram's options must be valid")
        };
        Self {
            pods: Arc::default(),
            whole: histogram(
                "kubelet_pod_start_total_duration_seconds",
                " since creation, including time to pull images and run init containers",
            ),
            objective: histogram(
                "kubelet_pod_start_sli_duration_seconds",
                ", excluding time to pull images and run init containers",
            ),
            first_network_pod: Gauge::new(
                "kubelet_first_network_pod_start_sli_duration_seconds",
                "Duration in seconds to start the first network pod, excluding time to pull images and run init \
                 containers, measured from pod creation timestamp to when all its containers are reported as started \
                 and observed via watch",
            )
            .expect("the gauge's options must be valid"),
        }
    }

    /// Makes it part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let all: [Box<dyn Collector>; 3] = [
            Box::new(self.whole.clone()),
            Box::new(self.objective.clone()),
            Box::new(self.first_network_pod.clone()),
        ];
        all.into_iter().try_for_each(|family| registry.register(family))
    }

    /// The API server shows the pod like this.
    pub fn observed(&self, pod: &Pod, now: Timestamp) {
        let Some(uid) = &pod.metadata.uid else { return };
        let status = pod.status.as_ref();
        let mut pods = self.pods.lock();
        if is_terminal(status.and_then(|status| status.phase.as_deref())) {
            pods.remove(uid);
            return;
        }
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let waited = conditions.into_iter().flatten().any(|condition| {
            condition.type_ == crate::status_manager::conditions::POD_SCHEDULED && condition.status == "False"
        });
        let Some(course) = pods.get_mut(uid) else {
            if status.is_none_or(|status| status.start_time.is_none()) {
                let course = if waited { Course::Settled } else { Course::Starting(Vec::new()) };
                pods.insert(uid.clone(), course);
            }
            return;
        };
        let Course::Starting(pulls) = course else { return };
        if waited {
            *course = Course::Settled;
        } else if runs(pod) {
            let pulling = covered(pulls);
            *course = Course::Settled;
            self.record(pod, pulling + initializing(pod), now);
        }
    }

    /// An image was pulled for the pod.
    pub fn pulled(&self, uid: &str, began: Timestamp, ended: Timestamp) {
        if let Some(Course::Starting(pulls)) = self.pods.lock().get_mut(uid) {
            pulls.push((began, ended));
        }
    }

    /// The pod is gone.
    pub fn forget(&self, uid: &str) {
        self.pods.lock().remove(uid);
    }

    fn record(&self, pod: &Pod, excluded: Duration, now: Timestamp) {
        let Some(created) = &pod.metadata.creation_timestamp else { return };
        let whole = Duration::try_from(now.duration_since(created.0)).unwrap_or_default();
        let objective = whole.saturating_sub(excluded).as_secs_f64();
        self.whole.observe(whole.as_secs_f64());
        if is_stateful(pod) {
            return;
        }
        self.objective.observe(objective);
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        if !on_host && self.first_network_pod.get() == 0.0 {
            self.first_network_pod.set(objective);
        }
    }
}

/// Whether each container runs, as told.
fn runs(pod: &Pod) -> bool {
    let statuses =
        pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let running = |status: &k8s_openapi::api::core::v1::ContainerStatus| {
        let state = status.state.as_ref().and_then(|state| state.running.as_ref());
        state.is_some_and(|running| running.started_at.is_some())
    };
    !statuses.is_empty() && statuses.iter().all(running)
}

/// How long the init containers that are done took.
fn initializing(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let sidecar = |name: &str| spec.iter().any(|one| one.name == name && is_restartable_init_container(one));
    let statuses = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let ended = statuses.filter(|status| !sidecar(&status.name)).filter_map(|status| {
        let ended = status.state.as_ref()?.terminated.as_ref()?;
        let (from, to) = (ended.started_at.as_ref()?.0, ended.finished_at.as_ref()?.0);
        Duration::try_from(to.duration_since(from)).ok()
    });
    ended.sum()
}

/// How much time these spans cover together.
fn covered(spans: &mut [(Timestamp, Timestamp)]) -> Duration {
    spans.sort_unstable();
    let mut covered = Duration::ZERO;
    let mut until = None;
    for &(from, to) in &*spans {
        let from = until.map_or(from, |until| from.max(until));
        covered += Duration::try_from(to.duration_since(from)).unwrap_or_default();
        until = until.max(Some(to));
    }
    covered
}

/// Whether the pod mounts anything that does not come and go with it: then how long it takes is not the node's doing alone.
fn is_stateful(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| {
        volume.secret.is_none()
            && volume.config_map.is_none()
            && volume.downward_api.is_none()
            && volume.empty_dir.is_none()
            && volume.projected.is_none()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn pod(spec: Value, status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "uid": "u", "creationTimestamp": at(0).to_string() },
            "spec": spec,
            "status": status,
        }))
        .unwrap()
    }

    fn simple() -> Value {
        json!({ "containers": [{ "name": "c" }] })
    }

    fn running() -> Value {
        let state = json!({ "running": { "startedAt": at(9).to_string() } });
        json!({
            "phase": "Running", "startTime": at(1).to_string(),
            "containerStatuses": [{ "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state }],
        })
    }

    /// The number of pods timed, in whole and by the objective, and the sums of their seconds.
    fn told(latency: &StartupLatency) -> (u64, f64, u64, f64) {
        let (whole, objective) = (&latency.whole, &latency.objective);
        (
            whole.get_sample_count(),
            whole.get_sample_sum(),
            objective.get_sample_count(),
            objective.get_sample_sum(),
        )
    }

    #[test]
    fn a_pod_is_timed_once_without_its_pulls_and_init_containers() {
        let latency = StartupLatency::new();
        let mut spec = simple();
        spec["initContainers"] = json!([{ "name": "i" }]);
        latency.observed(&pod(spec.clone(), json!({ "phase": "Pending" })), at(1));
        // Two pulls of which half of each is at the same time.
        latency.pulled("u", at(2), at(4));
        latency.pulled("u", at(3), at(5));
        let mut status = running();
        let state = json!({ "terminated": {
            "exitCode": 0, "startedAt": at(5).to_string(), "finishedAt": at(7).to_string(),
        } });
        status["initContainerStatuses"] = json!([{ "name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state }]);
        let pod = pod(spec, status);
        latency.observed(&pod, at(10));
        latency.observed(&pod, at(11));
        assert_eq!(told(&latency), (1, 10.0, 1, 5.0));
        assert_eq!(latency.first_network_pod.get(), 5.0);
        latency.forget("u");
        assert!(latency.pods.lock().is_empty());
    }

    #[test]
    fn pods_that_began_before_or_waited_for_room_are_not_timed() {
        let begun = StartupLatency::new();
        begun.observed(&pod(simple(), running()), at(10));
        begun.observed(&pod(simple(), running()), at(11));
        assert_eq!(told(&begun).0, 0);

        let waited = StartupLatency::new();
        let condition = json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
        waited.observed(&pod(simple(), json!({ "conditions": condition })), at(1));
        waited.observed(&pod(simple(), json!({ "phase": "Pending" })), at(2));
        waited.observed(&pod(simple(), running()), at(10));
        assert_eq!(told(&waited).0, 0);

        let ended = StartupLatency::new();
        ended.observed(&pod(simple(), json!({ "phase": "Pending" })), at(1));
        ended.observed(&pod(simple(), json!({ "phase": "Failed" })), at(2));
        assert!(ended.pods.lock().is_empty());
    }

    #[test]
    fn a_pod_with_volumes_of_its_own_life_counts_in_whole_only() {
        let latency = StartupLatency::new();
        let mut spec = simple();
        spec["volumes"] = json!([{ "name": "v", "hostPath": { "path": "/" } }]);
        latency.observed(&pod(spec.clone(), json!({})), at(1));
        latency.observed(&pod(spec, running()), at(3));
        assert_eq!(told(&latency), (1, 3.0, 0, 0.0));
    }
}
