//! `metrics.k8s.io`: what containers use of processors and memory.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_api::{ArcStr, GoDuration, Quantity};

use super::super::pods::{Sample, Samples};
use super::MetricsApi;
use super::refusal::{Asked, get, query_text};

/// What the containers of pods use.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Usages(pub Vec<PodUsage>);

/// What the containers of a pod use.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct PodUsage {
    /// The pod's name.
    pub pod: ArcStr,
    /// When the usage was measured.
    pub at: Option<Timestamp>,
    /// The time before `at` over which it was measured.
    pub window: Duration,
    /// The containers.
    pub containers: Vec<ContainerUsage>,
}

/// What a container uses.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ContainerUsage {
    /// The container's name.
    pub name: ArcStr,
    /// What it uses of each resource, in thousandths.
    pub usage: Vec<(ArcStr, i64)>,
}

impl ContainerUsage {
    fn of(&self, resource: &str) -> Option<i64> {
        self.usage.iter().find(|(name, _)| name == resource).map(|(_, value)| *value)
    }
}

impl PodUsage {
    /// The usage of the pod, or of one of its containers. `None` if it is not known of each of them.
    fn of(&self, resource: &str, container: &str) -> Option<i64> {
        if !container.is_empty() {
            return self.containers.iter().find(|one| one.name == container)?.of(resource);
        }
        let all = self.containers.iter().map(|container| container.of(resource));
        let sum = all.reduce(|sum, value| Some(sum?.wrapping_add(value?)));
        sum.flatten()
    }
}

impl Usages {
    /// The usage of a resource by pod; if `container` is not empty, by that container of each pod.
    pub(in super::super) fn samples(&self, resource: &str, container: &str) -> Samples {
        let sample = |pod: &PodUsage| {
            let value = pod.of(resource, container)?;
            Some((pod.pod.clone(), Sample { at: pod.at, window: pod.window, value }))
        };
        self.0.iter().filter_map(sample).collect()
    }
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    containers: Option<Vec<Container>>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    usage: Option<HashMap<String, Quantity>>,
}

impl From<Item> for PodUsage {
    fn from(item: Item) -> Self {
        let window = item.window.and_then(|window| window.parse::<GoDuration>().ok());
        let container = |container: Container| ContainerUsage {
            name: container.name.into(),
            usage: container
                .usage
                .into_iter()
                .flatten()
                .map(|(resource, amount)| (resource.into(), amount.milli_value()))
                .collect(),
        };
        Self {
            pod: item.metadata.and_then(|metadata| metadata.name).unwrap_or_default().into(),
            at: item.timestamp,
            window: window.map_or(Duration::ZERO, |window| window.0),
            containers: item.containers.into_iter().flatten().map(container).collect(),
        }
    }
}

impl MetricsApi {
    /// What the containers of the pods use that `pods` selects.
    pub(super) async fn usage(&self, namespace: &str, pods: &str) -> Result<Usages, String> {
        let mut path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        query_text(&mut path, &[("labelSelector", pods)]);
        let asked = Asked { resource: "pods.metrics.k8s.io", name: "" };
        let list: List = get(&self.sender, path, &asked)
            .await
            .map_err(|why| format!("unable to fetch metrics from resource metrics API: {why}"))?;
        let items = list.items.unwrap_or_default();
        if items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        Ok(Usages(items.into_iter().map(PodUsage::from).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn usages(list: Value) -> Usages {
        let list: List = serde_json::from_value(list).unwrap();
        Usages(list.items.unwrap_or_default().into_iter().map(PodUsage::from).collect())
    }

    #[test]
    fn a_pod_has_a_usage_if_all_its_containers_have() {
        let container = |name: &str, usage: Value| json!({"name": name, "usage": usage});
        let pod = |name: &str, containers: Value| json!({"metadata": {"name": name}, "window": "15s", "containers": containers});
        let found = usages(json!({"items": [
            pod("both", json!([container("a", json!({"cpu": "100m", "memory": "1"})), container("b", json!({"cpu": "1500u"}))])),
            pod("one", json!([container("a", json!({"memory": "2"}))])),
            pod("none", json!([])),
        ]}));
        let values = |resource, container| {
            let mut values: Vec<(String, i64)> = found
                .samples(resource, container)
                .into_iter()
                .map(|(pod, sample)| (pod.to_string(), sample.value))
                .collect();
            values.sort();
            values
        };
        let value = |pod: &str, value: i64| (pod.to_owned(), value);
        assert_eq!(values("cpu", ""), [value("both", 102)]);
        assert_eq!(values("memory", ""), [value("one", 2_000)]);
        assert_eq!(values("memory", "a"), [value("both", 1_000), value("one", 2_000)]);
        assert_eq!(values("cpu", "c"), []);
    }

    #[test]
    fn what_go_reads_as_empty_is_empty() {
        for list in [json!({}), json!({"items": null})] {
            assert_eq!(usages(list), Usages(Vec::new()));
        }
        let odd = json!({"items": [
            {}, {"metadata": null, "timestamp": null, "window": null, "containers": null},
            {"metadata": {"name": null}, "containers": [{"name": "a", "usage": null}]},
        ]});
        assert_eq!(usages(odd).samples("cpu", ""), Samples::default());
    }
}
