//! What running containers use, as `metrics.k8s.io/v1beta1` tells it.
//!
//! In a cluster metrics-server serves this API, from what it reads of the kubelets. Here the server asks a [`Usage`] about each
//! running container. Autoscalers and `kubectl top` read the answers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use steersman_api::Quantity;

use crate::store::Object;

/// Tells what running containers use. See [`Settings::usage`](crate::Settings::usage).
pub trait Usage: fmt::Debug + Send + Sync {
    /// What a container uses at the moment. `None` if that is not known: then the usage of its pod is not known either.
    fn of_container(&self, container: &RunningContainer<'_>) -> Option<Amounts>;

    /// Whether the usage of the containers of a node is known. `runtime` is the node's `containerRuntimeVersion`.
    fn covers_node(&self, runtime: &str) -> bool;
}

/// A running container.
#[derive(Clone, Copy, Debug)]
pub struct RunningContainer<'a> {
    /// The container's name in the spec of its pod.
    pub name: &'a str,
    /// The `containerID` in the status of its pod, such as `containerd://1f3a`.
    pub id: &'a str,
    /// The number of times that the container was restarted.
    pub restarts: usize,
    /// The annotations of its pod.
    pub annotations: &'a BTreeMap<String, String>,
}

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Processors, in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Amounts {
    fn and(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    fn to_json(self) -> Value {
        let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        json!({
            "cpu": Quantity::from_milli(signed(self.cpu_millis)).to_string(),
            "memory": Quantity::bytes(signed(self.memory_bytes)).to_string(),
        })
    }
}

/// The fields of a pod that tell what its containers use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    container_statuses: Vec<Container>,
    init_container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    #[serde(rename = "containerID")]
    id: String,
    restart_count: usize,
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<IgnoredAny>,
}

impl Pod {
    /// What each running container uses, sidecars last. `None` if no container runs, or the usage of one is not known.
    fn usage(&self, usage: &dyn Usage) -> Option<Vec<(&str, Amounts)>> {
        let all = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        let running = all.filter(|container| container.state.running.is_some());
        let amounts = running.map(|container| {
            let asked = RunningContainer {
                name: &container.name,
                id: &container.id,
                restarts: container.restart_count,
                annotations: &self.metadata.annotations,
            };
            Some((container.name.as_str(), usage.of_container(&asked)?))
        });
        let amounts: Option<Vec<_>> = amounts.collect();
        amounts.filter(|amounts| !amounts.is_empty())
    }
}

/// The `PodMetrics` of a pod. `None` if its usage is not known.
pub(crate) fn of_pod(pod: &Object, usage: &dyn Usage, now: Timestamp) -> Option<Value> {
    let fields: Pod = pod.read()?;
    let containers: Vec<Value> = fields
        .usage(usage)?
        .into_iter()
        .map(|(name, amounts)| json!({"name": name, "usage": amounts.to_json()}))
        .collect();
    Some(metrics(pod, now, [("containers", containers.into())]))
}

/// What the pods of each node use together.
#[derive(Default)]
pub(crate) struct Sums(HashMap<String, Amounts>);

impl Sums {
    /// Adds the usage of a pod, if it is known.
    pub(crate) fn add(&mut self, pod: &Object, usage: &dyn Usage) {
        let Some(pod) = pod.read::<Pod>() else { return };
        let Some(containers) = pod.usage(usage) else { return };
        let total = containers.into_iter().fold(Amounts::default(), |sum, (_, amounts)| sum.and(amounts));
        let sum = self.0.entry(pod.spec.node_name).or_default();
        *sum = sum.and(total);
    }

    /// The usage of a node's pods.
    pub(crate) fn of(&self, node: &str) -> Amounts {
        self.0.get(node).copied().unwrap_or_default()
    }
}

/// The `NodeMetrics` of a node whose pods use `total`. `None` if `usage` does not cover the node.
pub(crate) fn of_node(node: &Object, total: Amounts, usage: &dyn Usage, now: Timestamp) -> Option<Value> {
    let fields = node.kept();
    let runtime = crate::object::text_at(fields, "status.nodeInfo.containerRuntimeVersion");
    usage.covers_node(&runtime).then(|| metrics(node, now, [("usage", total.to_json())]))
}

/// What both kinds have: the name and the labels of their object, and the time. The usage is that of a moment.
fn metrics(of: &Object, now: Timestamp, usage: [(&str, Value); 1]) -> Value {
    let stored = of.metadata();
    let kept = ["name", "namespace", "labels"].into_iter();
    let mut metadata: Map<String, Value> =
        kept.filter_map(|name| Some((name.to_owned(), stored.get(name)?.clone()))).collect();
    let time = steersman_api::Time::from(now);
    metadata.insert("creationTimestamp".to_owned(), json!(time));
    let mut metrics = json!({"metadata": metadata, "timestamp": time, "window": "0s"});
    for (name, value) in usage {
        metrics[name] = value;
    }
    metrics
}
