//! Which revisions are made, raised and deleted.

use super::*;

fn with(all: Vec<Revision>, newest: Option<&str>) -> Observed {
    let mut observed = settled(1, vec![pod(0)]);
    observed.revisions = Revisions { all, newest: newest.map(ArcStr::from), collision_count: 0 };
    observed
}

#[test]
fn a_template_without_a_revision_gets_the_next_number() {
    for (all, expected) in [
        (vec![], "create revision 1"),
        (vec![revision("web-a", 1), revision("web-b", 7)], "create revision 8"),
        (vec![revision("web-a", i64::MAX)], "create revision 9223372036854775807"),
    ] {
        assert_eq!(said(&with(all, None)), [expected]);
    }
}

#[test]
fn a_template_that_is_rolled_back_raises_its_revision() {
    let all = vec![revision("web-a", 1), revision("web-b", 2), revision("web-c", 3)];
    let mut observed = with(all, Some("web-a"));
    assert_eq!(observed.revisions.update(), None);
    assert_eq!(said(&observed), ["raise web-a to 4"]);
    sync(&mut observed);
    assert_eq!(observed.revisions.update(), Some("web-a"));
    assert_eq!(&*observed.set.status.update_revision, "web-a");
}

#[test]
fn a_new_revision_is_the_update_revision_and_tells_of_collisions() {
    let mut observed = with(vec![revision(OLD, 1)], None);
    observed.set.status.current_revision = OLD.into();
    let step = steps(&observed).remove(0);
    let created = RevisionOutcome::Created(revision("web-b", 2), 3);
    observed.absorb(step, StepResult::Done(Outcome::Revision(created)));
    observed.done.failed = true;
    let status = written(&observed);
    assert_eq!((&*status.current_revision, &*status.update_revision), (OLD, "web-b"));
    assert_eq!(status.collision_count, Some(3));
}

#[test]
fn revisions_that_nothing_uses_are_deleted_from_the_oldest() {
    let all: Vec<_> =
        ["web-a", "web-b", "web-c", "web-d", NEW].into_iter().zip(1..).map(|(n, r)| revision(n, r)).collect();
    for (limit, expected) in [
        (-1, &[][..]),
        (3, &[]),
        (2, &["delete web-a"]),
        (0, &["delete web-a", "delete web-c", "delete web-d"]),
    ] {
        let mut observed = with(all.clone(), Some(NEW));
        observed.set.history_limit = limit;
        // A pod that is being deleted still uses its revision.
        observed.pods.push(pod(1).at("web-b").deleting());
        observed.set.replicas = 2;
        assert_eq!(sync(&mut observed), expected, "{limit}");
    }
}

#[test]
fn hundreds_of_surplus_revisions_are_deleted_in_one_round() {
    let all: Vec<_> = (1..=300).map(|number| revision(&format!("web-{number}"), number)).collect();
    let mut observed = with(all, Some("web-300"));
    observed.set.history_limit = 0;
    observed.pods = vec![pod(0).at("web-300")];
    let Plan::Act(_) = plan(&observed, now()) else { panic!("nothing planned") };
    let status = steps(&observed).remove(0);
    observed.absorb(status, StepResult::Done(Outcome::Written(Default::default())));
    assert_eq!(said(&observed).len(), 299);
}

#[test]
fn a_revision_that_another_owner_has_is_the_update_revision_whatever_its_number() {
    let mut observed = with(vec![revision("web-a", 1), revision("web-b", 7)], None);
    let step = steps(&observed).remove(0);
    let found = Revision { is_orphan: true, ..revision("web-c", 3) };
    observed.absorb(step, StepResult::Done(Outcome::Revision(RevisionOutcome::Created(found, 0))));
    assert_eq!(observed.revisions.update(), Some("web-c"));
    observed.done.alive = true;
    let step = steps(&observed).remove(0);
    let outcome = perform(&observed, &step);
    observed.absorb(step, StepResult::Done(outcome));
    assert_eq!(observed.revisions.update(), Some("web-c"), "also once it is adopted");
    assert_eq!(observed.revisions.adoptions().count(), 0);
}

#[test]
fn a_revision_that_is_gone_when_it_is_to_be_raised_or_adopted_is_made_again() {
    let orphan = Revision { is_orphan: true, ..revision("web-b", 2) };
    for (case, all, newest, first, then) in [
        (
            "raised",
            vec![revision("web-a", 1), revision("web-b", 2)],
            "web-a",
            "raise web-a to 3",
            "create revision 3",
        ),
        ("adopted", vec![revision("web-a", 1), orphan], "web-b", "adopt web-b", "create revision 2"),
    ] {
        let mut observed = with(all, Some(newest));
        observed.done.alive = true;
        assert_eq!(said(&observed), [first], "{case}");
        let step = steps(&observed).remove(0);
        observed.absorb(step, StepResult::Done(Outcome::Revision(RevisionOutcome::Gone)));
        assert_eq!(observed.revisions.update(), None, "{case}");
        assert_eq!(said(&observed), [then], "{case}");
    }
}
