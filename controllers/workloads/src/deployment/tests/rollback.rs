use super::*;
use crate::deployment::annotations::ROLLBACK_TO;
use crate::deployment::rollback::RollBack;

fn rolls_back(to: &str, sets: Vec<ReplicaSet>) -> Option<RollBack> {
    let mut deployment = web(3);
    deployment.annotations.insert(ROLLBACK_TO.into(), to.into());
    deployment.annotations.insert(REVISION.into(), "3".into());
    match steps(&observed(deployment, sets)).pop() {
        Some(Step::RollBack(roll_back)) => Some(roll_back),
        _ => None,
    }
}

fn three() -> Vec<ReplicaSet> {
    vec![
        set("a", 0).age(300).revision_is("1"),
        set("b", 0).age(200).revision_is("2"),
        set("c", 3).age(100).revision_is("3").updated(),
    ]
}

#[test]
fn a_rollback_finds_its_revision_or_drops_the_wish() {
    let to = |name: &str, revision| RollBack::To { set: set(name, 0).reference, revision };
    for (name, wish, sets, expected) in [
        ("the first revision", "1", three(), to("a", 1)),
        ("the last revision", "0", three(), to("b", 2)),
        ("the current revision", "3", three(), RollBack::Unchanged),
        ("no such revision", "7", three(), RollBack::NoSuchRevision),
        ("no earlier revision", "0", three().split_off(2), RollBack::NoLastRevision),
    ] {
        assert_eq!(rolls_back(wish, sets), Some(expected), "{name}");
    }
    assert_eq!(rolls_back("x", three()), None, "no number");
}

#[test]
fn the_new_set_is_created_before_a_rollback_and_none_happens_while_paused() {
    let mut deployment = web(3);
    deployment.annotations.insert(ROLLBACK_TO.into(), "1".into());
    let mut observed = observed(deployment, vec![set("a", 3)]);
    assert!(matches!(steps(&observed)[..], [Step::Create(_)]));
    observed.deployment.paused = true;
    assert!(!matches!(steps(&observed)[..], [Step::Create(_) | Step::RollBack(_)]));
}
