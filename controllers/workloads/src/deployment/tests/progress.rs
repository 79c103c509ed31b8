use super::*;
use crate::deployment::conditions::{AVAILABLE, Condition, PROGRESSING, REPLICA_FAILURE, progressing};
use crate::deployment::progress;
use steersman_api::condition::{ConditionStatus, find};

const LONG_AGO: i64 = 1000;

fn condition(status: ConditionStatus, reason: &str, seconds: i64) -> Condition {
    Condition::new(PROGRESSING, status, reason, "", ago(seconds))
}

fn updated(seconds: i64) -> Condition {
    condition(ConditionStatus::True, "ReplicaSetUpdated", seconds)
}

fn timed_out() -> Condition {
    condition(ConditionStatus::False, "ProgressDeadlineExceeded", LONG_AGO)
}

fn found_available() -> Condition {
    condition(ConditionStatus::True, "NewReplicaSetAvailable", LONG_AGO)
}

/// A Deployment with a deadline of a minute whose status has these numbers and this condition.
fn deployment(
    replicas: i32,
    [current, updated, available]: [i32; 3],
    progress: Option<Condition>,
) -> Deployment {
    let mut deployment = web(replicas);
    deployment.progress_deadline = Some(Duration::from_secs(60));
    deployment.status = Status {
        replicas: current,
        updated_replicas: updated,
        available_replicas: available,
        observed_generation: deployment.meta.generation,
        conditions: progress.into_iter().collect(),
        ..Status::default()
    };
    deployment
}

fn reports(name: &str, replicas: i32, current: i32, available: i32) -> ReplicaSet {
    let mut set = set(name, replicas);
    (set.status.replicas, set.status.available, set.status.ready) = (current, available, 0);
    set
}

fn status(deployment: Deployment, sets: Vec<ReplicaSet>) -> Status {
    let observed = observed(deployment, sets);
    progress::status(&observed, &Status::begun(&observed, now()), now())
}

#[test]
fn progress_is_a_condition_as_upstream_sets_it() {
    let new = || reports("foo", 3, 2, 2).updated();
    let leaving = || reports("bar", 0, 1, 1);
    let complete = || vec![reports("foo", 3, 3, 3).updated()];
    let (long_ago, now) = (Some(ago(LONG_AGO)), Some(now()));
    for (name, deployment, sets, reason, last_update, last_transition) in [
        (
            "a complete rollout makes no more progress",
            deployment(3, [3, 3, 3], Some(found_available())),
            complete(),
            "NewReplicaSetAvailable",
            long_ago,
            long_ago,
        ),
        (
            "progress moves the time of the update alone",
            deployment(3, [3, 2, 2], Some(updated(LONG_AGO))),
            vec![leaving(), new()],
            "ReplicaSetUpdated",
            now,
            long_ago,
        ),
        (
            "progress after a timeout",
            deployment(3, [3, 2, 2], Some(timed_out())),
            vec![leaving(), new()],
            "ReplicaSetUpdated",
            now,
            now,
        ),
        (
            "the first progress",
            deployment(3, [3, 2, 2], Some(condition(ConditionStatus::Unknown, "", LONG_AGO))),
            vec![leaving(), new()],
            "ReplicaSetUpdated",
            now,
            now,
        ),
        (
            "completion under progress",
            deployment(3, [3, 3, 3], Some(updated(LONG_AGO))),
            complete(),
            "NewReplicaSetAvailable",
            now,
            long_ago,
        ),
        (
            "completion after a timeout",
            deployment(3, [3, 3, 3], Some(timed_out())),
            complete(),
            "NewReplicaSetAvailable",
            now,
            now,
        ),
        (
            "completion without a new set",
            deployment(0, [3, 3, 3], Some(updated(LONG_AGO))),
            vec![reports("foo", 0, 0, 0)],
            "NewReplicaSetAvailable",
            now,
            long_ago,
        ),
        (
            "no progress for too long",
            deployment(3, [2, 2, 2], Some(updated(LONG_AGO))),
            vec![new()],
            "ProgressDeadlineExceeded",
            now,
            now,
        ),
        (
            "no progress, not yet too long",
            deployment(3, [2, 2, 2], Some(updated(60))),
            vec![new()],
            "ReplicaSetUpdated",
            Some(ago(60)),
            Some(ago(60)),
        ),
        (
            "no progress one second too long",
            deployment(3, [2, 2, 2], Some(updated(61))),
            vec![new()],
            "ProgressDeadlineExceeded",
            now,
            now,
        ),
        (
            "a timeout stays",
            deployment(3, [2, 2, 2], Some(timed_out())),
            vec![new()],
            "ProgressDeadlineExceeded",
            long_ago,
            long_ago,
        ),
        (
            "pods that are lost after completion are no rollout",
            deployment(3, [3, 3, 3], Some(found_available())),
            vec![reports("foo", 3, 3, 1).updated()],
            "NewReplicaSetAvailable",
            long_ago,
            long_ago,
        ),
    ] {
        let sets = sets.into_iter().map(|set| set.revision_is("1")).collect();
        let status = status(deployment, sets);
        let found = progressing(&status.conditions).unwrap();
        assert_eq!(
            (&*found.reason, found.last_update_time, found.last_transition_time),
            (reason, last_update, last_transition),
            "{name}"
        );
    }
}

#[test]
fn the_messages_name_the_new_set_or_else_the_deployment() {
    let message = |deployment, sets| {
        let status = status(deployment, sets);
        progressing(&status.conditions).unwrap().message.clone()
    };
    let new = || vec![reports("foo", 3, 2, 2).updated()];
    let complete = || vec![reports("foo", 3, 3, 3).updated()];
    for (expected, deployment, sets) in [
        ("ReplicaSet \"foo\" is progressing.", deployment(3, [1, 1, 1], Some(updated(LONG_AGO))), new()),
        (
            "ReplicaSet \"foo\" has timed out progressing.",
            deployment(3, [2, 2, 2], Some(updated(LONG_AGO))),
            new(),
        ),
        (
            "ReplicaSet \"foo\" has successfully progressed.",
            deployment(3, [2, 2, 2], Some(updated(LONG_AGO))),
            complete(),
        ),
        (
            "Deployment \"web\" has successfully progressed.",
            deployment(0, [1, 1, 1], Some(updated(LONG_AGO))),
            vec![],
        ),
        (
            "Deployment \"web\" has timed out progressing.",
            deployment(2, [0, 0, 0], Some(updated(LONG_AGO))),
            vec![],
        ),
        ("Deployment \"web\" is progressing.", deployment(2, [3, 0, 0], Some(updated(LONG_AGO))), vec![]),
    ] {
        assert_eq!(message(deployment, sets), expected);
    }
}

#[test]
fn a_deployment_without_a_deadline_has_no_progress() {
    let deployment =
        Deployment { progress_deadline: None, ..deployment(3, [3, 2, 2], Some(updated(LONG_AGO))) };
    let status = status(deployment, vec![reports("foo", 3, 2, 2).updated()]);
    assert!(progressing(&status.conditions).is_none());
    assert!(find(&status.conditions, AVAILABLE).is_some());
}

#[test]
fn more_updated_ready_or_available_pods_or_fewer_old_ones_are_progress() {
    for (name, before, after, expected) in [
        ("updated pods", [10, 4, 4, 4], [10, 6, 4, 4], true),
        ("nothing", [10, 4, 4, 4], [10, 4, 4, 4], false),
        ("old pods are gone", [10, 4, 6, 6], [8, 4, 6, 6], true),
        ("fewer new pods", [10, 7, 3, 3], [10, 6, 3, 3], false),
        ("fewer pods, more of them new", [10, 4, 7, 7], [8, 8, 5, 5], true),
        ("ready pods", [10, 10, 9, 8], [10, 10, 10, 8], true),
        ("available pods", [10, 10, 10, 9], [10, 10, 10, 10], true),
    ] {
        let [before, after] = [before, after].map(|[replicas, updated, ready, available]| Status {
            replicas,
            updated_replicas: updated,
            ready_replicas: ready,
            available_replicas: available,
            ..Status::default()
        });
        assert_eq!(progress::made_progress(&before, &after), expected, "{name}");
    }
}

#[test]
fn a_rollout_is_complete_with_all_pods_updated_and_available_and_no_old_ones() {
    for (name, desired, [current, updated, available], expected) in [
        ("one is not available", 5, [5, 5, 4], false),
        ("complete", 5, [5, 5, 5], true),
        ("one is not updated", 5, [5, 4, 5], false),
        ("an old one runs", 1, [2, 1, 1], false),
        ("the only one never comes up", 1, [1, 1, 0], false),
    ] {
        let mut deployment = deployment(desired, [current, updated, available], None);
        assert_eq!(deployment.status.is_complete(&deployment), expected, "{name}");
        deployment.meta.generation += 1;
        assert!(!deployment.status.is_complete(&deployment), "{name}: an earlier generation");
    }
}

#[test]
fn a_rollout_that_is_stuck_is_looked_at_again_a_second_after_its_deadline() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let unlimited = Deployment { progress_deadline: None, ..deployment(4, [3, 3, 2], Some(updated(30))) };
    for (name, deployment, expected) in [
        ("no deadline", unlimited, None),
        ("no progress so far", deployment(4, [3, 3, 2], None), None),
        ("complete", deployment(3, [3, 3, 3], Some(found_available())), None),
        ("timed out", deployment(3, [3, 3, 0], Some(timed_out())), None),
        ("half a minute is left", deployment(3, [3, 3, 1], Some(updated(30))), seconds(31)),
        ("a second is left", deployment(3, [3, 3, 1], Some(updated(59))), seconds(2)),
        ("the deadline is now", deployment(3, [3, 3, 1], Some(updated(60))), seconds(1)),
        ("a complete rollout has lost pods", deployment(3, [3, 3, 1], Some(found_available())), None),
    ] {
        assert_eq!(progress::requeue_after(&deployment, now()), expected, "{name}");
    }
}

#[test]
fn failures_of_sets_are_failures_of_the_deployment_and_go_with_them() {
    let failing = |set: ReplicaSet, message: &str| {
        let mut set = set;
        let failure = Condition::new(REPLICA_FAILURE, ConditionStatus::True, "FailedCreate", message, ago(9));
        set.status.failure = Some(failure);
        set
    };
    let message = |sets| {
        let status = status(deployment(3, [3, 3, 1], Some(updated(30))), sets);
        find(&status.conditions, REPLICA_FAILURE).map(|condition| condition.message.to_string())
    };
    let (old, older, new) = (|| set("b", 1).age(200), || set("a", 1).age(300), || set("new", 1).updated());
    assert_eq!(message(vec![failing(old(), "old"), failing(older(), "older"), new()]).unwrap(), "older");
    assert_eq!(message(vec![failing(old(), "old"), failing(new(), "new")]).unwrap(), "new");
    assert_eq!(message(vec![old(), new()]), None);
}
