//! Pods, whose status is the sum of many parts.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::BuiltIn;
use super::column::{AGE, NAME, text, wide};
use super::format;
use crate::object::{is_true, list_at, str_at};

pub(super) static POD: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Ready"),
        text("Status"),
        text("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells,
};

/// The reason of a pod whose node can't be reached.
const NODE_LOST: &str = "NodeLost";

/// What the containers say together.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, format::human(now.duration_since(last)))
        }
        _ => summary.restarts.to_string(),
    };
    let first_ip = list_at(pod, "status.podIPs").first().and_then(|ip| str_at(ip, "ip"));
    let ip = str_at(pod, "status.podIP").or(first_ip).filter(|ip| !ip.is_empty()).unwrap_or("<none>");
    vec![
        format::name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        format::age(pod, now),
        ip.into(),
        format::text_or(pod, "spec.nodeName", "<none>"),
        format::text_or(pod, "status.nominatedNodeName", "<none>"),
        readiness_gates(pod).into(),
    ]
}

/// That a pod is over.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let message = match str_at(pod, "status.phase")? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let reason = &pod["status"]["phase"];
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list_at(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates.iter().filter_map(|gate| str_at(gate, "conditionType"));
    let passed = passed.filter(|gate| format::has_condition(pod, gate)).count();
    format!("{passed}/{}", gates.len())
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = str_at(pod, "status.phase").unwrap_or_default();
        let own_reason = str_at(pod, "status.reason").filter(|reason| !reason.is_empty());
        let mut reason = own_reason.unwrap_or(phase).to_owned();
        let gated = list_at(pod, "status.conditions")
            .iter()
            .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
        if gated {
            "SchedulingGated".clone_into(&mut reason);
        }
        let init_containers = list_at(pod, "spec.initContainers");
        let sidecars: Vec<&str> = init_containers
            .iter()
            .filter(|container| container["restartPolicy"] == "Always")
            .filter_map(|container| str_at(container, "name"))
            .collect();
        let total = list_at(pod, "spec.containers").len() + sidecars.len();
        let mut summary = Self { reason, ready: 0, total, restarts: 0, last_restart: None };
        // Restarts of the init containers count while they run; afterwards only those of sidecars.
        let mut of_sidecars = (0, None);
        let initializing = summary.add_init_containers(pod, &sidecars, &mut of_sidecars);
        if !initializing || format::has_condition(pod, "Initialized") {
            (summary.restarts, summary.last_restart) = of_sidecars;
            summary.add_containers(pod);
        }
        if format::is_deleting(pod) {
            if own_reason == Some(NODE_LOST) {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Goes through the init containers up to the first that is not done. Whether there is one.
    fn add_init_containers(
        &mut self,
        pod: &Value,
        sidecars: &[&str],
        of_sidecars: &mut (i64, Option<Timestamp>),
    ) -> bool {
        for (at, status) in list_at(pod, "status.initContainerStatuses").iter().enumerate() {
            let is_sidecar = str_at(status, "name").is_some_and(|name| sidecars.contains(&name));
            self.count_restarts(status);
            if is_sidecar {
                of_sidecars.0 += format::int(status, "restartCount");
                of_sidecars.1 = of_sidecars.1.max(last_end(status));
            }
            let terminated = status["state"].get("terminated");
            if terminated.is_some_and(|terminated| format::int(terminated, "exitCode") == 0) {
                continue;
            }
            if is_sidecar && is_true(status, "started") {
                self.ready += usize::from(is_true(status, "ready"));
                continue;
            }
            let waiting = str_at(status, "state.waiting.reason")
                .filter(|reason| !reason.is_empty() && *reason != "PodInitializing");
            self.reason = match (terminated, waiting) {
                (Some(terminated), _) => format!("Init:{}", how_it_ended(terminated)),
                (None, Some(waiting)) => format!("Init:{waiting}"),
                (None, None) => {
                    format!("Init:{at}/{}", list_at(pod, "spec.initContainers").len())
                }
            };
            return true;
        }
        false
    }

    /// The first container that has something to say gives the reason.
    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = None;
        for status in list_at(pod, "status.containerStatuses").iter().rev() {
            self.count_restarts(status);
            let state = &status["state"];
            let waiting = str_at(state, "waiting.reason").filter(|reason| !reason.is_empty());
            if let Some(waiting) = waiting {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = state.get("terminated") {
                self.reason = how_it_ended(terminated);
                if format::int(terminated, "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if is_true(status, "ready") && state.get("running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        // What has containers that still run is not completed.
        if self.reason == "Completed" {
            if running && is_ready(pod) {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += format::int(status, "restartCount");
        self.last_restart = self.last_restart.max(last_end(status));
    }
}

/// When a container's run before this one ended.
fn last_end(status: &Value) -> Option<Timestamp> {
    format::moment(status, "lastState.terminated.finishedAt")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = list_at(pod, "status.conditions");
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn how_it_ended(terminated: &Value) -> String {
    let reason = str_at(terminated, "reason").unwrap_or_default();
    match (reason, format::int(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", format::int(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
