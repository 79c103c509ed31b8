//! What policy is told of cached objects.

use serde_json::{Value, json};
use steersman_informer::View;

use super::super::{SyncedJob, TrackedPod, pods};
use super::*;
use steersman_kinds::job::JobStatus;

fn observe(pod: &Value) -> Pod {
    Pod::of(View::<TrackedPod>::from_json(pod).object(), Claim::Owned, false)
}

#[test]
fn a_pod_is_seen_as_it_is_cached() {
    let cached = json!({
        "metadata": {
            "name": "pi-0-x", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z",
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "finalizers": ["other", "batch.kubernetes.io/job-tracking"],
        },
        "spec": {
            "nodeName": "n", "containers": [{"name": "main"}],
            "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"}],
            "containerStatuses": [{"name": "main", "restartCount": 2}],
            "initContainerStatuses": [{"name": "setup", "restartCount": 4}, {"name": "proxy", "restartCount": 1}],
        },
    });
    let expected = Pod {
        name: "pi-0-x".into(),
        uid: "u".into(),
        claim: Claim::Owned,
        phase: Phase::Running,
        deletion: Deletion::No,
        tracked: true,
        ready: Some(Some(second(9))),
        scheduled: true,
        max_restarts: (2, 1),
        restarts: 7,
        created: Some(second(1)),
        finished_at: second(1),
        index: Some(3),
        earlier: IndexFailures::default(),
        failure: PodFailure::default(),
    }
    .condition("Ready", ConditionStatus::True);
    assert_eq!(observe(&cached), expected);
    let condemned = Pod::of(View::<TrackedPod>::from_json(&cached).object(), Claim::Owned, true);
    assert_eq!(condemned, expected.untracked());
}

#[test]
fn a_pod_is_settled_once_it_has_succeeded_and_is_counted_and_its_job_keeps_it() {
    let settled = json!({
        "metadata": {
            "name": "pi-x", "uid": "u", "labels": {"batch.kubernetes.io/controller-uid": "job"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "job", "controller": true}],
        },
        "status": {"phase": "Succeeded"},
    });
    let is_settled = |change: &Value| pods::is_settled(&View::from_json(&merged(settled.clone(), change)));
    assert!(is_settled(&json!({})));
    for change in [
        json!({"status": {"phase": "Running"}}),
        // The pod failure policy may decide by it.
        json!({"status": {"phase": "Failed"}}),
        json!({"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}),
        json!({"metadata": {"ownerReferences": []}}),
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "job"},
        ]}}),
        // The job does not select the pod.
        json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": ""}}}),
        json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "another"}}}),
    ] {
        assert!(!is_settled(&change), "{change}");
    }
}

#[test]
fn a_job_selects_by_its_uid_alone_unless_its_author_has_written_a_selector() {
    let uid = json!({"batch.kubernetes.io/controller-uid": "job"});
    for (selector, expected) in [
        (json!({"matchLabels": uid}), true),
        (json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "another"}}), false),
        (json!({"matchLabels": {"controller-uid": "job"}}), false),
        (json!({"matchLabels": merged(uid.clone(), &json!({"app": "pi"}))}), false),
        (json!({"matchLabels": uid, "matchExpressions": [{"key": "app", "operator": "Exists"}]}), false),
        (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), false),
        (json!({}), false),
    ] {
        let job = View::<SyncedJob>::from_json(
            &json!({"metadata": {"name": "pi"}, "spec": {"selector": selector}}),
        );
        assert_eq!(pods::selects_by_uid(job.get(), &Uid::from("job")), expected, "{selector}");
    }
}

#[test]
fn a_pod_finished_when_its_containers_did_else_when_it_was_not_ready_any_more_else_when_it_was_deleted() {
    let ended = |at: &str| json!({"name": "c", "state": {"terminated": {"exitCode": 0, "finishedAt": at}}});
    let (ten, twenty) = ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z");
    let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:05Z"}]);
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z"}]);
    let deleted = json!({"deletionTimestamp": twenty, "deletionGracePeriodSeconds": 13});
    for (status, metadata, at) in [
        (json!({"containerStatuses": [ended(ten), ended(twenty)], "conditions": unready}), json!({}), 20),
        (json!({"containerStatuses": [ended(ten), {"name": "d"}], "conditions": unready}), json!({}), 5),
        // A sidecar ends after the others.
        (
            json!({"containerStatuses": [ended(ten)], "initContainerStatuses": [
                {"name": "proxy", "state": {"terminated": {"exitCode": 0, "finishedAt": twenty}}},
            ]}),
            json!({}),
            20,
        ),
        (json!({"conditions": ready}), deleted.clone(), 7),
        (json!({"conditions": unready}), deleted, 5),
        (json!({"conditions": ready}), json!({}), 1),
    ] {
        let mut pod = json!({
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z"},
            "spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]},
            "status": status,
        });
        pod["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        assert_eq!(observe(&pod).finished_at, second(at), "{pod}");
    }
}

#[test]
fn a_status_that_is_read_and_not_changed_is_not_written() {
    let job = View::<SyncedJob>::from_json(&json!({
        "metadata": {"name": "pi"},
        "status": {
            "active": 1, "ready": 1, "terminating": 0, "succeeded": 2, "failed": 3,
            "startTime": "1970-01-01T00:00:01Z", "completedIndexes": "0-1",
            "uncountedTerminatedPods": {"failed": ["x"]},
            "conditions": [{
                "type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed",
                "lastProbeTime": "1970-01-01T00:00:01Z", "lastTransitionTime": "1970-01-01T00:00:02Z",
            }],
        },
    }));
    let status = Status::of(job.get::<JobStatus>());
    assert_eq!((status.active, status.failed, status.uncounted().1.len()), (1, 3, 1));
    assert_eq!(
        serde_json::to_value(&status).unwrap()["conditions"][0]["lastProbeTime"],
        "1970-01-01T00:00:01Z"
    );
    let write = super::super::status::StatusWrite {
        was: status.clone(),
        is: status,
        backoff: Backoff::default(),
        announcements: Vec::new(),
        handled: Vec::new(),
        rest: super::super::plan::Rest::default(),
    };
    assert_eq!(write.change(&Meta::default()), None);
}

#[test]
fn a_change_matters_only_if_policy_reads_what_changes() {
    let base = json!({
        "metadata": {"name": "a", "uid": "u", "labels": {"app": "pi"}, "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    });
    let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    let failed = json!({"phase": "Failed"});
    for (name, before, after, expected) in [
        ("nothing", json!({}), json!({}), false),
        ("the node", json!({}), json!({"spec": {"nodeName": "n"}}), false),
        ("it runs", json!({}), json!({"status": {"phase": "Running"}}), false),
        (
            "a condition of a pod that runs",
            json!({}),
            json!({"status": condition("DisruptionTarget")}),
            false,
        ),
        ("an annotation", json!({}), json!({"metadata": {"annotations": {"x": "y"}}}), false),
        ("it is ready", json!({}), json!({"status": condition("Ready")}), true),
        ("it fails", json!({}), json!({"status": failed}), true),
        (
            "a condition of a pod that has failed",
            json!({"status": failed}),
            json!({"status": condition("DisruptionTarget")}),
            true,
        ),
        (
            "a restart",
            json!({}),
            json!({"status": {"containerStatuses": [{"name": "c", "restartCount": 1}]}}),
            true,
        ),
        ("its deletion", json!({}), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true),
        ("the finalizer", json!({}), json!({"metadata": {"finalizers": []}}), true),
        ("a label", json!({}), json!({"metadata": {"labels": {"app": "other"}}}), true),
        (
            "the owner",
            json!({}),
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "j", "controller": true},
            ]}}),
            true,
        ),
        (
            "the index",
            json!({}),
            json!({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}}}),
            true,
        ),
    ] {
        let old = merged(base.clone(), &before);
        let new = merged(old.clone(), &after);
        let [old, new] = [old, new].map(|pod| View::<TrackedPod>::from_json(&pod));
        assert_eq!(super::super::pods::matters(&old, &new), expected, "{name}");
    }
}

/// Merges objects, as a JSON merge patch without nulls does.
fn merged(mut value: Value, patch: &Value) -> Value {
    match (&mut value, patch) {
        (Value::Object(value), Value::Object(patch)) => {
            for (name, patch) in patch {
                let member = value.remove(name).unwrap_or(Value::Null);
                value.insert(name.clone(), merged(member, patch));
            }
        }
        (value, patch) => *value = patch.clone(),
    }
    value
}
