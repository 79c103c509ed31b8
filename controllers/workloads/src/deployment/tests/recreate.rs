use super::*;

fn recreate(replicas: i32) -> Deployment {
    Deployment { strategy: Strategy::Recreate, ..web(replicas) }
}

#[test]
fn all_old_pods_go_at_once_and_new_ones_come_when_they_have_ended() {
    let old = |name| set(name, 3);
    let mut observed = observed(recreate(3), vec![old("a").age(300), old("b").age(200)]);
    assert_eq!(sizes(&observed), [("a".into(), 0), ("b".into(), 0)]);
    for set in &mut observed.sets {
        set.replicas = 0;
    }
    for (name, waits, change) in [
        ("the set reports pods", true, (|set| set.status.replicas = 1) as fn(&mut ReplicaSet)),
        ("a pod has not ended", true, |set| set.runs_pods = true),
        ("a pod is being deleted", true, |set| set.status.terminating = Some(1)),
        ("the set has not been synced", true, |set| set.generation = 2),
        ("the set has none", false, |set| set.status.terminating = None),
    ] {
        let mut observed = observed.clone();
        observed.sets[0].status = SetStatus { replicas: 0, ..observed.sets[0].status.clone() };
        observed.sets[1].status = SetStatus { replicas: 0, ..observed.sets[1].status.clone() };
        change(&mut observed.sets[0]);
        let creates = matches!(steps(&observed)[..], [Step::Create(_)]);
        assert_eq!(creates, !waits, "{name}");
    }
}

#[test]
fn the_new_set_gets_all_pods_at_once() {
    let empty = |name| set(name, 0);
    let Step::Create(new) = steps(&observed(recreate(3), vec![empty("old")])).remove(0) else { panic!() };
    assert_eq!(new.replicas, 3);
    let sets = vec![empty("old"), empty("new").updated().revision_is("2")];
    assert_eq!(sizes(&observed(recreate(3), sets)), [("new".into(), 3)]);
}

#[test]
fn pods_of_the_new_set_hold_nothing_up() {
    let mut new = set("new", 2).updated().revision_is("2");
    new.runs_pods = true;
    assert_eq!(sizes(&observed(recreate(3), vec![set("old", 0), new])), [("new".into(), 3)]);
}
