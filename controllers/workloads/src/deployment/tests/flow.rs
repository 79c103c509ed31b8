use super::*;
use crate::deployment::annotations::ROLLBACK_TO;
use crate::deployment::conditions::{Condition, PROGRESSING, progressing};
use crate::deployment::plan::{Outcome, Stage};
use steersman_api::Deletion;
use steersman_api::condition::ConditionStatus;
use steersman_controller::controller::{StepResult, SyncError};

fn with_deadline(replicas: i32, reason: Option<&str>) -> Deployment {
    let mut deployment = Deployment { progress_deadline: Some(Duration::from_secs(600)), ..web(replicas) };
    let condition = |reason| Condition::new(PROGRESSING, ConditionStatus::True, reason, "", ago(9));
    deployment.status.conditions = reason.map(condition).into_iter().collect();
    deployment
}

fn reason(status: &Status) -> Option<&str> {
    progressing(&status.conditions).map(|condition| &*condition.reason)
}

#[test]
fn pausing_and_resuming_are_conditions_but_do_not_hide_a_timeout() {
    let complete = Some("NewReplicaSetAvailable");
    for (name, paused, before, after) in [
        ("paused", true, complete, Some("DeploymentPaused")),
        ("paused before its first progress", true, None, Some("DeploymentPaused")),
        ("still paused", true, Some("DeploymentPaused"), Some("DeploymentPaused")),
        ("resumed", false, Some("DeploymentPaused"), Some("DeploymentResumed")),
        ("paused after a timeout", true, Some("ProgressDeadlineExceeded"), Some("ProgressDeadlineExceeded")),
        ("not paused", false, complete, complete),
        ("found", false, None, Some("FoundNewReplicaSet")),
    ] {
        let deployment = Deployment { paused, ..with_deadline(3, before) };
        let observed = observed(deployment, vec![set("new", 3).updated()]);
        assert_eq!(reason(&Status::begun(&observed, now())), after, "{name}");
    }
    let unlimited = Deployment { paused: true, ..web(3) };
    let observed = observed(unlimited, vec![set("new", 3).updated()]);
    assert_eq!(reason(&Status::begun(&observed, now())), None, "without a deadline");
}

#[test]
fn a_paused_deployment_scales_and_forgets_history_but_rolls_nothing_out() {
    let mut deployment = Deployment { paused: true, history_limit: Some(0), ..web(3) };
    let observed_ = observed(deployment.clone(), vec![set("old", 3)]);
    assert!(matches!(steps(&observed_)[..], [Step::WriteStatus(_)]), "no new set");
    deployment.replicas = 5;
    assert_eq!(sizes(&observed(deployment.clone(), vec![set("old", 3)])), [("old".into(), 5)]);
    let sets = vec![set("unused", 0).age(300), set("old", 5).age(200)];
    assert!(matches!(steps(&observed(deployment.clone(), sets.clone()))[..], [Step::Delete(_)]));
    deployment.annotations.insert(ROLLBACK_TO.into(), "1".into());
    let observed = observed(deployment, sets);
    assert!(matches!(steps(&observed)[..], [Step::WriteStatus(_)]), "a rollback may need the set");
}

#[test]
fn a_deployment_that_is_being_deleted_only_reports() {
    let mut deployment = web(5);
    deployment.meta.deletion = Deletion::at(now());
    let observed = observed(deployment, vec![set("old", 3)]);
    assert!(matches!(steps(&observed)[..], [Step::WriteStatus(_)]));
}

#[test]
fn a_deployment_that_selects_all_pods_is_refused() {
    let mut deployment = web(3);
    deployment.selector = SelectorSpec::default();
    let orphan = ReplicaSet { claim: Claim::Orphan, ..set("orphan", 1) };
    let mut observed = observed(deployment, vec![orphan]);
    assert_eq!(steps(&observed), [Step::Refuse]);
    observed.absorb(Step::Refuse, StepResult::Done(Outcome::Done));
    let status = written(&observed);
    assert_eq!(status, Status { observed_generation: 3, ..Status::default() });
}

#[test]
fn sets_are_adopted_after_a_live_read_and_released_without() {
    let orphan = ReplicaSet { claim: Claim::Orphan, ..set("orphan", 3).updated() };
    let stray = ReplicaSet { claim: Claim::Stray, ..set("stray", 3) };
    let mut observed_ = observed(web(3), vec![orphan.clone(), stray.clone()]);
    assert_eq!(steps(&observed_), [Step::CheckAlive]);
    observed_.absorb(Step::CheckAlive, StepResult::Done(Outcome::Done));
    let claims = steps(&observed_);
    assert_eq!(claims, [Step::Release(stray.reference.clone()), Step::Adopt(orphan.reference.clone())]);
    let [release, adopt] = claims.try_into().unwrap();
    let mut released = stray.clone();
    released.reference.version = ResourceVersion::parse("2").unwrap();
    observed_.absorb(release, StepResult::Done(Outcome::Changed(Box::new(released))));
    let mut adopted = orphan;
    adopted.reference.version = ResourceVersion::parse("2").unwrap();
    observed_.absorb(adopt, StepResult::Done(Outcome::Changed(Box::new(adopted.clone()))));
    assert_eq!(observed_.new_set().unwrap().reference, adopted.reference);
    assert_eq!(observed_.sets.len(), 1);
    assert!(matches!(steps(&observed(web(0), vec![stray]))[..], [Step::Release(_)]));
}

#[test]
fn of_several_sets_with_the_template_the_oldest_is_the_new_one() {
    let sets =
        vec![set("b", 3).updated().age(100), set("a", 3).updated().age(100), set("c", 0).updated().age(50)];
    let observed = observed(web(3), sets);
    assert_eq!(observed.new_set().unwrap().name(), "a");
    assert_eq!(observed.old_sets().map(|set| &**set.name()).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn the_new_set_learns_annotations_and_min_ready_seconds_once() {
    let deployment = Deployment { min_ready_seconds: 5, ..web(3) };
    let mut observed = observed(deployment, vec![set("new", 3).updated()]);
    observed.deployment.annotations.insert("note".into(), "x".into());
    let Step::Annotate(annotate) = steps(&observed).remove(0) else { panic!() };
    assert_eq!(annotate.annotations, [("note".into(), "x".into())]);
    assert_eq!(annotate.min_ready_seconds, 5);
    // A webhook drops the annotation: the sync does not insist.
    let answer = Box::new(ReplicaSet { min_ready_seconds: 5, ..set("new", 3) });
    observed.absorb(Step::Annotate(annotate), StepResult::Done(Outcome::Changed(answer)));
    assert!(matches!(steps(&observed)[..], [Step::WriteStatus(_)]));
}

#[test]
fn a_sync_that_scales_writes_the_status_and_does_no_more() {
    let mut observed = observed(web(3), vec![set("old", 3), set("new", 0).updated().revision_is("2")]);
    let step = steps(&observed).remove(0);
    let grown = ReplicaSet { replicas: 1, ..set("new", 0).revision_is("2") };
    observed.absorb(step, StepResult::Done(Outcome::Changed(Box::new(grown))));
    assert_eq!(observed.done.scaled, Some(Stage::New));
    let step = steps(&observed).remove(0);
    let Step::WriteStatus(write) = &step else { panic!("{step:?}") };
    assert_eq!(write.revision.as_deref(), Some("2"));
    observed.absorb(step, StepResult::Done(Outcome::Written(ResourceVersion::ANY)));
    assert_eq!(steps(&observed), []);
}

#[test]
fn after_a_failure_only_what_was_due_before_is_written() {
    let mut observed_ = observed(with_deadline(3, Some("DeploymentPaused")), vec![set("old", 3)]);
    observed_.sets.push(set("new", 0).updated().age(0));
    let step = steps(&observed_).remove(0);
    let refusal = steersman_api::Status::failure(409, "Conflict", "modified");
    let refused = SyncError::Refused { what: "scaling".to_owned(), status: Box::new(refusal) };
    observed_.absorb(
        Step::Annotate(match step {
            Step::Annotate(annotate) => annotate,
            other => panic!("{other:?}"),
        }),
        StepResult::Failed(refused),
    );
    let status = written(&observed_);
    assert_eq!((reason(&status), status.observed_generation), (Some("DeploymentResumed"), 0));
}

#[test]
fn an_unsure_observation_is_confirmed_before_the_first_step_and_not_without_one() {
    let mut observed = observed(web(3), vec![set("new", 3).updated()]);
    observed.grounds = Grounds::Unsure;
    assert_eq!(steps(&observed), [Step::Confirm]);
    observed.grounds = Grounds::Sure;
    observed.deployment.status = written(&observed);
    observed.grounds = Grounds::Unsure;
    assert_eq!(steps(&observed), []);
}
