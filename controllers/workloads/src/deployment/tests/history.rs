use super::*;

/// The names of the ReplicaSets that are deleted with this limit.
fn deleted(limit: Option<i32>, sets: Vec<ReplicaSet>) -> Vec<ArcStr> {
    let mut deployment = Deployment { history_limit: limit, ..web(1) };
    deployment.status = Status {
        replicas: 1,
        updated_replicas: 1,
        available_replicas: 1,
        observed_generation: 3,
        ..Status::default()
    };
    deployment.annotations.insert(REVISION.into(), "9".into());
    let mut sets = sets;
    sets.push(set("new", 1).updated().revision_is("9").age(0));
    let name = |step| match step {
        Step::Delete(set) => Some(set.key.name),
        _ => None,
    };
    steps(&observed(deployment, sets)).into_iter().filter_map(name).collect()
}

#[test]
fn unused_sets_beyond_the_limit_are_deleted() {
    let unused = |name: &str| set(name, 0);
    let three = || vec![unused("a").age(30), unused("b").age(20), unused("c").age(10)];
    let used = || {
        let mut reports = set("reports", 1).age(20);
        reports.replicas = 0;
        let mut wants = set("wants", 0).age(10);
        wants.generation = 2;
        vec![unused("a").age(30), reports, wants]
    };
    let going = || vec![ReplicaSet { deleting: true, ..unused("a") }];
    for (name, limit, sets, expected) in [
        ("two too many", Some(1), three(), &["a", "b"][..]),
        ("none is kept", Some(0), three(), &["a", "b", "c"]),
        ("enough room", Some(3), three(), &[]),
        ("no limit", None, three(), &[]),
        ("with pods, or not synced", Some(0), used(), &["a"]),
        ("being deleted", Some(0), going(), &[]),
    ] {
        assert_eq!(deleted(limit, sets), expected, "{name}");
    }
}

#[test]
fn the_lowest_revisions_go_first_and_age_decides_between_equal_ones() {
    let unused = |name, revision, age| set(name, 0).revision_is(revision).age(age);
    let sets = vec![unused("young", "1", 10), unused("old", "3", 30), unused("middle", "3", 20)];
    assert_eq!(deleted(Some(1), sets), ["young", "old"]);
}

#[test]
fn nothing_is_deleted_in_mid_rollout() {
    let deployment = Deployment { history_limit: Some(0), ..web(1) };
    let sets = vec![set("old", 0).age(200), set("new", 1).updated().revision_is("1")];
    assert!(!steps(&observed(deployment, sets)).iter().any(|step| matches!(step, Step::Delete(_))));
}
