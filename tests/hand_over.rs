//! To the real kube-controller-manager and back: neither finds anything to do in what the other left.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder that holds it too; elsewhere it says that it does not.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "hand_over/attachments.rs"]
mod attachments;
#[path = "hand_over/autoscaling.rs"]
mod autoscaling;
#[path = "hand_over/budgets.rs"]
mod budgets;
#[path = "hand_over/claims.rs"]
mod claims;
#[path = "hand_over/cleaning.rs"]
mod cleaning;
#[path = "hand_over/garbage.rs"]
mod garbage;
#[path = "hand_over/identities.rs"]
mod identities;
#[path = "hand_over/nodes.rs"]
mod nodes;
#[path = "hand_over/quotas.rs"]
mod quotas;
#[path = "hand_over/rollouts.rs"]
mod rollouts;
#[path = "hand_over/runs.rs"]
mod runs;
#[path = "hand_over/slices.rs"]
mod slices;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::json;
use support::history::PodHistory;
use support::jobs::{self, job};
use support::manager::Manager;
use support::replicas::{Kind, Owner, is_active};
use support::{Cluster, eventually, real};

const CONTROLLERS: &str = "--controllers=job-controller,endpoints-controller,endpointslice-controller,pod-garbage-collector-controller";

/// Every pod, Endpoints object and EndpointSlice, with its version.
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
    let slices = Api::<EndpointSlice>::default_namespaced(client.clone());
    for slice in slices.list(&ListParams::default()).await.unwrap().items {
        versions.insert(
            format!("slice {}", slice.metadata.name.unwrap()),
            slice.metadata.resource_version.unwrap(),
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
    let slices = Api::<EndpointSlice>::default_namespaced(client.clone());
    eventually("the slice is complete", || async {
        let all = slices.list(&ListParams::default()).await.ok()?.items;
        let endpoints: Vec<_> = all.iter().flat_map(|slice| slice.endpoints.iter().flatten()).collect();
        let is_ready = |endpoint: &&&Endpoint| {
            endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
        };
        ((endpoints.iter().filter(is_ready).count(), endpoints.len()) == (2, 3)).then_some(())
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

const REPLICAS: &str = "--controllers=replicaset-controller,replicationcontroller-controller";

/// So few calls a second that the hand-over comes in the middle of the work.
fn slowly(controllers: &str) -> [&str; 3] {
    [controllers, "--kube-api-qps=5", "--kube-api-burst=5"]
}

#[tokio::test]
async fn replicas_are_handed_over_and_back_in_the_middle_of_scaling() {
    let Some(assets) = assets() else { return };
    replicas_there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn kube_controller_manager_takes_replicas_over_on_the_embedded_server_too() {
    let Some(assets) = assets() else { return };
    replicas_there_and_back(&assets, Cluster::start_embedded().await).await;
}

async fn replicas_there_and_back(assets: &Path, cluster: Cluster) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let history = PodHistory::start(&client);
    let mut owners = Vec::new();
    for kind in Kind::ALL {
        let mut manifest = kind.manifest(&format!("web-{}", kind.name().to_lowercase()), 40);
        manifest["spec"]["minReadySeconds"] = json!(3600);
        owners.push(Owner::create_from(&client, kind, manifest).await);
    }

    // Ours begins to make pods, upstream's makes the rest.
    let mut ours = Manager::start(&kubeconfig, &slowly(REPLICAS));
    in_the_middle(&owners, 5..35).await;
    ours.stop().await;
    in_the_middle(&owners, 5..40).await;
    let upstream = Manager::start_upstream(assets, &kubeconfig, &[REPLICAS]);
    settle(&owners, 40).await;
    assert_eq!(history.count().await, 80, "no pod was made twice");

    // Pods that are ready, some of them for long enough to be available.
    let long_ago = steersman_api::Time::from_seconds(steersman_api::Time::now().seconds() - 7200);
    for owner in &owners {
        for (at, pod) in owner.has(40).await.iter().take(12).enumerate() {
            let since = if at < 3 { long_ago } else { steersman_api::Time::now() };
            owner.mark_since(pod, "Running", "True", &since).await;
        }
        owner.reports(json!({ "readyReplicas": 12, "availableReplicas": 3 })).await;
    }

    // Ours finds nothing to do in what upstream's left.
    drop(upstream);
    let before = all_versions(&owners).await;
    let mut ours = Manager::start(&kubeconfig, &[REPLICAS]);
    look_at_everything(&client, "ours").await;
    assert_eq!(all_versions(&owners).await, before, "we changed what upstream left");
    ours.stop().await;

    // Upstream's begins to delete pods, ours deletes the rest: those that are ready stay.
    let upstream = Manager::start_upstream(assets, &kubeconfig, &slowly(REPLICAS));
    for owner in &owners {
        owner.scale(10).await;
    }
    in_the_middle(&owners, 15..38).await;
    drop(upstream);
    in_the_middle(&owners, 11..38).await;
    let mut ours = Manager::start(&kubeconfig, &[REPLICAS]);
    settle(&owners, 10).await;
    for owner in &owners {
        owner.reports(json!({ "readyReplicas": 10 })).await;
    }
    assert_eq!(history.count().await, 82, "no pod was made but the two that showed that all was looked at");

    // Upstream's finds nothing to do in what ours left.
    ours.stop().await;
    let before = all_versions(&owners).await;
    let _upstream = Manager::start_upstream(assets, &kubeconfig, &[REPLICAS]);
    look_at_everything(&client, "theirs").await;
    assert_eq!(all_versions(&owners).await, before, "upstream changed what we left");
}

/// Waits until each owner has a number of active pods within this range.
async fn in_the_middle(owners: &[Owner], range: std::ops::Range<usize>) {
    eventually(&format!("each owner has {range:?} pods"), || async {
        for owner in owners {
            if !range.contains(&owner.active().await.len()) {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// Waits until each owner has that many active pods and says so.
async fn settle(owners: &[Owner], count: usize) {
    for owner in owners {
        owner.has(count).await;
        owner.reports(json!({ "replicas": count, "fullyLabeledReplicas": count })).await;
    }
}

async fn all_versions(owners: &[Owner]) -> Vec<(String, String)> {
    let mut versions = Vec::new();
    for owner in owners {
        versions.extend(owner.versions().await);
    }
    versions
}

/// Makes the running manager create the pods of new owners. Once it has, it has also synced the older ones.
async fn look_at_everything(client: &kube::Client, name: &str) {
    for kind in Kind::ALL {
        let name = format!("{name}-{}", kind.name().to_lowercase());
        settle(&[Owner::create(client, kind, &name, 1).await], 1).await;
    }
}

/// Upstream's garbage collector does what the deletion of an owner asks for, while ours keeps the numbers of pods.
#[tokio::test]
async fn the_pods_of_a_deleted_owner_go_or_stay_as_its_deletion_asks() {
    let Some(assets) = assets() else { return };
    let cluster = Cluster::start_own().await;
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let _ours = Manager::start(&kubeconfig, &[REPLICAS]);
    let _upstream =
        Manager::start_upstream(&assets, &kubeconfig, &["--controllers=garbage-collector-controller"]);
    let history = PodHistory::start(&client);
    let mut made = 0;
    for kind in Kind::ALL {
        for policy in
            [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan]
        {
            let name = format!("{}-{policy:?}", kind.name()).to_lowercase();
            let owner = Owner::create(&client, kind, &name, 3).await;
            let pods = owner.has(3).await;
            owner.reports(json!({ "replicas": 3 })).await;
            made += 3;
            owner.delete(policy.clone()).await;
            eventually(&format!("{name} is gone"), || async {
                owner.api.get_opt(&name).await.ok()?.is_none().then_some(())
            })
            .await;
            if !matches!(policy, PropagationPolicy::Orphan) {
                eventually("its pods are gone", || async { owner.labelled().await.is_empty().then_some(()) })
                    .await;
                continue;
            }
            let left = owner.labelled().await;
            assert!(left.iter().all(is_active));
            let owners = left.iter().flat_map(|pod| pod.metadata.owner_references.iter().flatten());
            assert_eq!((left.len(), owners.count()), (3, 0), "they are let go, and stay");
            // Another owner of the same name takes them over.
            let heir = Owner::create(&client, kind, &name, 3).await;
            assert_eq!(heir.has(3).await, pods);
            heir.reports(json!({ "replicas": 3 })).await;
        }
    }
    assert_eq!(history.count().await, made, "no pod was made to replace one of a deleted owner");
}

async fn rollout_there_and_back(kind: rollouts::Kind) {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    rollouts::hand_over(&Cluster::start_own().await, kind, &ours, &upstream).await;
    rollouts::hand_over(&Cluster::start_own().await, kind, &upstream, &ours).await;
    rollouts::hand_over(&Cluster::start_embedded().await, kind, &ours, &upstream).await;
}

#[tokio::test]
async fn a_deployment_is_handed_over_and_back_in_the_middle_of_a_rollout() {
    rollout_there_and_back(rollouts::Kind::Deployment).await;
}

#[tokio::test]
async fn a_stateful_set_is_handed_over_and_back_in_the_middle_of_a_rollout() {
    rollout_there_and_back(rollouts::Kind::StatefulSet).await;
}

#[tokio::test]
async fn a_daemon_set_is_handed_over_and_back_in_the_middle_of_a_rollout() {
    rollout_there_and_back(rollouts::Kind::DaemonSet).await;
}

#[tokio::test]
async fn a_budget_is_handed_over_and_back_in_the_middle_of_a_drain() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    budgets::in_a_drain(&Cluster::start_own().await, &ours, &upstream).await;
    budgets::in_a_drain(&Cluster::start_own().await, &upstream, &ours).await;
    budgets::in_a_drain(&Cluster::start_embedded().await, &ours, &upstream).await;
}

#[tokio::test]
async fn runs_are_handed_over_and_back_without_a_second_job() {
    let Some(assets) = assets() else { return };
    runs::there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn kube_controller_manager_takes_runs_over_on_the_embedded_server_too() {
    let Some(assets) = assets() else { return };
    runs::there_and_back(&assets, Cluster::start_embedded().await).await;
}

#[tokio::test]
async fn autoscalers_are_handed_over_and_back_with_their_windows() {
    let Some(assets) = assets() else { return };
    // The embedded API server has no APIServices, and so no metrics.
    autoscaling::there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn attached_volumes_are_handed_over_and_back_and_none_is_attached_or_detached_without_cause() {
    let Some(assets) = assets() else { return };
    attachments::there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn claims_of_devices_are_handed_over_and_back_without_a_write() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    claims::hand_over(&Cluster::start_own().await, &ours, &upstream).await;
    claims::hand_over(&Cluster::start_own().await, &upstream, &ours).await;
    claims::hand_over(&Cluster::start_embedded().await, &ours, &upstream).await;
}

#[tokio::test]
async fn the_slices_of_a_service_are_handed_over_and_back_in_the_middle_of_a_rollout() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    slices::hand_over(&Cluster::start_own().await, &ours, &upstream).await;
    slices::hand_over(&Cluster::start_own().await, &upstream, &ours).await;
    slices::hand_over(&Cluster::start_embedded().await, &ours, &upstream).await;
}

#[tokio::test]
async fn namespaces_are_handed_over_and_back_in_the_middle_of_their_deletion() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    cleaning::namespaces(&Cluster::start_own().await, &ours, &upstream).await;
    cleaning::namespaces(&Cluster::start_own().await, &upstream, &ours).await;
    cleaning::namespaces(&Cluster::start_embedded().await, &ours, &upstream).await;
}

#[tokio::test]
async fn aggregated_roles_are_handed_over_and_back_without_a_change() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    cleaning::roles(&Cluster::start_own().await, &ours, &upstream).await;
    cleaning::roles(&Cluster::start_own().await, &upstream, &ours).await;
    cleaning::roles(&Cluster::start_embedded().await, &ours, &upstream).await;
}

#[tokio::test]
async fn quotas_are_handed_over_and_back_without_a_write() {
    let Some(assets) = assets() else { return };
    quotas::there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn kube_controller_manager_takes_quotas_over_on_the_embedded_server_too() {
    let Some(assets) = assets() else { return };
    quotas::there_and_back(&assets, Cluster::start_embedded().await).await;
}

#[tokio::test]
async fn tolerations_run_on_when_the_manager_is_killed_and_the_other_one_takes_its_place() {
    let Some(assets) = assets() else { return };
    let ours = |kubeconfig: &Path, flags: &[&str]| Manager::start(kubeconfig, flags);
    let upstream = |kubeconfig: &Path, flags: &[&str]| Manager::start_upstream(&assets, kubeconfig, flags);
    nodes::while_a_toleration_runs(Cluster::start_own().await, &ours, &upstream).await;
    nodes::while_a_toleration_runs(Cluster::start_own().await, &upstream, &ours).await;
    nodes::while_a_toleration_runs(Cluster::start_embedded().await, &upstream, &ours).await;
}
