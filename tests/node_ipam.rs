//! The ranges that the manager, as a process, gives to nodes.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::{Cluster, eventually, real};

const ALLOCATE: &[&str] = &[
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

/// A cluster without other nodes.
struct Nodes {
    api: Api<Node>,
    events: Api<Event>,
    cluster: Cluster,
}

impl Nodes {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let nodes = Self {
            api: Api::all(cluster.client()),
            events: Api::namespaced(cluster.client(), "default"),
            cluster,
        };
        // Another test of this file may have left some.
        for node in nodes.api.list(&ListParams::default()).await.unwrap() {
            nodes.release(&node.metadata.name.unwrap()).await;
        }
        nodes
    }

    fn manager(&self, flags: &[&str]) -> Manager {
        Manager::start(&self.cluster.kubeconfig(), &[ALLOCATE, flags].concat())
    }

    async fn add(&self, name: &str) {
        self.add_with(name, json!({})).await;
    }

    async fn add_with(&self, name: &str, more: Value) {
        let mut node = json!({"metadata": {"name": name}});
        for (field, value) in more.as_object().unwrap() {
            node[field] = value.clone();
        }
        self.api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }

    async fn remove(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Removes a node and its finalizers.
    async fn release(&self, name: &str) {
        self.remove(name).await;
        self.patch(name, json!({"metadata": {"finalizers": null}})).await;
        eventually("the node is gone", || async {
            self.api.get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    async fn patch(&self, name: &str, patch: Value) {
        let _ = self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }

    /// The ranges of a node, which may have none.
    async fn ranges(&self, name: &str) -> Vec<String> {
        let spec = self.api.get(name).await.unwrap().spec.unwrap_or_default();
        let ranges = spec.pod_cidrs.unwrap_or_default();
        assert_eq!(spec.pod_cidr.as_ref(), ranges.first(), "{name}");
        ranges
    }

    /// Waits until a node has ranges.
    async fn given(&self, name: &str) -> Vec<String> {
        eventually(&format!("{name} has ranges"), || async {
            Some(self.ranges(name).await).filter(|ranges| !ranges.is_empty())
        })
        .await
    }

    /// Waits for an event about a node, and returns its type, message and source.
    async fn event(&self, name: &str, reason: &str) -> [String; 3] {
        eventually(&format!("{name} has an event {reason}"), || async {
            let events = self.events.list(&ListParams::default()).await.ok()?;
            let event = events.items.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(name)
                    && event.involved_object.kind.as_deref() == Some("Node")
                    && event.reason.as_deref() == Some(reason)
            })?;
            Some([event.type_?, event.message?, event.source?.component?])
        })
        .await
    }
}

#[tokio::test]
async fn nodes_get_blocks_in_order_until_none_is_left_and_then_those_that_become_free() {
    let nodes = Nodes::start().await;
    let manager = nodes.manager(&["--cluster-cidr=10.40.0.0/22"]);
    for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        nodes.add(name).await;
        assert_eq!(nodes.given(name).await, [format!("10.40.{at}.0/24")]);
    }
    nodes.add("e").await;
    let event = nodes.event("e", "CIDRNotAvailable").await;
    assert_eq!(event, ["Normal", "Node e status is now: CIDRNotAvailable", "cidrAllocator"]);
    assert!(nodes.ranges("e").await.is_empty());
    if manager.is_steersman() {
        let (_, metrics) = manager.get("/metrics").await.unwrap();
        for sample in [
            "node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR=\"10.40.0.0/22\"} 4",
            "node_ipam_controller_cirdset_max_cidrs{clusterCIDR=\"10.40.0.0/22\"} 4",
            "node_ipam_controller_cidrset_usage_cidrs{clusterCIDR=\"10.40.0.0/22\"} 1",
            "node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR=\"10.40.0.0/22\"} 4",
            "steersman_node_ipam_free_cidrs{clusterCIDR=\"10.40.0.0/22\"} 0",
            "workqueue_adds_total{name=\"cidrallocator_node\"}",
        ] {
            assert!(metrics.contains(sample), "{sample}\n{metrics}");
        }
    }

    nodes.remove("b").await;
    if !manager.is_steersman() {
        // Upstream waits for a change of the node, or for its back-off.
        eventually("b is gone", || async { nodes.api.get_opt("b").await.ok()?.is_none().then_some(()) })
            .await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        nodes.patch("e", json!({"metadata": {"labels": {"touched": "a"}}})).await;
    }
    assert_eq!(nodes.given("e").await, ["10.40.1.0/24"]);
}

#[tokio::test]
async fn nodes_of_a_dual_stack_cluster_get_a_block_of_each_family_beside_those_of_services() {
    let nodes = Nodes::start().await;
    let _manager = nodes.manager(&[
        "--cluster-cidr=10.41.0.0/16,fd00:41::/60",
        "--service-cluster-ip-range=10.41.0.0/23,fd00:41::/64",
        "--node-cidr-mask-size-ipv4=25",
        "--node-cidr-mask-size-ipv6=62",
    ]);
    nodes.add("a").await;
    assert_eq!(nodes.given("a").await, ["10.41.2.0/25", "fd00:41:0:4::/62"]);
    nodes.add("b").await;
    assert_eq!(nodes.given("b").await, ["10.41.2.128/25", "fd00:41:0:8::/62"]);
}

#[tokio::test]
async fn blocks_that_nodes_have_are_known_before_the_first_is_given() {
    let nodes = Nodes::start().await;
    let flags = ["--cluster-cidr=10.42.0.0/21"];
    let assigned = |range: &str| json!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
    nodes.add_with("a", assigned("10.42.0.0/24")).await;
    nodes.add_with("b", assigned("10.42.2.0/24")).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    nodes.add_with("ending", assigned("10.42.1.0/24")).await;
    nodes.patch("ending", held).await;
    nodes.remove("ending").await;
    let mut manager = nodes.manager(&flags);
    nodes.add("c").await;
    assert_eq!(nodes.given("c").await, ["10.42.3.0/24"]);

    manager.kill();
    nodes.add("d").await;
    nodes.remove("a").await;
    let _manager = nodes.manager(&flags);
    // The search begins anew, and the node that is ending still has its block.
    assert_eq!(nodes.given("d").await, ["10.42.0.0/24"]);
    nodes.add("e").await;
    assert_eq!(nodes.given("e").await, ["10.42.4.0/24"]);
    for (name, range) in [("b", "10.42.2.0/24"), ("c", "10.42.3.0/24"), ("ending", "10.42.1.0/24")] {
        assert_eq!(nodes.ranges(name).await, [range], "{name}");
    }
}

#[tokio::test]
async fn managers_that_are_killed_under_way_give_no_block_twice() {
    let nodes = Nodes::start().await;
    let flags = ["--cluster-cidr=10.43.0.0/18", "--service-cluster-ip-range=10.43.0.0/24"];
    let mut manager = nodes.manager(&flags);
    let names: Vec<String> = (0..60).map(|at| format!("n{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        nodes.add(name).await;
        if at % 20 == 10 {
            manager.kill();
            manager = nodes.manager(&flags);
        }
        if at % 10 == 9 {
            nodes.remove(&names[at - 5]).await;
        }
    }
    let mut ranges = BTreeSet::new();
    for (at, name) in names.iter().enumerate().filter(|(at, _)| at % 10 != 4) {
        let given = nodes.given(name).await;
        assert!(given.len() == 1 && given[0] != "10.43.0.0/24", "{given:?}");
        assert!(ranges.insert(given), "the range of node {at} must be its own");
    }
}

#[tokio::test]
async fn flags_that_contradict_each_other_stop_the_manager() {
    let nodes = Nodes::start().await;
    for (flags, why) in [
        (&["--cluster-cidr=10.44.0.0"][..], "invalid CIDR address: 10.44.0.0"),
        (
            &["--cluster-cidr=10.44.0.0/16,fd00::/48", "--node-cidr-mask-size=24"],
            "is not allowed with dual-stack",
        ),
        (&["--cluster-cidr=10.44.0.0/16", "--node-cidr-mask-size=8"], "Invalid --cluster-cidr, mask size"),
        (&["--cluster-cidr=fd00::/40"], "the node CIDR size is too big"),
        (
            &["--cluster-cidr=10.44.0.0/16", "--cidr-allocator-type=CloudAllocator"],
            "The ipam CloudAllocator is not available",
        ),
        (
            &["--cluster-cidr=10.44.0.0/16", "--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24,fd00::/108"],
            "can not contain more than two entries",
        ),
    ] {
        let mut manager = nodes.manager(flags);
        assert!(!manager.ended().await.success(), "{flags:?}");
        assert!(manager.log().contains(why), "{flags:?}: {}", manager.log());
    }
}

/// Upstream's manager exits.
#[tokio::test]
async fn a_node_with_a_range_of_another_cluster_keeps_no_other_from_its_own() {
    let nodes = Nodes::start().await;
    if Manager::is_upstream() {
        return;
    }
    let old = json!({"spec": {"podCIDR": "10.99.0.0/24", "podCIDRs": ["10.99.0.0/24"]}});
    nodes.add_with("old", old).await;
    let manager = nodes.manager(&["--cluster-cidr=10.45.0.0/16"]);
    nodes.add("new").await;
    assert_eq!(nodes.given("new").await, ["10.45.0.0/24"]);
    assert_eq!(nodes.ranges("old").await, ["10.99.0.0/24"]);
    assert!(manager.log().contains("is out the range of cluster cidr"), "{}", manager.log());
}

#[tokio::test]
async fn without_allocate_node_cidrs_nodes_get_none() {
    let nodes = Nodes::start().await;
    let flags = ["--controllers=node-ipam-controller,ttl-controller", "--cluster-cidr=10.46.0.0/16"];
    let _manager = Manager::start(&nodes.cluster.kubeconfig(), &flags);
    nodes.add("a").await;
    eventually("the other controller has seen the node", || async {
        nodes.api.get("a").await.ok()?.metadata.annotations?.get("node.alpha.kubernetes.io/ttl").cloned()
    })
    .await;
    assert!(nodes.ranges("a").await.is_empty());
}

/// Needs upstream's manager.
#[tokio::test]
async fn a_takeover_changes_no_ranges_and_gives_none_twice() {
    let Some(assets) = real::assets() else { return };
    let nodes = Nodes::start().await;
    let flags = [ALLOCATE, &["--cluster-cidr=10.47.0.0/20"]].concat();
    let kubeconfig = nodes.cluster.kubeconfig();
    let mut given = Vec::new();
    for (at, is_upstream) in [true, false, true, false].into_iter().enumerate() {
        let mut manager = if is_upstream {
            Manager::start_upstream(&assets, &kubeconfig, &flags)
        } else {
            Manager::start(&kubeconfig, &flags)
        };
        for new in 0..3 {
            let name = format!("n{at}-{new}");
            nodes.add(&name).await;
            given.push((name.clone(), nodes.given(&name).await));
        }
        manager.kill();
    }
    let ranges: BTreeSet<_> = given.iter().map(|(_, ranges)| ranges).collect();
    assert_eq!(ranges.len(), given.len());
    for (name, ranges) in &given {
        assert_eq!(nodes.ranges(name).await, *ranges);
    }
}
