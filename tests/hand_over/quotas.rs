//! ResourceQuotas that go from one manager to the other.

use std::path::Path;

use serde_json::{Value, json};

use support::Cluster;
use support::manager::Manager;
use support::quotas::{Quota, asking_pod, create, delete, objects};

const QUOTAS: &str = "--controllers=resourcequota-controller";

/// Quotas handed over from steersman to kube-controller-manager and back: neither writes a status that the other left, and
/// each finds what changed while none was at work.
pub(super) async fn there_and_back(assets: &Path, cluster: Cluster) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let (pods, services) = (objects(&client, "v1/Pod"), objects(&client, "v1/Service"));
    let ours = || Manager::start(&kubeconfig, &[QUOTAS]);
    let upstream = || Manager::start_upstream(assets, &kubeconfig, &[QUOTAS]);
    let asking =
        || asking_pod(json!({ "cpu": "0.25", "memory": "1024Mi" }), json!({ "cpu": "1", "memory": "1.5Gi" }));
    let service = json!({ "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
    for name in ["a", "b", "c", "d"] {
        create(&pods, name, asking()).await;
    }
    create(&services, "web", service).await;

    let mut first = ours();
    let hard = json!({
        "pods": "9", "cpu": "4", "requests.memory": "10Gi", "limits.memory": "20G", "services.nodeports": "1",
        "secrets": "10", "count/deployments.apps": "3", "count/pods": "9",
    });
    let scoped = json!({ "hard": { "pods": "9" }, "scopes": ["NotBestEffort"] });
    let quotas =
        [Quota::create(&client, "all", hard).await, Quota::create_from(&client, "scoped", scoped).await];
    settle(&quotas, 4).await;
    first.stop().await;
    let before = versions(&quotas).await;
    let second = upstream();
    look_at_everything(&client, "second").await;
    assert_eq!(versions(&quotas).await, before, "upstream changed what we left");

    drop(second);
    delete(&pods, "a").await;
    let mut third = ours();
    settle(&quotas, 3).await;
    third.stop().await;
    delete(&pods, "b").await;
    let fourth = upstream();
    settle(&quotas, 2).await;
    drop(fourth);
    let before = versions(&quotas).await;
    let _fifth = ours();
    look_at_everything(&client, "fifth").await;
    assert_eq!(versions(&quotas).await, before, "we changed what upstream left");
    delete(&pods, "c").await;
    settle(&quotas, 1).await;
}

/// Waits until the quotas count that many pods.
async fn settle([all, scoped]: &[Quota; 2], pods: u32) {
    all.uses(json!({
        "pods": pods.to_string(), "count/pods": pods.to_string(), "cpu": format!("{}m", 250 * pods),
        "requests.memory": format!("{pods}Gi"), "limits.memory": format!("{}Mi", 1536 * pods),
        "services.nodeports": "1", "secrets": "0", "count/deployments.apps": "0",
    }))
    .await;
    scoped.uses(json!({ "pods": pods.to_string() })).await;
}

async fn versions(quotas: &[Quota]) -> Vec<Value> {
    let mut versions = Vec::new();
    for quota in quotas {
        versions.push(json!([quota.version().await, quota.status().await]));
    }
    versions
}

/// Makes the running manager count a new quota. Once it has, it has also looked at the older ones.
async fn look_at_everything(client: &kube::Client, name: &str) {
    let quota = Quota::create(client, name, json!({ "configmaps": "99", "services": "9" })).await;
    support::eventually("the new quota has its figures", || async {
        (quota.status().await["used"]["services"] == "1").then_some(())
    })
    .await;
    quota.delete().await;
}
