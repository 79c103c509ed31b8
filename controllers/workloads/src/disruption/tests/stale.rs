//! Which pods have a condition `DisruptionTarget` that is to be taken back, and when; and which changes of pods matter.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_informer::View;

use crate::disruption::GuardedPod;
use crate::disruption::pods::{marked_since, matters};
use crate::disruption::stale::{Marked, TakeBack, plan};

use super::*;

fn target(status: &str, reason: &str, since: Time) -> Value {
    json!({"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": since})
}

fn view(metadata: &Value, phase: &str, conditions: &[Value]) -> View<GuardedPod> {
    let mut pod = json!({
        "metadata": {"name": "a", "namespace": "ns", "uid": "a", "labels": {"app": "a"}},
        "status": {"phase": phase, "conditions": conditions},
    });
    for (member, value) in metadata.as_object().unwrap() {
        pod["metadata"][member] = value.clone();
    }
    View::from_json(&pod)
}

#[test]
fn only_the_condition_of_a_pod_that_nothing_ends_becomes_stale() {
    let since = ago(7);
    let evicted = target("True", "EvictionByEvictionAPI", since);
    let deleting = json!({"deletionTimestamp": since});
    for (name, metadata, phase, conditions, expected) in [
        ("evicted", json!({}), "Running", vec![evicted.clone()], Some(since)),
        (
            "preempted",
            json!({}),
            "Pending",
            vec![target("True", "PreemptionByScheduler", since)],
            Some(since),
        ),
        ("no condition", json!({}), "Running", vec![], None),
        ("taken back", json!({}), "Running", vec![target("False", "", since)], None),
        ("being deleted", deleting, "Running", vec![evicted.clone()], None),
        ("succeeded", json!({}), "Succeeded", vec![evicted.clone()], None),
        ("failed", json!({}), "Failed", vec![evicted.clone()], None),
        ("by the kubelet", json!({}), "Running", vec![target("True", "TerminationByKubelet", since)], None),
    ] {
        assert_eq!(marked_since(&view(&metadata, phase, &conditions)), expected, "{name}");
    }
    let without_time = json!({"type": "DisruptionTarget", "status": "True"});
    assert!(marked_since(&view(&json!({}), "Running", &[without_time])).is_some());
}

#[test]
fn a_condition_is_taken_back_after_two_minutes() {
    let marked = |since| Marked { meta: Meta::default(), since };
    let wait = |seconds| Plan::Done { requeue_after: Some(Duration::from_secs(seconds)) };
    assert_eq!(plan(&marked(Some(ago(119))), now()), wait(1));
    assert_eq!(plan(&marked(Some(ago(120))), now()), Plan::step(TakeBack { now: now() }));
    assert_eq!(plan(&marked(None), now()), Plan::done());
}

#[test]
fn changes_that_no_budget_counts_do_not_matter() {
    let ready = |status: &str| json!({"type": "Ready", "status": status});
    let before = view(&json!({}), "Running", &[ready("True")]);
    let owner = json!([OwnerReference::controller("apps/v1", "ReplicaSet", "set", "set".into())]);
    for (name, after, expected) in [
        ("nothing", view(&json!({"resourceVersion": "2"}), "Running", &[ready("True")]), false),
        ("annotations", view(&json!({"annotations": {"a": "b"}}), "Running", &[ready("True")]), false),
        (
            "another condition",
            view(&json!({}), "Running", &[ready("True"), target("True", "", now())]),
            false,
        ),
        ("readiness", view(&json!({}), "Running", &[ready("False")]), true),
        ("deletion", view(&json!({"deletionTimestamp": now()}), "Running", &[ready("True")]), true),
        ("labels", view(&json!({"labels": {"app": "b"}}), "Running", &[ready("True")]), true),
        ("owner", view(&json!({"ownerReferences": owner}), "Running", &[ready("True")]), true),
        ("another pod of the name", view(&json!({"uid": "b"}), "Running", &[ready("True")]), true),
    ] {
        assert_eq!(matters(&before, &after), expected, "{name}");
    }
}
