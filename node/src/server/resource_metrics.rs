//! `/metrics/resource`: what the node, its pods and their containers use, as upstream names it.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::cri::v1;

/// What the whole machine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeUsage {
    /// Processor time since the start, in nanoseconds.
    pub cpu: u64,
    /// Memory that is not to be had, in bytes.
    pub working_set: u64,
    /// Memory that is swapped out, in bytes.
    pub swap: u64,
    /// When it was measured.
    pub at: Timestamp,
}

/// All that is told at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Told<'a> {
    /// The machine; nothing where it could not be measured.
    pub(super) node: Option<NodeUsage>,
    /// The runtime's counts of sandboxes with their containers; nothing where it did not answer.
    pub(super) sandboxes: Option<&'a [v1::PodSandboxStats]>,
    /// For the times when containers were started.
    pub(super) pods: &'a [std::sync::Arc<Pod>],
}

/// A family: its name, kind and explanation, which begins with how much users may rely on it.
type Family = (&'static str, &'static str, &'static str);

const NODE_CPU: Family = (
    "node_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
);
const NODE_MEMORY: Family =
    ("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes");
const NODE_SWAP: Family = (
    "node_swap_usage_bytes",
    "gauge",
    "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
);
const STARTED: Family = (
    "container_start_time_seconds",
    "gauge",
    "[STABLE] Start time of the container since unix epoch in seconds",
);
const CONTAINER_CPU: Family = (
    "container_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
);
const CONTAINER_MEMORY: Family =
    ("container_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the container in bytes");
const CONTAINER_SWAP: Family = (
    "container_swap_usage_bytes",
    "gauge",
    "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
);
const CONTAINER_SWAP_LIMIT: Family = (
    "container_swap_limit_bytes",
    "gauge",
    "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
);
const POD_CPU: Family = (
    "pod_cpu_usage_seconds_total",
    "counter",
    "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
);
const POD_MEMORY: Family =
    ("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes");
const POD_SWAP: Family = (
    "pod_swap_usage_bytes",
    "gauge",
    "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
);
const SCRAPE_ERROR: Family = (
    "resource_scrape_error",
    "gauge",
    "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
);

/// Lines by family, in the order in which families first have one.
#[derive(Default)]
struct Lines(Vec<(Family, Vec<String>)>);

impl Lines {
    /// `at` is in nanoseconds since 1970; 0 for no time of its own.
    fn add(&mut self, family: Family, labels: &[(&str, &str)], value: f64, at: i64) {
        let place = match self.0.iter().position(|(one, _)| *one == family) {
            Some(place) => place,
            None => {
                self.0.push((family, Vec::new()));
                self.0.len() - 1
            }
        };
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let at = if at == 0 { String::new() } else { format!(" {}", at / 1_000_000) };
        self.0[place].1.push(format!("{}{labels} {value}{at}", family.0));
    }

    fn text(self) -> String {
        let mut text = String::new();
        for ((name, kind, help), lines) in self.0 {
            let _infallible = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }
}

/// The answer, in the text form of Prometheus.
pub(super) fn resource_metrics(told: &Told<'_>) -> String {
    let mut lines = Lines::default();
    if let Some(node) = told.node {
        let at = i64::try_from(node.at.as_nanosecond()).unwrap_or_default();
        lines.add(NODE_CPU, &[], seconds(node.cpu), at);
        lines.add(NODE_MEMORY, &[], bytes(node.working_set), at);
        lines.add(NODE_SWAP, &[], bytes(node.swap), at);
    }
    let started = started(told.pods);
    for ((namespace, pod), usage) in sandboxes(told) {
        let mut pod_swap = None;
        for (name, usage) in containers(usage) {
            let labels = [("container", name), ("pod", pod), ("namespace", namespace)];
            if let Some(started) = started.get(&(namespace, pod, name)) {
                lines.add(STARTED, &labels, started.as_duration().as_secs_f64(), 0);
            }
            let (cpu, memory) = (usage.cpu.as_ref(), usage.memory.as_ref());
            of_both(&mut lines, (CONTAINER_CPU, CONTAINER_MEMORY), &labels, cpu, memory);
            let swap = swap(usage);
            if let Some(used) = swap.used {
                lines.add(CONTAINER_SWAP, &labels, bytes(used), swap.at);
            }
            if let Some(available) = swap.available {
                let limit = swap.used.unwrap_or(0).saturating_add(available);
                lines.add(CONTAINER_SWAP_LIMIT, &labels, bytes(limit), swap.at);
            }
            let sum: u64 = pod_swap.map_or(0, |(sum, _)| sum);
            pod_swap = Some((sum.saturating_add(swap.used.unwrap_or(0)), swap.at));
        }
        let labels = [("pod", pod), ("namespace", namespace)];
        of_both(&mut lines, (POD_CPU, POD_MEMORY), &labels, usage.cpu.as_ref(), usage.memory.as_ref());
        if let Some((used, at)) = pod_swap {
            lines.add(POD_SWAP, &labels, bytes(used), at);
        }
    }
    let failed = told.node.is_none() || told.sandboxes.is_none();
    lines.add(SCRAPE_ERROR, &[], if failed { 1.0 } else { 0.0 }, 0);
    lines.text()
}

fn of_both(
    lines: &mut Lines,
    (of_cpu, of_memory): (Family, Family),
    labels: &[(&str, &str)],
    cpu: Option<&v1::CpuUsage>,
    memory: Option<&v1::MemoryUsage>,
) {
    if let Some((cpu, used)) = cpu.and_then(|cpu| Some((cpu, cpu.usage_core_nano_seconds?))) {
        lines.add(of_cpu, labels, seconds(used.value), cpu.timestamp);
    }
    if let Some((memory, used)) = memory.and_then(|memory| Some((memory, memory.working_set_bytes?))) {
        lines.add(of_memory, labels, bytes(used.value), memory.timestamp);
    }
}

/// What pods use, by namespace and name. A runtime may have several sandboxes of one: of those that there were one after the
/// other the last counts, and of pods that had the same name the one that the agent knows.
fn sandboxes<'a>(told: &Told<'a>) -> BTreeMap<(&'a str, &'a str), &'a v1::LinuxPodSandboxStats> {
    let known = |uid: &str| told.pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid));
    let mut newest = BTreeMap::new();
    for sandbox in told.sandboxes.unwrap_or_default() {
        let metadata = sandbox.attributes.as_ref().and_then(|attributes| attributes.metadata.as_ref());
        let (Some(pod), Some(usage)) = (metadata, &sandbox.linux) else { continue };
        let rank = (known(&pod.uid), pod.attempt);
        keep(&mut newest, (pod.namespace.as_str(), pod.name.as_str()), rank, usage);
    }
    newest.into_iter().map(|(pod, (_, usage))| (pod, usage)).collect()
}

/// What containers use, by name; of one that was restarted, the last.
fn containers(pod: &v1::LinuxPodSandboxStats) -> BTreeMap<&str, &v1::ContainerStats> {
    let mut newest = BTreeMap::new();
    for usage in &pod.containers {
        let metadata = usage.attributes.as_ref().and_then(|attributes| attributes.metadata.as_ref());
        let Some(container) = metadata else { continue };
        keep(&mut newest, container.name.as_str(), container.attempt, usage);
    }
    newest.into_iter().map(|(name, (_, usage))| (name, usage)).collect()
}

/// Keeps of what has one key that of the highest rank.
fn keep<K: Ord, R: PartialOrd, V>(all: &mut BTreeMap<K, (R, V)>, key: K, rank: R, value: V) {
    if all.get(&key).is_none_or(|(other, _)| *other <= rank) {
        all.insert(key, (rank, value));
    }
}

/// The memory of a container that is swapped out, and how much more may be, in bytes.
struct Swap {
    used: Option<u64>,
    available: Option<u64>,
    at: i64,
}

/// A runtime that tells nothing of swap has none.
fn swap(usage: &v1::ContainerStats) -> Swap {
    let value = |value: Option<v1::UInt64Value>| value.map(|value| value.value);
    match &usage.swap {
        Some(swap) => Swap {
            used: value(swap.swap_usage_bytes),
            available: value(swap.swap_available_bytes),
            at: swap.timestamp,
        },
        None => {
            let at = usage.memory.as_ref().map_or(0, |memory| memory.timestamp);
            Swap { used: Some(0), available: Some(0), at }
        }
    }
}

/// When containers that run were started, by namespace, pod and name.
fn started(pods: &[std::sync::Arc<Pod>]) -> BTreeMap<(&str, &str, &str), Timestamp> {
    let mut started = BTreeMap::new();
    for pod in pods {
        let (Some(namespace), Some(name)) = (&pod.metadata.namespace, &pod.metadata.name) else { continue };
        let Some(status) = &pod.status else { continue };
        let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        for container in all {
            let running = container.state.as_ref().and_then(|state| state.running.as_ref());
            if let Some(at) = running.and_then(|running| running.started_at.as_ref()) {
                started.insert((namespace.as_str(), name.as_str(), container.name.as_str()), at.0);
            }
        }
    }
    started
}

#[expect(clippy::cast_precision_loss, reason = "what is lost is less than a microsecond in a century")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "no machine has so much memory")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn value(value: u64) -> Option<v1::UInt64Value> {
        Some(v1::UInt64Value { value })
    }

    fn cpu(nanoseconds: u64) -> Option<v1::CpuUsage> {
        Some(v1::CpuUsage {
            timestamp: 7_000_000,
            usage_core_nano_seconds: value(nanoseconds),
            ..Default::default()
        })
    }

    fn memory(bytes: u64) -> Option<v1::MemoryUsage> {
        Some(v1::MemoryUsage { timestamp: 8_000_000, working_set_bytes: value(bytes), ..Default::default() })
    }

    fn container(name: &str, attempt: u32, used: u64) -> v1::ContainerStats {
        v1::ContainerStats {
            attributes: Some(v1::ContainerAttributes {
                metadata: Some(v1::ContainerMetadata { name: name.into(), attempt }),
                ..Default::default()
            }),
            cpu: cpu(used),
            memory: memory(4096),
            ..Default::default()
        }
    }

    fn sandbox(uid: &str, attempt: u32, containers: Vec<v1::ContainerStats>) -> v1::PodSandboxStats {
        v1::PodSandboxStats {
            attributes: Some(v1::PodSandboxAttributes {
                metadata: Some(v1::PodSandboxMetadata {
                    name: "p".into(),
                    uid: uid.into(),
                    namespace: "ns".into(),
                    attempt,
                }),
                ..Default::default()
            }),
            linux: Some(v1::LinuxPodSandboxStats {
                cpu: cpu(2_000_000_000),
                memory: memory(8192),
                containers,
                ..Default::default()
            }),
            windows: None,
        }
    }

    #[test]
    fn of_what_was_restarted_the_last_is_told() {
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u" } }))
                .unwrap();
        let current =
            || sandbox("u", 1, vec![container("c", 2, 3_000_000_000), container("c", 1, 1_000_000_000)]);
        let (before, other) = (sandbox("u", 0, vec![container("c", 9, 1)]), sandbox("gone", 7, vec![]));
        for sandboxes in [[current(), before.clone(), other.clone()], [other, before, current()]] {
            let told = Told { node: None, sandboxes: Some(&sandboxes), pods: &[Arc::new(pod.clone())] };
            let text = resource_metrics(&told);
            let of = |family: &str| -> Vec<String> {
                text.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect()
            };
            let expected =
                "container_cpu_usage_seconds_total{container=\"c\",pod=\"p\",namespace=\"ns\"} 3 7";
            assert_eq!(of("container_cpu"), [expected]);
            assert_eq!(of("pod_memory").len(), 1, "{text}");
        }
    }

    #[test]
    fn usage_is_told_by_node_pod_and_container() {
        let container = container("c", 0, 1_500_000_000);
        let mut swapping = self::container("s", 0, 0);
        swapping.swap = Some(v1::SwapUsage {
            timestamp: 9_000_000,
            swap_usage_bytes: value(3),
            swap_available_bytes: value(4),
        });
        let sandbox = sandbox("u", 0, vec![container, swapping]);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "p" },
            "status": { "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "1970-01-01T00:01:00Z" } },
            }] },
        }))
        .unwrap();
        let node =
            NodeUsage { cpu: 250_000_000, working_set: 1, swap: 2, at: Timestamp::from_second(1).unwrap() };
        let (sandboxes, pods) = ([sandbox], [Arc::new(pod)]);
        let text = resource_metrics(&Told { node: Some(node), sandboxes: Some(&sandboxes), pods: &pods });
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "node_cpu_usage_seconds_total 0.25 1000",
                "node_memory_working_set_bytes 1 1000",
                "node_swap_usage_bytes 2 1000",
                "container_start_time_seconds{container=\"c\",pod=\"p\",namespace=\"ns\"} 60",
                "container_cpu_usage_seconds_total{container=\"c\",pod=\"p\",namespace=\"ns\"} 1.5 7",
                "container_cpu_usage_seconds_total{container=\"s\",pod=\"p\",namespace=\"ns\"} 0 7",
                "container_memory_working_set_bytes{container=\"c\",pod=\"p\",namespace=\"ns\"} 4096 8",
                "container_memory_working_set_bytes{container=\"s\",pod=\"p\",namespace=\"ns\"} 4096 8",
                "container_swap_usage_bytes{container=\"c\",pod=\"p\",namespace=\"ns\"} 0 8",
                "container_swap_usage_bytes{container=\"s\",pod=\"p\",namespace=\"ns\"} 3 9",
                "container_swap_limit_bytes{container=\"c\",pod=\"p\",namespace=\"ns\"} 0 8",
                "container_swap_limit_bytes{container=\"s\",pod=\"p\",namespace=\"ns\"} 7 9",
                "pod_cpu_usage_seconds_total{pod=\"p\",namespace=\"ns\"} 2 7",
                "pod_memory_working_set_bytes{pod=\"p\",namespace=\"ns\"} 8192 8",
                "pod_swap_usage_bytes{pod=\"p\",namespace=\"ns\"} 3 9",
                "resource_scrape_error 0",
            ]
        );
        let help = "# HELP pod_memory_working_set_bytes [STABLE] Current working set of the pod in bytes\n\
                    # TYPE pod_memory_working_set_bytes gauge\n";
        assert!(text.contains(help), "{text}");
        assert!(text.contains("# HELP pod_swap_usage_bytes [ALPHA] Current"), "{text}");
    }

    #[test]
    fn what_is_not_to_be_had_is_an_error_of_the_scrape() {
        assert!(resource_metrics(&Told::default()).ends_with("\nresource_scrape_error 1\n"));
    }
}
