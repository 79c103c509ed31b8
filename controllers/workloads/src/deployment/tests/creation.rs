use super::*;
use crate::deployment::conditions::progressing;
use crate::deployment::plan::{NewSet, Outcome};
use steersman_controller::controller::{StepResult, SyncError};

fn with_deadline(replicas: i32) -> Deployment {
    Deployment { progress_deadline: Some(Duration::from_secs(600)), ..web(replicas) }
}

fn creation(observed: &Observed) -> NewSet {
    match steps(observed).pop() {
        Some(Step::Create(new)) => new,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_new_set_is_named_by_the_hash_of_its_template() {
    let mut observed = observed(web(3), Vec::new());
    observed.done.hash = None;
    assert_eq!(steps(&observed), [Step::Hash]);
    observed.absorb(Step::Hash, StepResult::Done(Outcome::Hashed("6d4c".into())));
    let new = creation(&observed);
    assert_eq!((&*new.name, &*new.hash, new.replicas), ("web-6d4c", "6d4c", 3));
}

#[test]
fn the_new_set_begins_with_the_pods_that_there_is_room_for_and_the_next_revision() {
    let in_the_way = vec![set("a", 4).age(300).revision_is("5"), set("b", 6).age(200).revision_is("x")];
    let deployment = Deployment { strategy: rolling("2", "0"), ..web(10) };
    let new = creation(&observed(deployment, in_the_way));
    assert_eq!(new.replicas, 2);
    assert_eq!(new.annotations.get(REVISION).unwrap(), "6");
}

#[test]
fn a_created_set_is_told_in_the_status_with_its_revision() {
    let mut observed = observed(with_deadline(3), vec![set("old", 0).revision_is("4")]);
    let new = creation(&observed);
    let created = ReplicaSet { status: SetStatus::default(), ..set(&new.name, 3).updated().revision_is("5") };
    observed.absorb(Step::Create(new), StepResult::Done(Outcome::Created(Box::new(created))));
    let Step::WriteStatus(write) = steps(&observed).remove(0) else { panic!() };
    assert_eq!(write.revision.as_deref(), Some("5"));
    let condition = progressing(&write.status.conditions).unwrap();
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("NewReplicaSetCreated", "Created new replica set \"web-hash\"")
    );
    assert_eq!((write.status.observed_generation, write.status.unavailable_replicas), (3, 3));
    let step = Step::WriteStatus(write);
    observed.absorb(step, StepResult::Done(Outcome::Written(ResourceVersion::ANY)));
    assert_eq!(requeue_after(&observed), Some(Duration::from_secs(601)));
}

#[test]
fn a_set_that_was_found_is_no_news() {
    let mut observed = observed(with_deadline(3), Vec::new());
    observed.absorb(Step::Create(creation(&observed)), StepResult::Done(Outcome::Exists));
    let read = Step::ReadNamesake("web-hash".into());
    assert_eq!(steps(&observed), std::slice::from_ref(&read));
    let found = Box::new(set("web-hash", 3).updated());
    observed.absorb(read, StepResult::Done(Outcome::Found(found)));
    let condition = progressing(&written(&observed).conditions).unwrap().clone();
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("NewReplicaSetAvailable", "ReplicaSet \"web-hash\" has successfully progressed.")
    );
}

#[test]
fn a_refusal_to_create_is_a_condition_in_the_servers_words() {
    let refusal = steersman_api::Status::failure(403, "Forbidden", "exceeded quota");
    let refused = SyncError::Refused { what: "creating".to_owned(), status: Box::new(refusal) };
    for (name, deployment, expected) in [
        (
            "with a deadline",
            with_deadline(3),
            Some("Failed to create new replica set \"web-hash\": exceeded quota"),
        ),
        ("without one", web(3), None),
    ] {
        let mut observed = observed(deployment, Vec::new());
        observed.absorb(Step::Create(creation(&observed)), StepResult::Failed(refused.clone()));
        let Some(expected) = expected else {
            assert_eq!(steps(&observed), [], "{name}");
            continue;
        };
        let status = written(&observed);
        let condition = progressing(&status.conditions).unwrap();
        assert_eq!((&*condition.reason, &*condition.message), ("ReplicaSetCreateError", expected), "{name}");
        assert_eq!(status.observed_generation, 0, "nothing else of the status is known");
    }
}

#[test]
fn a_name_that_is_taken_is_counted_and_changes_the_hash() {
    let mut observed = observed(web(3), Vec::new());
    observed.absorb(Step::Create(creation(&observed)), StepResult::Done(Outcome::Exists));
    observed.absorb(steps(&observed).remove(0), StepResult::Done(Outcome::Collision));
    let status = written(&observed);
    assert_eq!(status.collision_count, Some(1));
    let step = steps(&observed).remove(0);
    observed.absorb(step, StepResult::Done(Outcome::Written(ResourceVersion::ANY)));
    assert_eq!(steps(&observed), [Step::Hash]);
    assert_eq!(observed.deployment.status.collision_count, Some(1));
}

#[test]
fn a_namesake_that_could_not_be_read_is_no_failure_to_create() {
    let mut observed = observed(with_deadline(3), Vec::new());
    observed.absorb(Step::Create(creation(&observed)), StepResult::Done(Outcome::Exists));
    let failed = StepResult::Failed(SyncError::Failed("no answer".to_owned()));
    observed.absorb(steps(&observed).remove(0), failed);
    assert_eq!(steps(&observed), [], "the status has no news");
}

#[test]
fn the_greatest_revision_has_no_successor() {
    let greatest = i64::MAX.to_string();
    let new = creation(&observed(web(3), vec![set("old", 0).revision_is(&greatest)]));
    assert_eq!(new.annotations.get(REVISION).unwrap(), greatest.as_str());
}

#[test]
fn in_a_namespace_that_is_being_deleted_nothing_more_is_done() {
    let mut observed = observed(with_deadline(3), Vec::new());
    observed.absorb(Step::Create(creation(&observed)), StepResult::Done(Outcome::NamespaceTerminating));
    assert_eq!(steps(&observed), []);
}
