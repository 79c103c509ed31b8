//! The TTL that the manager, as a process, annotates nodes with.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::ops::RangeInclusive;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &["--controllers=ttl-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];
const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// A cluster of no other nodes.
struct Nodes {
    api: Api<Node>,
    cluster: Cluster,
}

fn name(number: usize) -> String {
    format!("ttl-{number}")
}

impl Nodes {
    async fn start() -> Self {
        let cluster = Cluster::start_own().await;
        Self { api: Api::all(cluster.client()), cluster }
    }

    fn manager(&self) -> Manager {
        Manager::start(&self.cluster.kubeconfig(), FLAGS)
    }

    async fn add(&self, numbers: RangeInclusive<usize>) {
        for number in numbers {
            let node = serde_json::from_value(json!({"metadata": {"name": name(number)}})).unwrap();
            self.api.create(&PostParams::default(), &node).await.unwrap();
        }
    }

    async fn remove(&self, numbers: RangeInclusive<usize>) {
        for number in numbers {
            self.api.delete(&name(number), &DeleteParams::default()).await.unwrap();
        }
    }

    /// Changes nodes, as their kubelets do from time to time. Upstream's controller waits for that.
    async fn touch(&self, numbers: RangeInclusive<usize>, value: &str) {
        if Manager::is_upstream() {
            for number in numbers {
                self.patch(number, json!({"labels": {"touched": value}})).await;
            }
        }
    }

    async fn patch(&self, number: usize, metadata: Value) {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        self.api.patch(&name(number), &PatchParams::default(), &patch).await.unwrap();
    }

    async fn all_have(&self, numbers: RangeInclusive<usize>, seconds: &str) {
        eventually(&format!("the nodes {numbers:?} have {seconds}"), || async {
            let nodes = self.api.list(&Default::default()).await.ok()?.items;
            let ttl = |node: &Node| node.metadata.annotations.as_ref()?.get(TTL).cloned();
            let fitting = nodes.iter().filter(|node| ttl(node).as_deref() == Some(seconds));
            (fitting.count() == numbers.clone().count()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nodes_of_a_larger_cluster_get_a_longer_ttl_and_keep_it_until_the_cluster_is_much_smaller() {
    let nodes = Nodes::start().await;
    nodes.add(1..=100).await;
    let _manager = nodes.manager();
    nodes.all_have(1..=100, "0").await;
    nodes.add(101..=101).await;
    nodes.touch(1..=101, "a").await;
    nodes.all_have(1..=101, "15").await;

    nodes.remove(91..=101).await;
    nodes.patch(1, json!({"annotations": {TTL: "7"}})).await;
    nodes.touch(1..=90, "b").await;
    nodes.all_have(1..=90, "15").await;

    nodes.remove(90..=90).await;
    nodes.touch(1..=89, "c").await;
    nodes.all_have(1..=89, "0").await;
}

#[tokio::test]
async fn only_nodes_without_the_right_ttl_are_written() {
    let nodes = Nodes::start().await;
    nodes.add(1..=3).await;
    nodes.patch(2, json!({"annotations": {TTL: "0", "a": "b"}})).await;
    nodes.patch(3, json!({"annotations": {TTL: "soon", "a": "b"}})).await;
    let before = nodes.api.get(&name(2)).await.unwrap().metadata.resource_version;
    let _manager = nodes.manager();
    nodes.all_have(1..=3, "0").await;
    let after = nodes.api.get(&name(2)).await.unwrap().metadata.resource_version;
    assert_eq!(before, after);
    let annotations = nodes.api.get(&name(3)).await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["a"], "b");
}
