use super::*;
use crate::deployment::conditions::{self, AVAILABLE, Condition};
use steersman_api::condition::{ConditionStatus, find};

#[test]
fn a_status_sums_up_what_the_sets_report() {
    let mut new = set("new", 5).updated().revision_is("2");
    new.status = SetStatus { replicas: 4, ready: 3, available: 2, terminating: Some(1), ..new.status };
    let mut old = set("old", 3);
    old.status = SetStatus { replicas: 3, ready: 3, available: 3, terminating: Some(2), ..old.status };
    let mut observed = observed(web(8), vec![old, new]);
    observed.deployment.status.collision_count = Some(7);
    let begun = Status::begun(&observed, now());
    let status = Status::counted(&observed, &begun, now());
    let expected = Status {
        observed_generation: 3,
        replicas: 7,
        updated_replicas: 4,
        ready_replicas: 6,
        available_replicas: 5,
        unavailable_replicas: 3,
        terminating_replicas: Some(3),
        conditions: status.conditions.clone(),
        collision_count: Some(7),
    };
    assert_eq!(status, expected);
    observed.counts_terminating = false;
    assert_eq!(Status::counted(&observed, &begun, now()).terminating_replicas, None, "the gate is off");
}

#[test]
fn terminating_pods_are_known_only_if_each_synced_set_tells_them() {
    let untold = |observed_generation| {
        let mut set = set("old", 1);
        set.status.terminating = None;
        set.status.observed_generation = observed_generation;
        set
    };
    for (name, other, expected) in [
        ("told", set("old", 1), Some(0)),
        ("never synced", untold(0), Some(0)),
        ("synced by an older controller", untold(1), None),
    ] {
        let observed = observed(web(2), vec![other, set("new", 1).updated().revision_is("2")]);
        let begun = Status::begun(&observed, now());
        assert_eq!(Status::counted(&observed, &begun, now()).terminating_replicas, expected, "{name}");
    }
}

#[test]
fn more_available_pods_than_wanted_are_not_negatively_unavailable() {
    let observed = observed(web(1), vec![ReplicaSet { replicas: 1, ..set("new", 3) }.updated()]);
    let status = Status::counted(&observed, &Status::default(), now());
    assert_eq!((status.available_replicas, status.unavailable_replicas), (3, 0));
}

#[test]
fn a_deployment_is_available_with_all_but_the_pods_that_may_be_unavailable() {
    for (name, strategy, available, expected) in [
        ("enough", rolling("0", "1"), 2, ConditionStatus::True),
        ("too few", rolling("0", "1"), 1, ConditionStatus::False),
        ("recreate wants all", Strategy::Recreate, 2, ConditionStatus::False),
        ("recreate has all", Strategy::Recreate, 3, ConditionStatus::True),
    ] {
        let deployment = Deployment { strategy, ..web(3) };
        let observed = observed(deployment, vec![set("new", 3).updated().available_are(available)]);
        let status = Status::counted(&observed, &Status::default(), now());
        let condition = find(&status.conditions, AVAILABLE).unwrap();
        let (reason, message) = match expected {
            ConditionStatus::True => ("MinimumReplicasAvailable", "Deployment has minimum availability."),
            _ => ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
        };
        assert_eq!(
            (condition.status, &*condition.reason, &*condition.message),
            (expected, reason, message),
            "{name}"
        );
    }
}

#[test]
fn a_condition_of_the_same_status_and_reason_stays_and_another_one_moves_to_the_end() {
    let condition = |status, reason, seconds| Condition::new("A", status, reason, "", ago(seconds));
    let other = Condition::new("B", ConditionStatus::True, "", "", ago(9));
    let stored = vec![condition(ConditionStatus::True, "X", 9), other.clone()];
    let mut same = stored.clone();
    conditions::set(&mut same, condition(ConditionStatus::True, "X", 0));
    assert_eq!(same, stored);
    let mut other_reason = stored.clone();
    conditions::set(&mut other_reason, condition(ConditionStatus::True, "Y", 0));
    let kept = Condition { last_transition_time: Some(ago(9)), ..condition(ConditionStatus::True, "Y", 0) };
    assert_eq!(other_reason, [other.clone(), kept]);
    let mut other_status = stored;
    conditions::set(&mut other_status, condition(ConditionStatus::False, "X", 0));
    assert_eq!(other_status, [other, condition(ConditionStatus::False, "X", 0)]);
}

#[test]
fn zero_is_left_out_as_go_leaves_it_out() {
    let json = serde_json::to_value(Status { terminating_replicas: Some(0), ..Status::default() }).unwrap();
    assert_eq!(json, serde_json::json!({"terminatingReplicas": 0}));
}

#[test]
fn counts_beyond_32_bits_are_the_greatest_number() {
    let mut set = set("old", i32::MAX);
    set.status.terminating = Some(i32::MAX);
    let other = ReplicaSet { reference: SetRef { uid: "b".into(), ..set.reference.clone() }, ..set.clone() };
    let status = Status::counted(&observed(web(3), vec![set, other]), &Status::default(), now());
    assert_eq!((status.replicas, status.terminating_replicas), (i32::MAX, Some(i32::MAX)));
}
