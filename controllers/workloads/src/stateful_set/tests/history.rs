//! Which revisions are made, raised and deleted.

use super::*;

fn with(all: Vec<Revision>, newest: Newest) -> Observed {
    let mut observed = settled(1, vec![pod(0)]);
    observed.revisions = Revisions { all, newest, collision_count: 0 };
    observed
}

#[test]
fn a_template_without_a_revision_gets_the_next_number() {
    for (all, expected) in [
        (vec![], "create revision 1"),
        (vec![revision("web-a", 1), revision("web-b", 7)], "create revision 8"),
    ] {
        assert_eq!(said(&with(all, Newest::Missing)), [expected]);
    }
}

#[test]
fn a_template_that_is_rolled_back_raises_its_revision() {
    let all = vec![revision("web-a", 1), revision("web-b", 2), revision("web-c", 3)];
    let mut observed = with(all, Newest::Earlier("web-a".into()));
    assert_eq!(observed.revisions.update(), None);
    assert_eq!(said(&observed), ["raise web-a to 4"]);
    sync(&mut observed);
    assert_eq!(observed.revisions.update(), Some("web-a"));
    assert_eq!(&*observed.set.status.update_revision, "web-a");
}

#[test]
fn a_new_revision_is_the_update_revision_and_tells_of_collisions() {
    let mut observed = with(vec![revision(OLD, 1)], Newest::Missing);
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
        let mut observed = with(all.clone(), Newest::Last);
        observed.set.history_limit = limit;
        // A pod that is being deleted still uses its revision.
        observed.pods.push(pod(1).at("web-b").deleting());
        observed.set.replicas = 2;
        assert_eq!(sync(&mut observed), expected, "{limit}");
    }
}
