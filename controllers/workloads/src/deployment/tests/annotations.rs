use super::*;
use crate::deployment::annotations::{REVISION_HISTORY, ROLLBACK_TO, of_created, of_new};

fn pairs(annotations: &steersman_kinds::annotation::Annotations) -> Vec<(&str, &str)> {
    annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

#[test]
fn a_created_set_copies_what_users_annotate_and_knows_its_revision_and_sizes() {
    let mut deployment = web(3);
    for (key, value) in [("note", "x"), (ROLLBACK_TO, "1"), (REVISION_HISTORY, "1")] {
        deployment.annotations.insert(key.into(), value.into());
    }
    let created = of_created(&deployment, 7);
    let expected = [(DESIRED_REPLICAS, "3"), (MAX_REPLICAS, "4"), (REVISION, "7"), ("note", "x")];
    assert_eq!(pairs(&created), expected);
}

#[test]
fn the_new_set_follows_the_deployment_and_its_revision_only_rises() {
    let with = |pairs: &[(&'static str, &'static str)]| ReplicaSet {
        annotations: pairs.iter().copied().collect(),
        ..set("new", 3).updated()
    };
    let mut deployment = web(3);
    deployment.annotations.insert("note".into(), "x".into());
    for (name, set, revision, expected, changed) in [
        ("copied", with(&[(REVISION, "2")]), 2, &[(REVISION, "2"), ("note", "x")][..], true),
        ("current", with(&[(REVISION, "2"), ("note", "x")]), 2, &[(REVISION, "2"), ("note", "x")], false),
        (
            "a higher revision stays",
            with(&[(REVISION, "5"), ("note", "x")]),
            2,
            &[(REVISION, "5"), ("note", "x")],
            false,
        ),
        (
            "another one stays though the deployment lost it",
            with(&[(REVISION, "2"), ("lost", "y"), ("note", "x")]),
            2,
            &[(REVISION, "2"), ("lost", "y"), ("note", "x")],
            false,
        ),
        ("the first revision", with(&[("note", "x")]), 1, &[(REVISION, "1"), ("note", "x")], true),
        (
            "rolled back to",
            with(&[(REVISION, "2"), ("note", "x")]),
            4,
            &[(REVISION, "4"), (REVISION_HISTORY, "2"), ("note", "x")],
            true,
        ),
        (
            "rolled back to again",
            with(&[(REVISION, "4"), (REVISION_HISTORY, "2"), ("note", "x")]),
            6,
            &[(REVISION, "6"), (REVISION_HISTORY, "2,4"), ("note", "x")],
            true,
        ),
        ("no number", with(&[(REVISION, "x")]), 4, &[(REVISION, "x"), ("note", "x")], false),
    ] {
        let (annotations, is_changed) = of_new(&deployment, &set, revision);
        assert_eq!((pairs(&annotations), is_changed), (expected.to_vec(), changed), "{name}");
    }
}

#[test]
fn the_history_forgets_the_oldest_revisions_when_it_grows_too_long() {
    let long: Vec<String> = (1000..1400).map(|revision| revision.to_string()).collect();
    let mut set = set("new", 3).updated().revision_is("1400");
    set.annotations.insert(REVISION_HISTORY.into(), long.join(",").into());
    let (annotations, _) = of_new(&web(3), &set, 1500);
    let history = annotations.get(REVISION_HISTORY).unwrap();
    assert_eq!(history.len(), 1999);
    assert!(history.starts_with("1001,") && history.ends_with(",1399,1400"));
}
