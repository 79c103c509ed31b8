//! Jobs run to their ends by the manager, as a process, while a test plays the kubelet.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

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
    // On a shared server, the manager of another test might finish the Job, and be killed before it records the event.
    let cluster = Cluster::start_own().await;
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

/// A rule of a pod failure policy about one exit code.
fn on_code(action: &str, code: i32) -> serde_json::Value {
    json!({ "action": action, "onExitCodes": { "operator": "In", "values": [code] } })
}

/// The reason and the message of a condition.
fn condition(job: &Job, kind: &str) -> (String, String) {
    let conditions = job.status.as_ref().unwrap().conditions.iter().flatten();
    let found = conditions.clone().find(|condition| condition.type_ == kind).unwrap();
    (found.reason.clone().unwrap_or_default(), found.message.clone().unwrap_or_default())
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap()
}

/// Waits until these are the indexes of the pods that have not ended, and returns the pods in the order of their indexes.
async fn running(client: &kube::Client, indexes: &[&str]) -> Vec<Pod> {
    let what = format!("pods of the indexes {indexes:?} run");
    eventually(&what, || async {
        let mut pods = jobs::pods(client).await;
        pods.retain(|pod| phase(pod) == "Pending" && pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(jobs::index);
        let are: Vec<_> = pods.iter().map(|pod| jobs::index(pod).unwrap_or_default()).collect();
        (are == indexes).then_some(pods)
    })
    .await
}

#[tokio::test]
async fn a_pod_failure_policy_ignores_disruptions_and_ends_the_job_at_an_exit_code() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let disrupted = json!({
        "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
    });
    let spec = json!({
        "backoffLimit": 0, "completions": 2, "parallelism": 2, "completionMode": "Indexed",
        "podFailurePolicy": { "rules": [disrupted, on_code("FailJob", 42)] },
    });
    jobs::create(&client, &job("policy", spec)).await;
    let first = running(&client, &["0", "1"]).await;
    let drained = json!({ "status": { "conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
    }] } });
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.patch_status(name(&first[0]), &PatchParams::default(), &Patch::Merge(drained)).await.unwrap();
    jobs::end(&client, name(&first[0]), 1).await;
    let second = running(&client, &["0", "1"]).await;
    assert_ne!(name(&second[0]), name(&first[0]));
    jobs::end(&client, name(&second[1]), 42).await;
    let job = jobs::wait_for(&client, "policy", "Failed").await;
    let message = format!(
        "Container main for pod {}/{} failed with exit code 42 matching FailJob rule at index 1",
        second[1].metadata.namespace.as_deref().unwrap(),
        name(&second[1])
    );
    assert_eq!(condition(&job, "Failed"), ("PodFailurePolicy".to_owned(), message.clone()));
    assert_eq!(condition(&job, "FailureTarget"), ("PodFailurePolicy".to_owned(), message));
    // The pod that was drained is not among them.
    assert_eq!(job.status.unwrap().failed, Some(2));
}

#[tokio::test]
async fn indexes_fail_independently_of_each_other() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "podFailurePolicy": { "rules": [on_code("FailIndex", 42)] },
    });
    jobs::create(&client, &job("indexes", spec)).await;
    let first = running(&client, &["0", "1", "2"]).await;
    let failures = |pod: &Pod| {
        let annotations = pod.metadata.annotations.clone().unwrap();
        annotations["batch.kubernetes.io/job-index-failure-count"].clone()
    };
    assert!(first.iter().all(|pod| failures(pod) == "0"));
    jobs::end(&client, name(&first[0]), 1).await;
    jobs::end(&client, name(&first[1]), 42).await;
    // Index 0 may try again; index 1 may not.
    let second = running(&client, &["0", "2"]).await;
    assert_eq!(failures(&second[0]), "1");
    jobs::end(&client, name(&second[0]), 1).await;
    jobs::mark(&client, name(&second[1]), "Succeeded").await.unwrap();
    let job = jobs::wait_for(&client, "indexes", "Failed").await;
    let words = ("FailedIndexes".to_owned(), "Job has failed indexes".to_owned());
    assert_eq!(condition(&job, "Failed"), words);
    let status = job.status.unwrap();
    assert_eq!(status.failed_indexes.as_deref(), Some("0,1"));
    assert_eq!((status.completed_indexes.as_deref(), status.failed), (Some("2"), Some(3)));
}

#[tokio::test]
async fn a_job_in_which_too_many_indexes_fail_ends_early() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let spec = json!({
        "completions": 4, "parallelism": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
    });
    jobs::create(&client, &job("limited", spec)).await;
    let first = running(&client, &["0", "1"]).await;
    jobs::end(&client, name(&first[0]), 1).await;
    let second = running(&client, &["1", "2"]).await;
    jobs::end(&client, name(&second[0]), 1).await;
    let job = jobs::wait_for(&client, "limited", "Failed").await;
    let message = "Job has exceeded the specified maximal number of failed indexes";
    assert_eq!(condition(&job, "Failed"), ("MaxFailedIndexesExceeded".to_owned(), message.to_owned()));
    // A pod that the controller has deleted counts as failed, as upstream's rule has it, if the status must be written again after
    // a conflict: index 2 is then among them.
    let failed = job.status.unwrap().failed_indexes;
    assert!(matches!(failed.as_deref(), Some("0,1" | "0-2")), "{failed:?}");
}

#[tokio::test]
async fn a_job_succeeds_by_its_success_policy_before_all_indexes_have() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let rules = json!([{ "succeededIndexes": "3" }, { "succeededIndexes": "0-2", "succeededCount": 1 }]);
    let spec = json!({
        "completions": 4, "parallelism": 3, "completionMode": "Indexed", "successPolicy": { "rules": rules },
    });
    jobs::create(&client, &job("leader", spec)).await;
    let pods = running(&client, &["0", "1", "2"]).await;
    jobs::mark(&client, name(&pods[1]), "Succeeded").await.unwrap();
    let job = jobs::wait_for(&client, "leader", "Complete").await;
    let words = ("SuccessPolicy".to_owned(), "Matched rules at index 1".to_owned());
    assert_eq!(condition(&job, "SuccessCriteriaMet"), words);
    assert_eq!(condition(&job, "Complete"), words);
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.terminating), (Some(1), None, Some(0)));
    assert_eq!(status.completed_indexes.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_pod_is_replaced_once_it_has_failed_if_the_job_says_so() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("patient", json!({ "podReplacementPolicy": "Failed" }))).await;
    let first = running(&client, &[""]).await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.delete(name(&first[0]), &DeleteParams::default()).await.unwrap();
    let api = Api::<Job>::default_namespaced(client.clone());
    eventually("the pod is counted as terminating", || async {
        let status = api.get_status("patient").await.ok()?.status?;
        (status.terminating == Some(1) && status.active.is_none()).then_some(())
    })
    .await;
    assert_eq!(jobs::pods(&client).await.len(), 1, "the pod has no successor yet");
    jobs::end(&client, name(&first[0]), 137).await;
    let second = running(&client, &[""]).await;
    assert_ne!(name(&second[0]), name(&first[0]));
    eventually("the pod is counted as failed", || async {
        let status = api.get_status("patient").await.ok()?.status?;
        (status.terminating == Some(0) && status.failed == Some(1)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_suspended_job_may_be_sent_elsewhere_before_it_is_resumed() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    jobs::create(&client, &job("moved", json!({}))).await;
    running(&client, &[""]).await;
    let api = Api::<Job>::default_namespaced(client.clone());
    let patch = async |spec: serde_json::Value| {
        api.patch("moved", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap()
    };
    patch(json!({ "suspend": true })).await;
    let suspended = jobs::wait_for(&client, "moved", "Suspended").await;
    assert_eq!(suspended.status.unwrap().start_time, None);
    eventually("its pod is gone", || async { jobs::pods(&client).await.is_empty().then_some(()) }).await;
    patch(json!({ "template": { "spec": { "nodeSelector": { "zone": "b" } } } })).await;
    patch(json!({ "suspend": false })).await;
    let resumed = running(&client, &[""]).await;
    let selector = resumed[0].spec.clone().unwrap().node_selector.unwrap();
    assert_eq!(selector["zone"], "b");
    eventually("the job is no longer suspended", || async {
        let job = api.get_status("moved").await.ok()?;
        (!jobs::has_condition(&job, "Suspended")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_indexed_job_is_scaled_down_and_up_again() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let spec = json!({ "completions": 3, "parallelism": 3, "completionMode": "Indexed" });
    jobs::create(&client, &job("elastic", spec)).await;
    let pods = running(&client, &["0", "1", "2"]).await;
    jobs::mark(&client, name(&pods[2]), "Succeeded").await.unwrap();
    let api = Api::<Job>::default_namespaced(client.clone());
    let completed = async |indexes: Option<&str>| {
        eventually(&format!("the completed indexes are {indexes:?}"), || async {
            let status = api.get_status("elastic").await.ok()?.status?;
            (status.completed_indexes.as_deref() == indexes).then_some(())
        })
        .await;
    };
    let scale = async |count: i32| {
        let patch = Patch::Merge(json!({ "spec": { "completions": count, "parallelism": count } }));
        api.patch("elastic", &PatchParams::default(), &patch).await.unwrap();
    };
    completed(Some("2")).await;
    scale(1).await;
    running(&client, &["0"]).await;
    completed(None).await;
    scale(2).await;
    let pods = running(&client, &["0", "1"]).await;
    for pod in &pods {
        jobs::mark(&client, name(pod), "Succeeded").await.unwrap();
    }
    let job = jobs::wait_for(&client, "elastic", "Complete").await;
    assert_eq!(job.status.unwrap().completed_indexes.as_deref(), Some("0,1"));
}
