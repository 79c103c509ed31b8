//! Pods of broken revisions, of sets whose users ask for their replacement.

use super::*;

fn stuck(pods: Vec<Pod>) -> Observed {
    let mut observed = set(2, pods);
    observed.set.replaces_broken_pods = true;
    observed
}

fn broken(number: i32) -> Pod {
    pod(number).at("web-broken").pending()
}

/// Answers the question whether pods were ever ready, and returns the next steps.
fn inspected(mut observed: Observed, ever_ready: bool) -> Vec<String> {
    let steps = steps(&observed);
    assert!(matches!(steps[..], [Step::Inspect(_)]), "{steps:?}");
    for step in steps {
        observed.absorb(step, StepResult::Done(Outcome::EverReady(ever_ready)));
    }
    said(&observed)
}

#[test]
fn a_pod_of_a_revision_that_is_left_behind_is_replaced_if_it_was_never_ready() {
    let old = |number| pod(number).at(OLD);
    assert_eq!(inspected(stuck(vec![old(0), broken(1)]), false), ["delete web-1"]);
    assert_eq!(inspected(stuck(vec![old(0), broken(1)]), true), [""; 0], "it was ready");
    assert_eq!(inspected(stuck(vec![broken(0)]), false), ["delete web-0"]);
    // The first template was broken, so that it is still the current revision.
    assert_eq!(inspected(stuck(vec![old(0).pending()]), false), ["delete web-0"]);
}

#[test]
fn other_pods_are_not_replaced() {
    let old = |number| pod(number).at(OLD);
    let partitioned = || {
        let mut observed = stuck(vec![old(0), broken(1)]);
        observed.set.update.partition = Some(2);
        observed
    };
    let on_delete = || {
        let mut observed = stuck(vec![old(0), broken(1)]);
        observed.set.update.on_delete = true;
        observed
    };
    let not_asked = || {
        let mut observed = stuck(vec![old(0), broken(1)]);
        observed.set.replaces_broken_pods = false;
        observed
    };
    for (name, observed) in [
        ("of the update revision", stuck(vec![old(0), pod(1).pending()])),
        ("of the current revision, which works", stuck(vec![old(0), old(1).pending()])),
        ("being deleted", stuck(vec![old(0), broken(1).deleting()])),
        ("below the partition", partitioned()),
        ("of a set that updates on delete", on_delete()),
        ("of a set whose user does not ask for it", not_asked()),
    ] {
        assert_eq!(said(&observed), [""; 0], "{name}");
    }
}

#[test]
fn a_pod_is_inspected_once_in_a_sync() {
    let mut observed = stuck(vec![pod(0).at(OLD), broken(1)]);
    for step in steps(&observed) {
        observed.absorb(step, StepResult::Done(Outcome::EverReady(true)));
    }
    assert!(sync(&mut observed).is_empty());
}
