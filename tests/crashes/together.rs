//! The manager is killed again and again while a node is drained, a Deployment is rolled out, another one is scaled by an
//! autoscaler, and a namespace is deleted.

use std::time::Duration;

use futures::future::join;
use http::Method;
use serde_json::{Value, json};

use support::history::PodHistory;
use support::living::LivingNodes;
use support::manager::Manager;
use support::metrics::{EXTERNAL, MetricsServer};
use support::user::{User, items, workload};
use support::{Cluster, Server, eventually};

const FLAGS: &[&str] = &[
    "--horizontal-pod-autoscaler-sync-period=300ms",
    "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
    "--kube-api-qps=60",
    "--kube-api-burst=10",
];
/// The pods of the Deployment that is rolled out, how many of them the rollout may add, and how many a drain may take.
const REPLICAS: usize = 20;
const SURGE: usize = 4;
const DISRUPTED: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_under_way_comes_to_its_end_though_the_manager_is_killed_again_and_again() {
    let cluster = Cluster::start_own().await;
    let user = User::of(&cluster);
    let _nodes = LivingNodes::start(user.clone(), &["n1", "n2"]).await;
    let metrics = match cluster.server {
        Server::Real(_) => {
            let metrics = MetricsServer::start().await;
            metrics.register(&cluster.client(), &cluster.namespace, EXTERNAL).await;
            metrics.external(&cluster.namespace, "queue", &["60"]);
            Some(metrics)
        }
        // It has no APIServices, and so no metrics: there nothing is scaled.
        Server::Embedded(_) => None,
    };
    let mut manager = Manager::start(&cluster.kubeconfig(), FLAGS);
    furnish(&user).await;
    let history = PodHistory::start(&cluster.client());

    let template = json!({"metadata": {"annotations": {"revision": "two"}}});
    user.patch("apis/apps/v1/*/deployments/web", json!({"spec": {"template": template}})).await;
    user.delete("api/v1/namespaces/doomed", "Background").await;
    if metrics.is_some() {
        autoscale(&user).await;
    }
    user.patch("api/v1/nodes/n1", json!({"spec": {"unschedulable": true}})).await;
    let kills = async {
        for round in 0..8_u64 {
            // Each manager does some of the work: the moments differ.
            tokio::time::sleep(Duration::from_millis(700 + round * 137 % 500)).await;
            manager.kill();
            manager = Manager::start(&cluster.kubeconfig(), FLAGS);
        }
        manager
    };
    let (_manager, ()) = join(kills, drain(&user)).await;

    user.sees("the rollout is complete", "apis/apps/v1/*/deployments/web", |web| {
        let status = &web["status"];
        ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[count] == REPLICAS)
    })
    .await;
    let sets = user.get("apis/apps/v1/*/replicasets?labelSelector=app%3Dweb").await.unwrap();
    let of_each: Vec<_> = items(&sets).iter().map(|set| set["spec"]["replicas"].as_u64().unwrap()).collect();
    assert_eq!((of_each.len(), of_each.iter().sum::<u64>()), (2, REPLICAS as u64), "{of_each:?}");
    user.misses("api/v1/namespaces/doomed").await;
    if metrics.is_some() {
        user.sees("the autoscaler has its six", "apis/apps/v1/*/deployments/load", |load| {
            load["status"]["availableReplicas"] == 6
        })
        .await;
    }
    let mut most = 0;
    history.replay("web", |pods| most = most.max(pods.len())).await;
    assert!(most <= REPLICAS + SURGE, "{most} pods at once");
}

async fn furnish(user: &User) {
    let strategy = json!({"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 0}});
    user.create(
        "apis/apps/v1/*/deployments",
        workload("web", json!({"replicas": REPLICAS, "strategy": strategy})),
    )
    .await;
    user.create(
        "apis/policy/v1/*/poddisruptionbudgets",
        json!({
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": DISRUPTED, "selector": {"matchLabels": {"app": "web"}}},
        }),
    )
    .await;
    user.create("apis/apps/v1/*/deployments", workload("load", json!({"replicas": 2}))).await;
    user.create("api/v1/namespaces", json!({"metadata": {"name": "doomed"}})).await;
    user.create("apis/apps/v1/namespaces/doomed/deployments", workload("doomed", json!({"replicas": 5})))
        .await;
    for number in 0..20 {
        let config = json!({"metadata": {"name": format!("c{number}")}});
        user.create("api/v1/namespaces/doomed/configmaps", config).await;
    }
    let available = |count: usize| move |object: &Value| object["status"]["availableReplicas"] == count;
    user.sees("web is available", "apis/apps/v1/*/deployments/web", available(REPLICAS)).await;
    user.sees("load is available", "apis/apps/v1/*/deployments/load", available(2)).await;
    user.sees("doomed is available", "apis/apps/v1/namespaces/doomed/deployments/doomed", available(5)).await;
    user.sees("the budget is counted", "apis/policy/v1/*/poddisruptionbudgets/web", |budget| {
        budget["status"]["disruptionsAllowed"] == DISRUPTED
    })
    .await;
}

async fn autoscale(user: &User) {
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    user.create("apis/autoscaling/v2/*/horizontalpodautoscalers", json!({
        "metadata": {"name": "load"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "load"}, "maxReplicas": 9,
            "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}],
        },
    }))
    .await;
}

/// Evicts the pods of the node `n1`, as `kubectl drain` does, until there are none.
async fn drain(user: &User) {
    eventually("the node is drained", || async {
        let pods = user.get("api/v1/*/pods").await?;
        let of_node: Vec<_> = items(&pods).iter().filter(|pod| pod["spec"]["nodeName"] == "n1").collect();
        for pod in &of_node {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let eviction = json!({"metadata": {"name": name}});
            let _ = user.send(Method::POST, &format!("api/v1/*/pods/{name}/eviction"), &eviction).await;
        }
        of_node.is_empty().then_some(())
    })
    .await;
}
