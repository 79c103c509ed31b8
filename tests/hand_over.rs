//! To the real kube-controller-manager and back: neither finds anything to do in what the other left.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder that holds it too; elsewhere it says that it does not.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use support::jobs::{self, job};
use support::manager::Manager;
use support::{Cluster, eventually, real};

const CONTROLLERS: &str =
    "--controllers=job-controller,endpoints-controller,pod-garbage-collector-controller";

/// Every pod and every Endpoints object, with its version.
async fn versions(client: &kube::Client) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for pod in jobs::pods(client).await {
        versions
            .insert(format!("pod {}", pod.metadata.name.unwrap()), pod.metadata.resource_version.unwrap());
    }
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone());
    for object in endpoints.list(&ListParams::default()).await.unwrap().items {
        versions.insert(
            format!("endpoints {}", object.metadata.name.unwrap()),
            object.metadata.resource_version.unwrap(),
        );
    }
    versions
}

/// Has whoever manages now make the pod of one more job, which shows that it has gone through what was there.
async fn one_more_job(client: &kube::Client, name: &str) {
    jobs::create(client, &job(name, json!({}))).await;
    eventually(&format!("{name} has its pod"), || async {
        let pods = jobs::pods(client).await;
        let of_job = |pod: &Pod| pod.metadata.labels.iter().flatten().any(|(_, value)| value == name);
        pods.iter().any(of_job).then_some(())
    })
    .await;
}

/// Where kube-controller-manager is.
fn assets() -> Option<PathBuf> {
    let assets = real::assets().filter(|assets| assets.join("kube-controller-manager").exists());
    if assets.is_none() {
        println!("no kube-controller-manager is at hand: not run");
    }
    assets
}

#[tokio::test]
async fn a_hand_over_and_back_changes_no_pod_and_no_endpoints() {
    let Some(assets) = assets() else { return };
    hand_over_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn kube_controller_manager_takes_over_on_the_embedded_server_too() {
    let Some(assets) = assets() else { return };
    hand_over_and_back(&assets, Cluster::start_embedded().await).await;
}

async fn hand_over_and_back(assets: &Path, cluster: Cluster) {
    let client = cluster.client();
    let kubeconfig = cluster.kubeconfig();

    let services = Api::<Service>::default_namespaced(client.clone());
    let service = json!({
        "metadata": { "name": "web", "labels": { "team": "a" } },
        "spec": { "selector": { "tier": "job" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    });
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let mut steersman = Manager::start(&kubeconfig, &[CONTROLLERS]);
    let spec = json!({ "completions": 6, "parallelism": 3, "completionMode": "Indexed" });
    let mut first = job("first", spec);
    let nodes = Api::<Node>::all(client.clone());
    let node = json!({ "metadata": { "name": "node-1" } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    first.spec.as_mut().unwrap().template.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
    let template = first.spec.as_mut().unwrap().template.metadata.get_or_insert_default();
    template.labels.get_or_insert_default().insert("tier".to_owned(), "job".to_owned());
    jobs::create(&client, &first).await;
    eventually("three pods", || async { (jobs::pods(&client).await.len() == 3).then_some(()) }).await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    for (at, pod) in jobs::pods(&client).await.into_iter().enumerate() {
        let name = pod.metadata.name.unwrap();
        let ip = format!("10.1.0.{}", at + 1);
        let status = json!({ "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": if at == 0 { "False" } else { "True" } }],
        } });
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    let endpoints = Api::<Endpoints>::default_namespaced(client.clone());
    eventually("the endpoints are complete", || async {
        let subsets = endpoints.get("web").await.ok()?.subsets?;
        let ready = subsets.iter().flat_map(|subset| subset.addresses.iter().flatten()).count();
        let all =
            ready + subsets.iter().flat_map(|subset| subset.not_ready_addresses.iter().flatten()).count();
        ((ready, all) == (2, 3)).then_some(())
    })
    .await;
    one_more_job(&client, "second").await;
    assert!(steersman.stop().await.success());
    let ours = versions(&client).await;

    let upstream = Manager::start_upstream(assets, &kubeconfig, &[CONTROLLERS]);
    one_more_job(&client, "third").await;
    drop(upstream);
    let mut theirs = versions(&client).await;
    theirs.retain(|name, _| !name.contains("third"));
    assert_eq!(theirs, ours, "upstream changed what we left");

    let everything = versions(&client).await;
    let _steersman = Manager::start(&kubeconfig, &[CONTROLLERS]);
    one_more_job(&client, "fourth").await;
    let mut back = versions(&client).await;
    back.retain(|name, _| !name.contains("fourth"));
    assert_eq!(back, everything, "we changed what upstream left");
}
