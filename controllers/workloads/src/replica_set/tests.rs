use std::time::Duration;

use steersman_api::{ArcStr, Deletion, Meta, ObjectKey, Time, Uid};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::controller::{StepResult, SyncError};
use steersman_controller::plan::{Pace, Plan};

use super::observed::{Done, Features, Observed, Owner};
use super::plan::{Outcome, Step, plan};
use super::pods::{Phase, Pod};
use super::status::{REPLICA_FAILURE, Status};

const NOW: i64 = 1_000_000;

fn ago(seconds: i64) -> Time {
    Time::from_seconds(NOW - seconds)
}

fn now() -> Time {
    ago(0)
}

fn pod(name: &str) -> Pod {
    Pod {
        key: ObjectKey::new("ns", name),
        uid: Uid::from(name),
        claim: Claim::Owned,
        labels: [("app", "a")].into_iter().collect(),
        phase: Phase::Running,
        deleting: false,
        ready: Some(Some(ago(100))),
        node: "node".into(),
        deletion_cost: 0,
        max_restarts: (0, 0),
        created: Some(ago(100)),
    }
}

fn owner(replicas: usize, pods: Vec<Pod>) -> Observed {
    let meta = Meta { key: ObjectKey::new("ns", "set"), uid: "set".into(), generation: 3, ..Meta::default() };
    let template_labels = [("app", "a")].into_iter().collect();
    let owner = Owner { meta, replicas, template_labels, ..Owner::default() };
    let (on_node, failure, done) = (std::collections::HashMap::new(), None, Done::default());
    let features = Features { terminating_replicas: true, deletion_cost: true };
    Observed { owner, pods, on_node, grounds: Grounds::Sure, features, failure, done }
}

fn steps(observed: &Observed) -> Vec<Step> {
    match plan(observed, now()) {
        Plan::Act(batch) => batch.steps,
        Plan::Done { .. } => Vec::new(),
    }
}

fn deleted(observed: &Observed) -> Vec<ArcStr> {
    let name = |step| match step {
        Step::Delete { pod, .. } => pod.key.name,
        other => panic!("{other:?}"),
    };
    steps(observed).into_iter().map(name).collect()
}

fn status(observed: &Observed) -> Status {
    match &steps(observed)[..] {
        [Step::WriteStatus(status)] => (**status).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_pods_are_created_in_a_slow_start_and_500_at_most() {
    let few = owner(3, vec![pod("a")]);
    let Plan::Act(batch) = plan(&few, now()) else { panic!("nothing planned") };
    assert_eq!((batch.steps, batch.pace), (vec![Step::Create; 2], Pace::SlowStart));
    assert_eq!(steps(&owner(2_000, Vec::new())).len(), 500);
}

#[test]
fn pods_that_end_or_have_ended_are_replaced() {
    let ended = Pod { phase: Phase::Ended, ..pod("ended") };
    let ending = Pod { deleting: true, ..pod("ending") };
    assert_eq!(steps(&owner(1, vec![ended, ending])), [Step::Create]);
}

#[test]
fn an_owner_that_is_being_deleted_manages_no_pods() {
    let mut observed = owner(3, Vec::new());
    observed.owner.meta.deletion = Deletion::at(now());
    assert!(matches!(steps(&observed)[..], [Step::WriteStatus(_)]));
}

#[test]
fn pods_that_serve_least_are_deleted_first() {
    let cases: [(&str, Pod); 9] = [
        ("without a node", Pod { node: "".into(), ..pod("a") }),
        ("pending", Pod { phase: Phase::Pending, ..pod("a") }),
        ("unknown", Pod { phase: Phase::Unknown, ..pod("a") }),
        ("not ready", Pod { ready: None, ..pod("a") }),
        ("cheap", Pod { deletion_cost: -1, ..pod("a") }),
        ("on a crowded node", Pod { node: "crowded".into(), ..pod("a") }),
        ("ready for less time", Pod { ready: Some(Some(ago(10))), ..pod("a") }),
        ("restarted", Pod { max_restarts: (1, 0), ..pod("a") }),
        ("younger", Pod { created: Some(ago(10)), ..pod("a") }),
    ];
    for (name, first) in cases {
        let mut observed = owner(1, vec![pod("b"), first]);
        observed.on_node = [("node".into(), 1), ("crowded".into(), 2)].into();
        assert_eq!(deleted(&observed), ["a"], "{name}");
    }
}

#[test]
fn the_deletion_cost_plays_no_part_where_its_gate_is_off() {
    let young = Pod { created: Some(ago(10)), ..pod("young") };
    for (deletion_cost, first) in [(true, "cheap"), (false, "young")] {
        let mut observed = owner(1, vec![Pod { deletion_cost: -1, ..pod("cheap") }, young.clone()]);
        observed.features.deletion_cost = deletion_cost;
        assert_eq!(deleted(&observed), [first], "{deletion_cost}");
    }
}

#[test]
fn the_age_ratio_is_observed_of_ready_pods_that_were_chosen() {
    let ratios = |observed: &Observed| -> Vec<_> {
        let ratio = |step| match step {
            Step::Delete { age_ratio, .. } => age_ratio,
            other => panic!("{other:?}"),
        };
        steps(observed).into_iter().map(ratio).collect()
    };
    let aged = |name, seconds| Pod { created: Some(ago(seconds)), ..pod(name) };
    let pods = || {
        let cheap = Pod { deletion_cost: -1, ..aged("cheap", 190) };
        vec![Pod { ready: None, ..aged("not ready", 10) }, cheap, aged("youngest", 100), aged("old", 1_000)]
    };
    assert_eq!(ratios(&owner(2, pods())), [None, Some(1.0)], "as upstream, without the fraction");
    assert_eq!(ratios(&owner(0, pods())), [None; 4], "nothing was chosen");
    assert_eq!(ratios(&owner(1, vec![aged("a", 0), aged("b", 0)])), [None], "no division by zero");
}

#[test]
fn the_order_has_no_cycles_though_some_pods_became_ready_in_the_same_second() {
    let at = |name: &str, seconds, restarts| Pod {
        ready: Some(Some(ago(seconds))),
        max_restarts: (restarts, 0),
        ..pod(name)
    };
    let pods = [at("1", 100, 0), at("3", 100, 5), at("2", 101, 0)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let observed = owner(1, order.map(|at| pods[at].clone()).to_vec());
        assert_eq!(deleted(&observed), ["3", "1"], "{order:?}");
    }
}

#[test]
fn a_status_counts_active_pods_by_what_they_are_like() {
    let mut observed = owner(
        4,
        vec![
            pod("available"),
            Pod { ready: Some(Some(ago(5))), ..pod("ready") },
            Pod { ready: None, ..pod("unready") },
            Pod { labels: [("app", "b")].into_iter().collect(), ready: None, ..pod("other") },
            Pod { deleting: true, ..pod("ending") },
            Pod { phase: Phase::Ended, ..pod("ended") },
        ],
    );
    observed.owner.min_ready = Duration::from_secs(30);
    let expected = Status {
        replicas: 4,
        fully_labeled_replicas: 3,
        ready_replicas: 2,
        available_replicas: 1,
        terminating_replicas: Some(1),
        observed_generation: 3,
        conditions: Vec::new(),
    };
    assert_eq!(status(&observed), expected);
    observed.owner.status = expected;
    let plan = plan(&observed, now());
    assert_eq!(plan, Plan::Done { requeue_after: Some(Duration::from_secs(25)) }, "nothing changes");
}

/// The API server drops the field where the gate is off, so that a status with it would be written with every sync.
#[test]
fn a_status_has_terminating_replicas_only_where_the_gate_is_on() {
    let mut observed = owner(1, vec![pod("a"), Pod { deleting: true, ..pod("ending") }]);
    let with_field = status(&observed);
    assert_eq!(with_field.terminating_replicas, Some(1));
    observed.features.terminating_replicas = false;
    let without = status(&observed);
    assert_eq!(without, Status { terminating_replicas: None, ..with_field.clone() });
    observed.owner.status = without;
    assert_eq!(steps(&observed), [], "nothing changes");
    observed.owner.status = with_field;
    assert_eq!(status(&observed).terminating_replicas, None, "the field from before is removed");
}

#[test]
fn a_failure_is_a_condition_until_a_sync_succeeds() {
    let mut observed = owner(1, Vec::new());
    let refusal = steersman_api::Status::failure(403, "Forbidden", "exceeded quota");
    let refused = || SyncError::Refused { what: "creating".to_owned(), status: Box::new(refusal.clone()) };
    observed.absorb(Step::Create, StepResult::Failed(refused()));
    let failed = status(&observed);
    let condition = &failed.conditions[0];
    assert_eq!(
        (&*condition.kind, &*condition.reason, &*condition.message),
        (REPLICA_FAILURE, "FailedCreate", "exceeded quota")
    );
    observed.owner.status = failed;
    assert_eq!(steps(&observed), [], "the condition stays as it is");
    (observed.failure, observed.done) = (None, Done::default());
    observed.absorb(Step::Create, StepResult::Done(Outcome::Created(Box::new(pod("a")))));
    assert_eq!(status(&observed).conditions, []);
}

#[test]
fn an_owner_adopts_only_after_a_live_read_and_releases_without() {
    let orphan = Pod { claim: Claim::Orphan, ..pod("orphan") };
    let stray = Pod { claim: Claim::Stray, ..pod("stray") };
    let ended = Pod { claim: Claim::Orphan, phase: Phase::Ended, ..pod("ended") };
    let mut observed = owner(1, vec![orphan, stray.clone(), ended]);
    assert_eq!(steps(&observed), [Step::CheckAlive]);
    observed.absorb(Step::CheckAlive, StepResult::Done(Outcome::Done));
    let claims = steps(&observed);
    assert!(
        matches!(&claims[..], [Step::Release(a), Step::Adopt(b)] if a.uid == "stray".into() && b.uid == "orphan".into())
    );
    for step in claims {
        observed.absorb(step, StepResult::Done(Outcome::Done));
    }
    assert_eq!(status(&observed).replicas, 1);
    assert!(matches!(steps(&owner(0, vec![stray]))[..], [Step::Release(_)]));
}

#[test]
fn an_unsure_observation_is_confirmed_before_the_first_step_and_not_without_one() {
    let mut observed = owner(1, Vec::new());
    observed.grounds = Grounds::Unsure;
    assert_eq!(steps(&observed), [Step::Confirm]);
    observed.pods.push(pod("a"));
    observed.owner.status = Status::of(&observed, now());
    assert_eq!(steps(&observed), []);
}
