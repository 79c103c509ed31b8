//! What policy is told of cached objects.

use serde_json::{Value, json};
use steersman_informer::View;

use super::super::{SyncedJob, TrackedPod};
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
    };
    assert_eq!(observe(&cached), expected);
    let condemned = Pod::of(View::<TrackedPod>::from_json(&cached).object(), Claim::Owned, true);
    assert_eq!(condemned, expected.untracked());
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
        action: super::super::metrics::Action::Tracking,
    };
    assert_eq!(write.change(&Meta::default()), None);
}
