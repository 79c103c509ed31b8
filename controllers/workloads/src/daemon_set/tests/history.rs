use steersman_controller::controller::StepResult;

use super::super::plan::Outcome;
use super::*;

fn with_revisions(revisions: Vec<Revision>) -> Observed {
    set(&["n"], vec![pod("a", "n")]).with(|o| o.revisions = revisions)
}

fn absorb(observed: &mut Observed, outcome: Outcome) {
    let step = steps(observed).remove(0);
    observed.absorb(step, StepResult::Done(outcome));
}

#[test]
fn a_template_without_a_revision_gets_the_next_one() {
    assert_eq!(steps(&with_revisions(vec![])), [Step::CreateRevision { number: 1 }]);
    let gap = vec![revision("x", 3, false), revision("y", 7, false)];
    assert_eq!(steps(&with_revisions(gap)), [Step::CreateRevision { number: 8 }]);
    // Users may write revisions, too.
    let last = vec![revision("x", i64::MAX, false)];
    assert_eq!(steps(&with_revisions(last)), [Step::CreateRevision { number: i64::MAX }]);
}

#[test]
fn pods_get_the_hash_of_a_new_revision() {
    let mut observed = with_revisions(vec![revision(OLD, 1, false)]).with(|o| o.pods.clear());
    absorb(&mut observed, Outcome::Revision(Box::new(revision("made", 2, true))));
    assert!(matches!(&steps(&observed)[..], [Step::Create { hash, .. }] if hash == "made"));
}

#[test]
fn a_template_of_an_older_revision_makes_that_the_latest() {
    let (first, second) = (revision("first", 1, true), revision("second", 2, false));
    let mut observed = with_revisions(vec![first.clone(), second]);
    assert_eq!(steps(&observed), [Step::RenumberRevision { revision: first, number: 3 }]);
    absorb(&mut observed, Outcome::Revision(Box::new(revision("first", 3, true))));
    // The pods of the second revision are old ones now.
    observed.pods[0].hash = "second".into();
    assert_eq!(work(&observed), ["-a"]);
}

#[test]
fn a_revision_without_a_hash_gets_its_name_as_one() {
    let bare = Revision { hash: ArcStr::default(), ..revision("bare", 1, true) };
    let mut observed = with_revisions(vec![bare.clone()]).with(|o| o.pods.clear());
    assert_eq!(steps(&observed), [Step::LabelRevision(bare.clone())]);
    absorb(&mut observed, Outcome::Revision(Box::new(Revision { hash: bare.key.name.clone(), ..bare })));
    assert!(matches!(&steps(&observed)[..], [Step::Create { hash, .. }] if hash == "set-bare"));
}

#[test]
fn of_revisions_with_the_same_template_the_latest_stays_and_takes_over_the_pods_of_the_others() {
    let (low, high) = (revision("low", 1, true), revision("high", 2, true));
    let pods = vec![
        Pod { hash: "low".into(), ..pod("a", "a") },
        Pod { hash: "high".into(), ..pod("b", "b") },
        Pod { hash: OLD.into(), ..pod("c", "c") },
    ];
    let mut observed =
        set(&["a", "b", "c"], pods).with(|o| o.revisions = vec![high, revision(OLD, 1, false), low.clone()]);
    let relabel = Step::Relabel { pod: observed.pods[0].reference(), hash: "high".into() };
    assert_eq!(steps(&observed), [relabel]);
    absorb(&mut observed, Outcome::Done);
    assert_eq!(steps(&observed), [Step::DeleteRevision(low)]);
    absorb(&mut observed, Outcome::Done);
    assert_eq!(work(&observed), ["-c"]);
}

#[test]
fn a_taken_name_raises_the_collision_count_once() {
    let mut observed = with_revisions(vec![]);
    absorb(&mut observed, Outcome::Collision);
    let Step::WriteStatus(status) = steps(&observed).remove(0) else { panic!("no status is written") };
    assert_eq!(*status, Status { collision_count: Some(1), ..Status::default() });
    absorb(&mut observed, Outcome::Written(steersman_api::ResourceVersion::default()));
    assert_eq!(steps(&observed), [Step::CreateRevision { number: 1 }]);
    assert_eq!(observed.set.status.collision_count, Some(1));
    let mut last = with_revisions(vec![]).with(|o| o.set.status.collision_count = Some(i32::MAX));
    absorb(&mut last, Outcome::Collision);
    let Step::WriteStatus(status) = steps(&last).remove(0) else { panic!("no status is written") };
    assert_ne!(*status, last.set.status, "the same name is not tried forever");
}

#[test]
fn old_revisions_beyond_the_limit_go_unless_pods_have_them() {
    let old =
        || ["a", "b", "c", "d"].into_iter().zip(1..).map(|(hash, number)| revision(hash, number, false));
    let cases: [(&str, usize, &[&str], &[&str]); 7] = [
        ("none beyond", 4, &[], &[]),
        ("one beyond", 3, &[], &["set-a"]),
        ("two beyond", 2, &[], &["set-a", "set-b"]),
        ("all beyond", 0, &[], &["set-a", "set-b", "set-c", "set-d"]),
        ("the oldest has a pod", 2, &["a"], &["set-b", "set-c"]),
        ("two have pods", 0, &["a", "c"], &["set-b", "set-d"]),
        ("all have pods", 0, &["a", "b", "c", "d"], &[]),
    ];
    for (what, limit, live, expected) in cases {
        // Pods that are over count, as long as the API server has them.
        let ended = |hash: &&str| Pod { hash: (*hash).into(), ..deleting(failed(pod(hash, "elsewhere"))) };
        let pods = live.iter().map(ended).chain([pod("new", "n")]).collect();
        let observed = set(&["n"], pods).with(|o| {
            o.revisions = old().chain([revision(NEW, 5, true)]).collect();
            o.revisions.reverse();
            o.set.history_limit = limit;
        });
        let names = |step: Step| match step {
            Step::DeleteRevision(revision) => Some(revision.key.name.to_string()),
            _ => None,
        };
        let found: Vec<String> = steps(&observed).into_iter().filter_map(names).collect();
        assert_eq!(found, expected, "{what}");
    }
}
