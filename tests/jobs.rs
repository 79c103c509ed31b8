//! Jobs run to their ends by the manager, as a process, while a test plays the kubelet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use support::jobs::{self, Kubelet, job};
use support::manager::Manager;
use support::real::JOB_CONTROLLER_TOKEN;
use support::{Cluster, eventually, until};

const JOB: &[&str] = &["--controllers=job", "--kube-api-qps=1000", "--kube-api-burst=1000"];

#[tokio::test]
async fn a_job_of_four_completions_two_at_a_time_completes() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("four", json!({ "completions": 4, "parallelism": 2 }))).await;
    let mut done = 0;
    while done < 4 {
        let pods = eventually("two pods run, or as many as are left", || async {
            let pods = jobs::pods(&client).await;
            let active: Vec<_> = pods.into_iter().filter(|pod| phase(pod) == "Pending").collect();
            (active.len() == 2.min(4 - done)).then_some(active)
        })
        .await;
        jobs::mark(&client, pods[0].metadata.name.as_ref().unwrap(), "Succeeded").await.unwrap();
        done += 1;
    }
    let job = jobs::wait_for(&client, "four", "Complete").await;
    let status = job.status.as_ref().unwrap();
    assert_eq!((status.succeeded, status.failed, status.active.unwrap_or(0)), (Some(4), None, 0));
    assert!(jobs::has_condition(&job, "SuccessCriteriaMet"));
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    let pods = jobs::pods(&client).await;
    assert_eq!(pods.len(), 4);
    assert!(
        pods.iter().all(|pod| pod.metadata.finalizers.iter().flatten().next().is_none()),
        "no finalizer is left"
    );
    let reasons = eventually("the end is recorded as an event", || async {
        let events = Api::<Event>::default_namespaced(client.clone());
        let events = events.list(&ListParams::default()).await.ok()?;
        let reasons: BTreeSet<_> = events.items.into_iter().filter_map(|event| event.reason).collect();
        reasons.contains("Completed").then_some(reasons)
    })
    .await;
    assert!(reasons.contains("SuccessfulCreate"), "{reasons:?}");
}

#[tokio::test]
async fn an_indexed_job_gives_each_pod_its_index() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    let spec = json!({ "completions": 5, "parallelism": 3, "completionMode": "Indexed" });
    jobs::create(&client, &job("indexed", spec)).await;
    let job = jobs::wait_for(&client, "indexed", "Complete").await;
    assert_eq!(job.status.unwrap().completed_indexes.as_deref(), Some("0-4"));
    let mut ended = kubelet.ended();
    ended.sort();
    assert_eq!(ended, ["0 Succeeded", "1 Succeeded", "2 Succeeded", "3 Succeeded", "4 Succeeded"]);
    for pod in jobs::pods(&client).await {
        let index = jobs::index(&pod).unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.hostname, Some(format!("indexed-{index}")));
        let names: Vec<_> = spec.containers[0].env.iter().flatten().map(|env| env.name.as_str()).collect();
        assert_eq!(names, ["JOB_COMPLETION_INDEX"]);
        let labels = pod.metadata.labels.unwrap();
        assert_eq!(labels["batch.kubernetes.io/job-completion-index"], index);
    }
}

#[tokio::test]
async fn a_job_whose_pods_fail_too_often_fails() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let _kubelet = Kubelet::start(client.clone(), |_| "Failed");
    jobs::create(&client, &job("failing", json!({ "backoffLimit": 0, "completions": 2 }))).await;
    let job = jobs::wait_for(&client, "failing", "Failed").await;
    assert!(jobs::has_condition(&job, "FailureTarget"));
    let failed = job.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("BackoffLimitExceeded"));
    assert_eq!(failed.message.as_deref(), Some("Job has reached the specified backoff limit"));
}

#[tokio::test]
async fn a_job_past_its_deadline_fails_and_its_pods_go() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("late", json!({ "activeDeadlineSeconds": 1 }))).await;
    let job = jobs::wait_for(&client, "late", "Failed").await;
    let failed = job.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("DeadlineExceeded"));
    eventually("its pod is gone", || async { jobs::pods(&client).await.is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("paused", json!({ "suspend": true }))).await;
    jobs::wait_for(&client, "paused", "Suspended").await;
    assert!(jobs::pods(&client).await.is_empty());
    let api = Api::<Job>::default_namespaced(client.clone());
    let resume = Patch::Merge(json!({ "spec": { "suspend": false } }));
    api.patch("paused", &PatchParams::default(), &resume).await.unwrap();
    eventually("a pod runs", || async { (jobs::pods(&client).await.len() == 1).then_some(()) }).await;
    let suspend = Patch::Merge(json!({ "spec": { "suspend": true } }));
    api.patch("paused", &PatchParams::default(), &suspend).await.unwrap();
    eventually("its pod is gone", || async { jobs::pods(&client).await.is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn the_pods_of_a_deleted_job_are_let_go() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("doomed", json!({ "parallelism": 3, "completions": 3 }))).await;
    eventually("three pods run", || async { (jobs::pods(&client).await.len() == 3).then_some(()) }).await;
    let api = Api::<Job>::default_namespaced(client.clone());
    api.delete("doomed", &DeleteParams::background()).await.unwrap();
    eventually("no pod has a finalizer", || async {
        let held = |pod: &Pod| pod.metadata.finalizers.iter().flatten().next().is_some();
        (!jobs::pods(&client).await.iter().any(held)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_job_of_a_foreign_manager_is_left_alone() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("foreign", json!({ "managedBy": "example.com/other" }))).await;
    jobs::create(&client, &job("ours", json!({}))).await;
    eventually("our job has its pod", || async { (!jobs::pods(&client).await.is_empty()).then_some(()) })
        .await;
    let pods = jobs::pods(&client).await;
    assert!(pods.iter().all(|pod| pod.metadata.generate_name.as_deref() == Some("ours-")), "{pods:?}");
}

#[tokio::test]
async fn an_api_server_that_goes_and_comes_back_costs_no_pod() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    let spec = json!({ "completions": 30, "parallelism": 3, "completionMode": "Indexed" });
    jobs::create(&client, &job("steady", spec)).await;
    until("some indexes have succeeded", || kubelet.ended().len() >= 6).await;
    cluster.restart(Duration::from_secs(1)).await;
    let job = jobs::wait_for(&client, "steady", "Complete").await;
    assert_eq!(job.status.unwrap().succeeded, Some(30));
    let ended: BTreeSet<_> = kubelet.ended().into_iter().collect();
    assert_eq!(ended.len(), 30);
    assert_eq!(kubelet.ended().len(), 30, "no index has two pods");
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

#[tokio::test]
async fn a_job_completes_with_the_rights_of_kubernetes_own_role() {
    if support::real::assets().is_none() {
        println!("the embedded API server asks for no rights: not run");
        return;
    }
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let mut kubeconfig: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["token"] = JOB_CONTROLLER_TOKEN.into();
    std::fs::write(cluster.kubeconfig(), kubeconfig.to_string()).unwrap();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let _kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    jobs::create(&client, &job("two", json!({ "completions": 2, "parallelism": 2 }))).await;
    let job = jobs::wait_for(&client, "two", "Complete").await;
    assert_eq!(job.status.unwrap().succeeded, Some(2));
}
