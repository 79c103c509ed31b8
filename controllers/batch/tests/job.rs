//! Jobs at work against an API server, whatever happens to caches, calls and processes. The test plays the kubelet.

#![allow(clippy::unwrap_used, reason = "a test that meets what it did not expect should end")]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::testing::{Cluster, settle};
use steersman_controllers_batch::job::construct as job_controller;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A cluster with jobs in it.
struct Jobs {
    cluster: Cluster,
    jobs: Api<DynamicObject>,
    pods: Api<DynamicObject>,
}

fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": name},
        "spec": {"template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }},
    });
    job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    job
}

impl Jobs {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let client = cluster.server.in_memory_client();
        let api = |group: &str, kind: &str| {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
            Api::namespaced_with(client.clone(), "default", &resource)
        };
        Self { jobs: api("batch", "Job"), pods: api("", "Pod"), cluster }
    }

    async fn create(&self, job: &Value) {
        let job: DynamicObject = serde_json::from_value(job.clone()).unwrap();
        self.jobs.create(&PostParams::default(), &job).await.unwrap();
    }

    async fn patch(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.jobs.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn peek(&self, name: &str) -> Value {
        let resource = GroupVersionResource::new("batch", "v1", "jobs");
        self.cluster.server.peek(&resource, &ObjectKey::new("default", name)).unwrap_or_default()
    }

    async fn all_pods(&self) -> Vec<Value> {
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        pods.items.iter().map(|pod| serde_json::to_value(pod).unwrap()).collect()
    }

    /// The pods that have not ended and are not about to.
    async fn active(&self) -> Vec<Value> {
        let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let mut pods = self.all_pods().await;
        pods.retain(|pod| !ended(pod) && pod["metadata"].get("deletionTimestamp").is_none());
        pods
    }

    async fn end(&self, pod: &Value, phase: &str) {
        let now = self.cluster.server.clock().now();
        let status = json!({"status": {"phase": phase, "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "finishedAt": format!("{now:.0}")}},
        }]}});
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Lets a pod's container end with that exit code.
    async fn fail(&self, pod: &Value, code: i32) {
        let now = self.cluster.server.clock().now();
        let status = json!({"status": {"phase": "Failed", "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "finishedAt": format!("{now:.0}")}},
        }]}});
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    async fn end_all(&self, phase: &str) {
        for pod in self.active().await {
            self.end(&pod, phase).await;
        }
    }

    /// Lets all pods succeed until the job has ended, and says how.
    async fn drive(&self, name: &str, phase: &str) -> Value {
        for _ in 0..10_000 {
            let job = self.peek(name);
            let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|c| c["type"] == "Complete" || c["type"] == "Failed") {
                return job;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.end_all(phase).await;
        }
        panic!("the job comes to no end: {:#}", self.peek(name));
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        settle().await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Event"));
        let client = self.cluster.server.in_memory_client();
        let events: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
        let events = events.list(&ListParams::default()).await.unwrap();
        let of_reason = events.items.into_iter().filter(|event| event.data["reason"] == reason);
        of_reason.map(|event| event.data["message"].as_str().unwrap().to_owned()).collect()
    }
}

fn conditions(job: &Value) -> Vec<&str> {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|c| c["status"] == "True").map(|c| c["type"].as_str().unwrap()).collect()
}

fn finalizers(pod: &Value) -> usize {
    pod["metadata"]["finalizers"].as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn a_job_of_four_completions_two_at_a_time_ends_complete() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"completions": 4, "parallelism": 2}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let pods = jobs.active().await;
    assert_eq!(pods.len(), 2);
    let uid = jobs.peek("pi")["metadata"]["uid"].clone();
    for pod in &pods {
        let meta = &pod["metadata"];
        assert_eq!(meta["generateName"], "pi-");
        assert_eq!(meta["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(meta["labels"]["batch.kubernetes.io/controller-uid"], uid);
        assert_eq!(meta["labels"]["app"], "pi");
        assert_eq!(
            meta["ownerReferences"],
            json!([{
                "apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }])
        );
    }
    let status = &jobs.peek("pi")["status"];
    assert_eq!(
        (&status["active"], &status["ready"], &status["terminating"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert_eq!(status["uncountedTerminatedPods"], json!({}));

    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(conditions(&ended), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(ended["status"]["succeeded"], 4);
    assert_eq!(ended["status"].get("active"), None);
    assert!(ended["status"]["completionTime"].is_string() && ended["status"]["startTime"].is_string());
    let pods = jobs.all_pods().await;
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| finalizers(pod) == 0));
    assert_eq!(jobs.events("Completed").await, ["Job completed"]);
    assert_eq!(jobs.events("SuccessfulCreate").await.len(), 4);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_indexed_job_know_their_index() {
    let jobs = Jobs::start().await;
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"});
    jobs.create(&job("pi", &spec)).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let mut pods = jobs.active().await;
    pods.sort_by_key(|pod| pod["metadata"]["annotations"][INDEX].to_string());
    for (index, pod) in pods.iter().enumerate() {
        let index = index.to_string();
        assert_eq!(pod["metadata"]["labels"][INDEX], index);
        assert_eq!(pod["metadata"]["generateName"], format!("pi-{index}-"));
        assert_eq!(pod["spec"]["hostname"], format!("pi-{index}"));
        let variable = &pod["spec"]["containers"][0]["env"][0];
        assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
        assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], format!("metadata.labels['{INDEX}']"));
    }
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(ended["status"]["completedIndexes"], "0,1");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_fail_tries_again_after_ten_seconds_then_twenty_and_gives_up_at_its_limit() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"backoffLimit": 2}))).await;
    let controller = jobs.cluster.run(job_controller);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let begun = tokio::time::Instant::now();
        while jobs.active().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        waits.push(begun.elapsed().as_secs());
        jobs.end_all("Failed").await;
    }
    for (wait, least) in waits.iter().zip([0, 10, 20]) {
        assert!((least..least + 4).contains(wait), "{waits:?}");
    }
    let ended = jobs.drive("pi", "Failed").await;
    assert_eq!(conditions(&ended), ["FailureTarget", "Failed"]);
    assert_eq!(ended["status"]["failed"], 3);
    assert_eq!(jobs.events("BackoffLimitExceeded").await, ["Job has reached the specified backoff limit"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails_and_its_pods_go() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"activeDeadlineSeconds": 30, "parallelism": 3, "completions": 3}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(jobs.active().await.len(), 3);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let ended = jobs.peek("pi");
    assert_eq!(conditions(&ended), ["FailureTarget", "Failed"], "{ended:#}");
    assert_eq!(ended["status"]["failed"], 3);
    assert!(jobs.all_pods().await.is_empty());
    assert_eq!(jobs.events("DeadlineExceeded").await.len(), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_a_resumed_one_starts_anew() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 2, "completions": 4}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    jobs.patch("pi", json!({"suspend": true})).await;
    settle().await;
    let suspended = jobs.peek("pi");
    assert!(jobs.all_pods().await.is_empty());
    assert_eq!(conditions(&suspended), ["Suspended"]);
    assert_eq!(suspended["status"].get("startTime"), None);
    jobs.patch("pi", json!({"suspend": false})).await;
    settle().await;
    let resumed = jobs.peek("pi");
    assert!(conditions(&resumed).is_empty() && resumed["status"]["startTime"].is_string(), "{resumed:#}");
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!((&ended["status"]["succeeded"], ended["status"].get("failed")), (&json!(4), None));
    assert_eq!(jobs.events("Suspended").await, ["Job suspended"]);
    assert_eq!(jobs.events("Resumed").await, ["Job resumed"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_creation_was_not_answered_is_not_made_twice() {
    for failure in
        [Failure::ResetAfterwards, Failure::TimeoutAfterwards, Failure::Reset, Failure::InternalError]
    {
        let jobs = Jobs::start().await;
        let creations = Calls::to("pods").verb(Verb::Create).user_agent("job-controller");
        jobs.cluster.server.faults().fail(3, creations, failure.clone());
        jobs.create(&job("pi", &json!({"parallelism": 5, "completions": 5}))).await;
        let controller = jobs.cluster.run(job_controller);
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(jobs.all_pods().await.len() <= 5, "{failure:?}");
        }
        assert_eq!(jobs.active().await.len(), 5, "{failure:?}");
        let ended = jobs.drive("pi", "Succeeded").await;
        assert_eq!(ended["status"]["succeeded"], 5);
        assert_eq!(jobs.all_pods().await.len(), 5, "{failure:?}");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn caches_that_lag_make_no_pod_too_many_and_count_none_twice() {
    for (resource, lag) in [("pods", 5), ("jobs", 5), ("pods", 90), ("jobs", 90)] {
        let jobs = Jobs::start().await;
        let watches = Calls::to(resource).verb(Verb::Watch);
        jobs.cluster.server.faults().delay_watches(watches, Duration::from_secs(lag));
        jobs.create(&job("pi", &json!({"parallelism": 3, "completions": 6, "backoffLimit": 9}))).await;
        let controller = jobs.cluster.run(job_controller);
        let mut failed = false;
        for _ in 0..3_000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let active = jobs.active().await;
            assert!(active.len() <= 3, "{resource} {lag}");
            if let Some(pod) = active.first().filter(|_| !failed) {
                jobs.end(pod, "Failed").await;
                failed = true;
            }
            jobs.end_all("Succeeded").await;
            if conditions(&jobs.peek("pi")).contains(&"Complete") {
                break;
            }
        }
        let ended = jobs.peek("pi");
        let status = &ended["status"];
        assert_eq!((&status["succeeded"], &status["failed"]), (&json!(6), &json!(1)), "{resource} {lag}");
        assert_eq!(jobs.all_pods().await.len(), 7, "{resource} {lag}");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_finalizer_is_taken_off_once_although_the_cache_of_pods_lags() {
    let jobs = Jobs::start().await;
    let pods = Calls::to("pods");
    jobs.cluster.server.faults().delay_watches(pods.clone().verb(Verb::Watch), Duration::from_millis(500));
    let recording = jobs.cluster.server.record();
    let controller = jobs.cluster.run(job_controller);
    jobs.create(&job("pi", &json!({"parallelism": 10, "completions": 20}))).await;
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(ended["status"]["succeeded"], 20);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let patches = recording.count(&pods.verb(Verb::Patch).user_agent("job-controller"));
    assert_eq!(patches, 20);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_recalls_that_a_pod_has_succeeded_since_one_failed() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 1, "completions": 2}))).await;
    let controller = jobs.cluster.run(job_controller);
    for phase in ["Failed", "Succeeded"] {
        tokio::time::sleep(Duration::from_secs(30)).await;
        jobs.end_all(phase).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(jobs.active().await.len(), 1);
    controller.stop().await;
    let controller = jobs.cluster.run(job_controller);
    // So that the new leader knows its caches to be current, and lists no pods anew.
    jobs.create(&job("other", &json!({"suspend": true}))).await;
    settle().await;
    jobs.end_all("Failed").await;
    let failed = tokio::time::Instant::now();
    while jobs.active().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let wait = failed.elapsed().as_secs();
    assert!(
        (10..14).contains(&wait),
        "the first failure since a success is followed by a wait of 10 s, not of {wait} s"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_been_counted_is_released_once_the_job_does_not_select_it() {
    let quarantine =
        json!({"selector": {"matchExpressions": [{"key": "quarantine", "operator": "DoesNotExist"}]}});
    for (spec, labels) in [
        (json!({}), json!({"batch.kubernetes.io/controller-uid": "another"})),
        (quarantine, json!({"quarantine": "yes"})),
    ] {
        let jobs = Jobs::start().await;
        let mut job = job("pi", &spec);
        job["spec"]["completions"] = 2.into();
        job["spec"]["parallelism"] = 1.into();
        jobs.create(&job).await;
        let controller = jobs.cluster.run(job_controller);
        settle().await;
        let pod = jobs.active().await.remove(0);
        jobs.end(&pod, "Succeeded").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let name = pod["metadata"]["name"].as_str().unwrap();
        let found = async || serde_json::to_value(jobs.pods.get(name).await.unwrap()).unwrap();
        assert_eq!(
            (finalizers(&found().await), jobs.peek("pi")["status"]["succeeded"].as_i64()),
            (0, Some(1))
        );
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        jobs.pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let owners = &found().await["metadata"]["ownerReferences"];
        assert!(owners.as_array().is_none_or(Vec::is_empty), "{spec}: {owners}");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_finished_job_loses_its_finalizer() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let ended = jobs.drive("pi", "Succeeded").await;
    for made_again in [false, true] {
        let name = format!("late-{made_again}");
        jobs.cluster.create(&forged("default", &name, &ended)).await;
        settle().await;
        if made_again {
            // Before the controller looks for the pods of the job that was.
            jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
            jobs.create(&job("pi", &json!({}))).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let pod = serde_json::to_value(jobs.pods.get(&name).await.unwrap()).unwrap();
        assert_eq!(finalizers(&pod), 0, "{pod:#}");
    }
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn processes_that_die_in_the_middle_of_a_call_lose_no_index_and_do_none_twice() {
    let jobs = Jobs::start().await;
    let spec = json!({"parallelism": 4, "completions": 20, "completionMode": "Indexed", "backoffLimit": 0});
    jobs.create(&job("pi", &spec)).await;
    let by_us = |calls: Calls| calls.user_agent("job-controller");
    let calls = [
        Calls::to("pods").verb(Verb::Create),
        Calls::to("pods").verb(Verb::Patch),
        Calls::to("jobs").subresource("status"),
    ];
    for round in 0..24 {
        let faults = jobs.cluster.server.faults();
        let failure = if round % 2 == 0 { Failure::HangAfterwards } else { Failure::Hang };
        faults.fail(1, by_us(calls[round / 2 % 3].clone()), failure);
        let controller = jobs.cluster.run(job_controller);
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert!(jobs.active().await.len() <= 4);
            if faults.pending() == 0 {
                break;
            }
            if let Some(pod) = jobs.active().await.first() {
                jobs.end(pod, "Succeeded").await;
            }
        }
        // As SIGKILL would: what is under way is never heard of again.
        drop(controller);
        faults.clear();
    }
    let controller = jobs.cluster.run(job_controller);
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(conditions(&ended), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(ended["status"]["completedIndexes"], "0-19");
    assert_eq!(ended["status"].get("failed"), None);
    let mut of_index = BTreeMap::<String, usize>::new();
    for pod in jobs.all_pods().await {
        assert_eq!(finalizers(&pod), 0);
        *of_index.entry(pod["metadata"]["annotations"][INDEX].to_string()).or_default() += 1;
    }
    assert_eq!(of_index.len(), 20);
    assert!(of_index.values().all(|pods| *pods == 1), "{of_index:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_about_a_job_at_which_nothing_changes_also_by_the_next_to_lead() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 3, "completions": 3}))).await;
    let first = jobs.cluster.run(job_controller);
    settle().await;
    let recording = jobs.cluster.server.record();
    settle().await;
    first.stop().await;
    let second = jobs.cluster.run(job_controller);
    settle().await;
    assert!(recording.writes().is_empty(), "{:?}", recording.writes());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_deleted_job_lose_their_finalizers() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 3, "completions": 3}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let pods = jobs.active().await;
    jobs.end(&pods[0], "Succeeded").await;
    jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
    // As the garbage collector would.
    for pod in &pods {
        jobs.pods.delete(pod["metadata"]["name"].as_str().unwrap(), &DeleteParams::default()).await.unwrap();
    }
    settle().await;
    settle().await;
    assert!(jobs.all_pods().await.is_empty());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_seen_only_after_their_job_went_lose_their_finalizers_too() {
    let jobs = Jobs::start().await;
    let watches = Calls::to("pods").verb(Verb::Watch);
    jobs.cluster.server.faults().delay_watches(watches, Duration::from_secs(5));
    let controller = jobs.cluster.run(job_controller);
    jobs.create(&job("pi", &json!({"parallelism": 3, "completions": 3}))).await;
    while jobs.active().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // No garbage collector deletes the pods.
    jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(jobs.all_pods().await.iter().map(finalizers).collect::<Vec<_>>(), [0, 0, 0]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_with_the_right_labels_is_adopted_in_place_of_a_new_pod() {
    let jobs = Jobs::start().await;
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "bare", "labels": {"app": "pi"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    jobs.cluster.create(&bare).await;
    let selector = json!({"manualSelector": true, "selector": {"matchLabels": {"app": "pi"}}});
    jobs.create(&job("pi", &selector)).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    assert_eq!(jobs.active().await.len(), 1);
    let bare = jobs.cluster.peek("pods", "default/bare");
    assert_eq!(bare["metadata"]["ownerReferences"][0]["name"], "pi", "{bare:#}");
    assert_eq!(finalizers(&bare), 1);
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(conditions(&ended), ["SuccessCriteriaMet", "Complete"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_manager_gets_no_pods_and_is_counted() {
    let jobs = Jobs::start().await;
    jobs.create(&job("theirs", &json!({"managedBy": "example.com/other"}))).await;
    jobs.create(&job("ours", &json!({"managedBy": "kubernetes.io/job-controller"}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let pods = jobs.active().await;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["name"], "ours");
    let status = jobs.peek("theirs")["status"].clone();
    assert!(status.is_null() || status == json!({}), "{status}");
    let of_others =
        r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/other"}"#;
    assert_eq!(counted(&controller, of_others), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_and_failures_are_counted_by_the_policies_that_decide_about_them() {
    let jobs = Jobs::start().await;
    let codes = |action: &str, code: i32| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "podFailurePolicy": {"rules": [codes("Ignore", 2), codes("FailIndex", 3), codes("Count", 4)]},
    });
    jobs.create(&job("pi", &spec)).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let mut first = jobs.active().await;
    first.sort_by_key(|pod| pod["metadata"]["labels"][INDEX].to_string());
    for (pod, code) in first.iter().zip(2..) {
        jobs.fail(pod, code).await;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    let mut second = jobs.active().await;
    second.sort_by_key(|pod| pod["metadata"]["labels"][INDEX].to_string());
    let failures: Vec<_> = second
        .iter()
        .map(|pod| {
            let annotations = &pod["metadata"]["annotations"];
            let of = |name: &str| annotations[format!("batch.kubernetes.io/{name}")].clone();
            (of("job-completion-index"), of("job-index-failure-count"), of("job-index-ignored-failure-count"))
        })
        .collect();
    assert_eq!(failures, [(json!("0"), json!("0"), json!("1")), (json!("2"), json!("1"), Value::Null)]);
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(conditions(&ended), ["FailureTarget", "Failed"]);
    assert_eq!(
        (&ended["status"]["completedIndexes"], &ended["status"]["failedIndexes"], &ended["status"]["failed"]),
        (&json!("0,2"), &json!("1"), &json!(2))
    );
    let policy = "job_controller_pod_failures_handled_by_failure_policy_total";
    let indexes = "job_controller_job_finished_indexes_total";
    let jobs_finished = "job_controller_jobs_finished_total";
    for (series, number) in [
        (format!(r#"{policy}{{action="Ignore"}}"#), 1),
        (format!(r#"{policy}{{action="FailIndex"}}"#), 1),
        (format!(r#"{policy}{{action="Count"}}"#), 1),
        (format!(r#"{indexes}{{backoffLimit="perIndex",status="succeeded"}}"#), 2),
        (format!(r#"{indexes}{{backoffLimit="perIndex",status="failed"}}"#), 1),
        (
            format!(r#"{jobs_finished}{{completion_mode="Indexed",reason="FailedIndexes",result="failed"}}"#),
            1,
        ),
        (r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"}"#.to_owned(), 3),
        (
            r#"job_controller_job_pods_creation_total{reason="recreate_failed",status="succeeded"}"#
                .to_owned(),
            2,
        ),
    ] {
        assert_eq!(counted(&controller, &series), number, "{series}");
    }
    assert_eq!(jobs.events("FailedIndexes").await, ["Job has failed indexes"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_in_which_pods_are_counted_writes_the_status_once_while_others_run() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 10, "completions": 40}))).await;
    let recording = jobs.cluster.server.record();
    let controller = jobs.cluster.run(job_controller);
    // Half of the pods end each second: ten rounds, and one for the last pods.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for pod in jobs.active().await.iter().take(5) {
            jobs.end(pod, "Succeeded").await;
        }
        if conditions(&jobs.peek("pi")).contains(&"Complete") {
            break;
        }
    }
    assert_eq!(jobs.peek("pi")["status"]["succeeded"], 40);
    let calls = |calls: Calls| recording.count(&calls.user_agent("job-controller"));
    // A patch may be sent again: where the machine is busy, the paused clock runs ahead of answers that are on their way.
    let patches = recording.matching(&Calls::to("pods").verb(Verb::Patch).user_agent("job-controller"));
    let released: BTreeSet<_> = patches.into_iter().map(|patch| patch.name).collect();
    assert_eq!((calls(Calls::to("pods").verb(Verb::Create)), released.len()), (40, 40));
    let writes = calls(Calls::to("jobs").subresource("status"));
    assert!(writes <= 13, "{writes} writes of the status");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_its_way_to_its_end_wakes_its_job_only_where_that_changes_something() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tracking =
        r#"job_controller_job_syncs_total{action="tracking",completion_mode="NonIndexed",result="success"}"#;
    let pod = jobs.active().await.remove(0);
    let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    let running = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}});
    for (status, wakes) in [
        (json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}), 0),
        (json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]}), 0),
        (json!({"conditions": ready("True")}), 1),
        (json!({"hostIP": "10.0.0.2"}), 0),
    ] {
        let before = counted(&controller, tracking);
        jobs.cluster.patch_status("Pod", &key, status.clone()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let syncs = counted(&controller, tracking) - before;
        // The echo of a status that a sync writes wakes the job once more.
        assert_eq!(syncs, 2 * wakes, "{status}");
    }
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_selector_ceases_to_mean_is_let_go_and_replaced() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let pod = jobs.active().await.remove(0);
    let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    let label = json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "another"}}});
    jobs.cluster.patch("Pod", &key, label).await;
    settle().await;
    assert_eq!(jobs.active().await.len(), 2);
    let let_go = jobs.cluster.peek("pods", &key);
    assert_eq!((let_go["metadata"].get("ownerReferences"), finalizers(&let_go)), (None, 0), "{let_go:#}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn syncs_pods_and_ends_are_counted_under_upstreams_names() {
    let jobs = Jobs::start().await;
    let lag = Duration::from_secs(2);
    jobs.cluster.server.faults().delay_watches(Calls::to("pods").verb(Verb::Watch), lag);
    jobs.create(&job("pi", &json!({"parallelism": 2, "completions": 2}))).await;
    let controller = jobs.cluster.run(job_controller);
    jobs.drive("pi", "Succeeded").await;
    tokio::time::sleep(2 * lag).await;
    let text = prometheus::TextEncoder::new().encode_to_string(&controller.metrics.gather()).unwrap();
    for line in [
        r#"job_controller_jobs_finished_total{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"} 1"#,
        r#"job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 2"#,
        r#"job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 0"#,
        r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"} 2"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="add"} 2"#,
        r#"job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 2"#,
        r#"job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"} 1"#,
        r#"job_controller_stale_sync_skips_total{group="",resource="pods"}"#,
        r#"job_controller_job_sync_duration_seconds_bucket{action="tracking",completion_mode="NonIndexed",result="success",le="0.004"}"#,
    ] {
        assert!(text.contains(line), "{line}");
    }
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_has_no_room_is_asked_for_few_pods() {
    let jobs = Jobs::start().await;
    let status = steersman_api::Status::failure(403, "Forbidden", "exceeded quota: pods");
    let creations = Calls::to("pods").verb(Verb::Create);
    jobs.cluster.server.faults().fail(usize::MAX, creations.clone(), Failure::Status(Box::new(status)));
    let recording = jobs.cluster.server.record();
    jobs.create(&job("pi", &json!({"parallelism": 100, "completions": 100}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = recording.count(&creations);
    assert!((3..20).contains(&asked), "{asked} in a minute");
    let events = jobs.events("FailedCreate").await;
    assert_eq!(events, ["Error creating: exceeded quota: pods"]);
    jobs.cluster.server.faults().clear();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(jobs.active().await.len(), 100);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_is_asked_for_one_pod() {
    let jobs = Jobs::start().await;
    let status: steersman_api::Status = serde_json::from_value(json!({
        "status": "Failure", "code": 403, "reason": "Forbidden", "message": "the namespace is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]},
    }))
    .unwrap();
    let creations = Calls::to("pods").verb(Verb::Create);
    jobs.cluster.server.faults().fail(usize::MAX, creations.clone(), Failure::Status(Box::new(status)));
    let recording = jobs.cluster.server.record();
    jobs.create(&job("pi", &json!({"parallelism": 100, "completions": 100}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Nothing brings such a namespace back. The second creation follows the echo of the first status.
    let asked = recording.count(&creations);
    assert!((1..=2).contains(&asked), "{asked} in a minute");
    assert_eq!(jobs.events("FailedCreate").await, [""; 0]);
    let text = prometheus::TextEncoder::new().encode_to_string(&controller.metrics.gather()).unwrap();
    assert!(
        !text.contains("job_controller_job_pods_creation_total{"),
        "no pod was made, and none failed: {text}"
    );
    controller.stop().await;
}

/// A pod that names the job as its owner, whatever the job knows of it.
fn forged(namespace: &str, name: &str, job: &Value) -> Value {
    let uid = &job["metadata"]["uid"];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name,
            "labels": {"batch.kubernetes.io/controller-uid": uid, "app": "pi"},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": uid, "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_namespace_that_names_the_job_as_its_owner_does_not_count() {
    let jobs = Jobs::start().await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    jobs.create(&job("pi", &json!({"parallelism": 2, "completions": 2, "suspend": true}))).await;
    settle().await;
    jobs.cluster.create(&forged("kube-public", "forged", &jobs.peek("pi"))).await;
    jobs.patch("pi", json!({"suspend": false})).await;
    settle().await;
    let status = &jobs.peek("pi")["status"];
    assert_eq!((jobs.active().await.len(), &status["active"]), (2, &json!(2)));
    let ended = jobs.drive("pi", "Succeeded").await;
    assert_eq!(conditions(&ended), ["SuccessCriteriaMet", "Complete"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_taken_off_in_the_namespace_of_their_pods() {
    let jobs = Jobs::start().await;
    let controller = jobs.cluster.run(job_controller);
    jobs.create(&job("pi", &json!({"parallelism": 8, "completions": 8}))).await;
    settle().await;
    let job = jobs.peek("pi");
    // Their own syncs do not get them out of the way.
    let elsewhere = Calls::to("pods").verb(Verb::Patch).namespace("kube-public");
    jobs.cluster.server.faults().fail(usize::MAX, elsewhere, Failure::InternalError);
    for at in 0..8 {
        jobs.cluster.create(&forged("kube-public", &format!("forged-{at}"), &job)).await;
    }
    settle().await;
    let recording = jobs.cluster.server.record();
    jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(jobs.all_pods().await.iter().map(finalizers).collect::<Vec<_>>(), [0; 8]);
    let patches = recording.matching(&Calls::to("pods").verb(Verb::Patch));
    let patches: Vec<_> = patches.iter().map(|call| format!("{call:?}")).collect();
    let (elsewhere, here): (Vec<_>, Vec<_>) = patches.iter().partition(|patch| patch.contains("kube-public"));
    assert!(elsewhere.iter().all(|patch| patch.contains("kube-public/forged-")), "{elsewhere:?}");
    assert!(here.iter().all(|patch| patch.ends_with("-> 200")), "{here:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_keeps_no_finalizer_of_a_deleted_job() {
    let jobs = Jobs::start().await;
    jobs.cluster.server.faults().spoil(Calls::to("pods").verb(Verb::Watch), "bad");
    jobs.create(&job("pi", &json!({"suspend": true}))).await;
    for name in ["bad", "good"] {
        jobs.cluster.create(&forged("default", name, &jobs.peek("pi"))).await;
    }
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(jobs.all_pods().await.iter().map(finalizers).collect::<Vec<_>>(), [0, 0]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_keeps_no_other_from_adopting() {
    let jobs = Jobs::start().await;
    jobs.cluster.server.faults().spoil(Calls::to("jobs").verb(Verb::Watch), "bad");
    for name in ["bad", "pi"] {
        jobs.create(&job(name, &json!({"completions": 2}))).await;
    }
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let mut free = forged("default", "free", &jobs.peek("pi"));
    for held in ["ownerReferences", "finalizers"] {
        free["metadata"].as_object_mut().unwrap().remove(held);
    }
    free["status"] = json!({"phase": "Succeeded"});
    jobs.cluster.create(&free).await;
    settle().await;
    let adopted = jobs.cluster.peek("pods", "default/free");
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "pi", "{adopted:#}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_with_an_empty_selector_adopts_a_pod_as_it_appears() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"manualSelector": true, "selector": {}, "completions": 2}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let mut free = forged("default", "free", &jobs.peek("pi"));
    for held in ["ownerReferences", "finalizers"] {
        free["metadata"].as_object_mut().unwrap().remove(held);
    }
    free["status"] = json!({"phase": "Succeeded"});
    jobs.cluster.create(&free).await;
    settle().await;
    let adopted = jobs.cluster.peek("pods", "default/free");
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "pi", "{adopted:#}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_is_asked_for_once_on_behalf_of_all_its_pods() {
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({"parallelism": 40, "completions": 40}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let pods = jobs.active().await;
    assert_eq!(pods.len(), 40);
    let recording = jobs.cluster.server.record();
    jobs.jobs.delete("pi", &DeleteParams::background()).await.unwrap();
    // As the garbage collector would.
    for pod in &pods {
        jobs.pods.delete(pod["metadata"]["name"].as_str().unwrap(), &DeleteParams::default()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(jobs.all_pods().await.is_empty());
    let reads = recording.count(&Calls::to("jobs").verb(Verb::Get).user_agent("job-controller"));
    // Once more for pods whose deletion is seen while the first sync is under way.
    assert!((1..=2).contains(&reads), "{reads} reads");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_are_refused_fails_at_its_deadline_all_the_same() {
    let jobs = Jobs::start().await;
    let status = steersman_api::Status::failure(403, "Forbidden", "exceeded quota: pods");
    let creations = Calls::to("pods").verb(Verb::Create);
    jobs.cluster.server.faults().fail(usize::MAX, creations.clone(), Failure::Status(Box::new(status)));
    let recording = jobs.cluster.server.record();
    let begun = tokio::time::Instant::now();
    jobs.create(&job("pi", &json!({"activeDeadlineSeconds": 100}))).await;
    let controller = jobs.cluster.run(job_controller);
    jobs.drive("pi", "Succeeded").await;
    let took = begun.elapsed().as_secs();
    assert!((100..105).contains(&took), "failed after {took}s");
    let asked = recording.count(&creations);
    assert!(asked < 10, "asked {asked} times for a pod in spite of the back-off");
    controller.stop().await;
}

/// The value of a series of the controller; zero if there is none.
fn counted(controller: &steersman_controller::testing::Running, series: &str) -> u64 {
    let text = prometheus::TextEncoder::new().encode_to_string(&controller.metrics.gather()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn syncs_are_counted_by_what_they_did_as_upstream_does() {
    let syncs = |action: &str| {
        let labels = format!(r#"action="{action}",completion_mode="NonIndexed",result="success""#);
        format!("job_controller_job_syncs_total{{{labels}}}")
    };
    for (name, spec, action) in [
        ("suspended, though there is no pod to delete", json!({"suspend": true}), "pods_deleted"),
        ("failed by its deadline", json!({"activeDeadlineSeconds": 0}), "reconciling"),
    ] {
        let jobs = Jobs::start().await;
        jobs.create(&job("pi", &spec)).await;
        let controller = jobs.cluster.run(job_controller);
        settle().await;
        let others = ["pods_deleted", "reconciling", "pods_created", "tracking"];
        for other in others.into_iter().filter(|other| *other != action) {
            assert_eq!(counted(&controller, &syncs(other)), 0, "{name}: {other}");
        }
        assert!(counted(&controller, &syncs(action)) > 0, "{name}");
        controller.stop().await;
    }
    // While it waits to replace a pod that failed, upstream counts what it waits to do.
    let jobs = Jobs::start().await;
    jobs.create(&job("pi", &json!({}))).await;
    let controller = jobs.cluster.run(job_controller);
    settle().await;
    let before = counted(&controller, &syncs("pods_created"));
    let tracking = counted(&controller, &syncs("tracking"));
    jobs.end_all("Failed").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(counted(&controller, &syncs("pods_created")) > before);
    assert_eq!(counted(&controller, &syncs("tracking")), tracking);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_for_its_cache_is_counted_once_however_often_it_is_woken() {
    let jobs = Jobs::start().await;
    let watches = Calls::to("pods").verb(Verb::Watch);
    jobs.cluster.server.faults().delay_watches(watches, Duration::from_secs(3));
    jobs.create(&job("pi", &json!({"parallelism": 30, "completions": 30}))).await;
    let controller = jobs.cluster.run(job_controller);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(jobs.active().await.len(), 30);
    let skips = counted(&controller, r#"job_controller_stale_sync_skips_total{group="",resource="pods"}"#);
    assert!((1..=2).contains(&skips), "{skips} skips");
    controller.stop().await;
}
