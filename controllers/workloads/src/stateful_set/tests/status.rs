//! What the status says.

use std::time::Duration;

use super::*;

#[test]
fn a_status_counts_pods_by_what_they_are_like() {
    let old = |number| pod(number).at(OLD);
    let mut observed = set(
        5,
        vec![
            old(0),
            pod(1).ready_since(5),
            pod(2).unready(),
            old(3).pending(),
            old(4).deleting(),
            pod(5).at("web-other").ended(),
        ],
    );
    observed.set.min_ready = Duration::from_secs(30);
    observed.done.failed = true;
    let expected = Status {
        observed_generation: 2,
        replicas: 6,
        ready_replicas: 3,
        current_replicas: 2,
        updated_replicas: 2,
        current_revision: OLD.into(),
        update_revision: NEW.into(),
        collision_count: Some(0),
        available_replicas: 2,
    };
    assert_eq!(written(&observed), expected);
    observed.set.status = expected;
    let plan = plan(&observed, now());
    assert_eq!(plan, Plan::Done { requeue_after: Some(Duration::from_secs(25)) }, "nothing changes");
}

#[test]
fn an_update_is_complete_once_all_pods_are_new_and_ready() {
    let (new, old) = (|| vec![pod(0), pod(1)], pod(0).at(OLD));
    for (name, pods, on_delete, current) in [
        ("complete", new(), false, NEW),
        ("an old pod", vec![old.clone(), pod(1)], false, OLD),
        ("an unready pod", vec![pod(0), pod(1).unready()], false, OLD),
        ("one pod too many", vec![pod(0), pod(1), pod(2).deleting()], false, OLD),
        ("on delete", new(), true, OLD),
    ] {
        let mut observed = set(2, pods);
        observed.set.update.on_delete = on_delete;
        observed.done.failed = true;
        assert_eq!(written(&observed).current_revision, current, "{name}");
    }
}

#[test]
fn a_current_revision_that_is_gone_is_the_update_revision() {
    let mut observed = set(1, vec![pod(0)]);
    observed.set.status.current_revision = "web-gone".into();
    let status = written(&observed);
    assert_eq!((&*status.current_revision, status.current_replicas), (NEW, 1));
}

#[test]
fn a_status_that_says_the_same_is_not_written() {
    let mut observed = settled(1, vec![pod(0)]);
    sync(&mut observed);
    let right = observed.set.status.clone();
    let different: [(&str, Status, bool); 6] = [
        ("the same", right.clone(), false),
        ("a newer generation", Status { observed_generation: 9, ..right.clone() }, false),
        ("an older generation", Status { observed_generation: 1, ..right.clone() }, true),
        ("no count of collisions", Status { collision_count: None, ..right.clone() }, false),
        ("other pods", Status { replicas: 7, ..right.clone() }, true),
        ("another revision", Status { update_revision: "x".into(), ..right }, true),
    ];
    for (name, status, is_written) in different {
        observed.set.status = status;
        assert_eq!(!steps(&observed).is_empty(), is_written, "{name}");
    }
}

#[test]
fn a_ready_pod_that_does_not_say_since_when_is_looked_at_again() {
    let mut observed = settled(1, vec![Pod { ready: Some(None), ..pod(0) }]);
    observed.set.min_ready = Duration::from_secs(30);
    sync(&mut observed);
    assert_eq!(plan(&observed, now()), Plan::Done { requeue_after: Some(Duration::from_secs(30)) });
}
