use steersman_controller::plan::Pace;

use super::*;

#[test]
fn nodes_that_lack_a_pod_get_one_in_a_slow_start_and_250_at_most() {
    let observed = set(&["b", "a", "c"], vec![pod("x", "c")]);
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing is planned") };
    let create = |node: &str| Step::Create { node: node.into(), hash: NEW.into(), cause: Cause::Placement };
    assert_eq!((batch.steps, batch.pace), (vec![create("a"), create("b")], Pace::SlowStart));
    let names: Vec<String> = (0..300).map(|at| format!("n{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(steps(&set(&names, Vec::new())).len(), 250);
    let crowded = (0..300).map(|at| pod(&format!("p{at}"), "n")).collect();
    assert_eq!(steps(&set(&["n"], crowded)).len(), 250);
}

#[test]
fn each_node_has_the_pods_that_it_should() {
    use Verdict::{Keep, Run, Unfit};
    let bound_later = |name| Pod { bound: false, created: Some(ago(5000)), ..pod(name, "n") };
    let older = |name| Pod { created: Some(ago(5000)), ..pod(name, "n") };
    let cases: [(&str, Verdict, Vec<Pod>, &[&str]); 17] = [
        ("no pod on a fit node", Run, vec![], &["+n"]),
        ("no pod on a tainted node", Keep, vec![], &[]),
        ("no pod on an unfit node", Unfit, vec![], &[]),
        ("a pod on a fit node", Run, vec![pod("a", "n")], &[]),
        ("a pod that the scheduler has not bound", Run, vec![pending(pod("a", "n"))], &[]),
        ("a pod on a tainted node", Keep, vec![pod("a", "n")], &[]),
        ("a pod on an unfit node", Unfit, vec![pod("a", "n")], &["-a"]),
        ("a pod that leaves an unfit node", Unfit, vec![deleting(pod("a", "n"))], &[]),
        ("a pod that leaves a fit node", Run, vec![deleting(pod("a", "n"))], &[]),
        ("a pod that is over", Run, vec![deleting(failed(pod("a", "n")))], &["+n"]),
        ("a pod that failed", Run, vec![failed(pod("a", "n"))], &["-a", "+n"]),
        ("a pod that failed on a tainted node", Keep, vec![failed(pod("a", "n"))], &["-a"]),
        (
            "a pod that succeeded",
            Run,
            vec![Pod { end: Some(End::Succeeded), ..pod("a", "n") }],
            &["-a", "+n"],
        ),
        ("two pods", Run, vec![pod("a", "n"), older("b")], &["-a"]),
        ("two pods of the same age", Run, vec![pod("b", "n"), pod("a", "n")], &["-b"]),
        ("two pods on a tainted node", Keep, vec![pod("a", "n"), older("b")], &["-a"]),
        ("two pods, the older not bound", Run, vec![pod("a", "n"), bound_later("b")], &["-b"]),
    ];
    for (what, verdict, pods, expected) in cases {
        assert_eq!(work(&set(&[], pods).node("n", verdict)), expected, "{what}");
    }
}

#[test]
fn pods_of_vanished_nodes_go_only_if_the_scheduler_has_not_bound_them() {
    let observed = set(&[], vec![pending(pod("a", "gone")), pod("b", "gone"), pending(pod("c", ""))]);
    assert_eq!(work(&observed), ["-a"]);
}

#[test]
fn pods_of_other_owners_count_for_nothing() {
    let observed = set(&["n"], vec![Pod { claim: Claim::Stray, ..pod("a", "n") }]);
    assert!(matches!(&steps(&observed)[..], [Step::Release(_)]));
}

#[test]
fn failed_pods_go_one_at_a_time_and_wait_for_their_nodes_back_off() {
    let two = set(&["n"], vec![failed(pod("a", "n")), failed(pod("b", "n"))]);
    assert_eq!(work(&two), ["-a"]);
    let waits = set(&["n", "m"], vec![failed(pod("a", "n")), failed(pod("b", "m"))])
        .with(|o| _ = o.back_off.insert("n".into(), Duration::from_secs(40)));
    assert_eq!(work(&waits), ["-b", "+m"]);
    let mut settled = waits.with(|o| o.pods.truncate(1)).with(|o| o.nodes.truncate(1));
    let Step::WriteStatus(status) = steps(&settled).remove(0) else { panic!("no status is written") };
    settled.set.status = *status;
    assert_eq!(plan(&settled, now()), Plan::Done { requeue_after: Some(Duration::from_secs(40)) });
}

#[test]
fn a_pod_that_ended_is_deleted_with_its_end_and_node_for_the_event() {
    let [Step::Delete { node, end, cause, .. }] = &steps(&set(&["n"], vec![failed(pod("a", "n"))]))[..]
    else {
        panic!("nothing is deleted")
    };
    assert_eq!((node.as_str(), *end, *cause), ("n", Some(End::Failed), Cause::Placement));
}

#[test]
fn a_failed_pod_that_must_go_anyway_is_deleted_without_an_event_or_a_back_off() {
    let unfit = set(&[], vec![failed(pod("a", "n"))]).node("n", Verdict::Unfit);
    // An update need not wait for the back-off of the pods before.
    let outdated = set(&["n"], vec![failed(old("a", "n"))])
        .with(|o| _ = o.back_off.insert("n".into(), Duration::from_secs(40)));
    for (observed, because) in [(unfit, Cause::Placement), (outdated, Cause::Update)] {
        let [Step::Delete { end, cause, .. }] = &steps(&observed)[..] else { panic!("nothing is deleted") };
        assert_eq!((*end, *cause), (None, because));
    }
}

#[test]
fn with_surge_a_node_keeps_an_old_pod_until_the_new_one_is_available() {
    let new = |name| Pod { created: Some(ago(10)), ..pod(name, "n") };
    let young = Pod { ready: Some(Some(ago(10))), ..new("new") };
    let excess = Pod { created: Some(ago(900)), ..old("excess", "n") };
    let cases: [(&str, i64, Vec<Pod>, &[&str]); 10] = [
        ("no pod", 0, vec![], &["+n"]),
        ("an old pod that goes", 0, vec![deleting(old("old", "n"))], &["+n"]),
        ("an old pod that failed", 0, vec![failed(old("old", "n"))], &["-old", "+n"]),
        ("both, the new not ready", 0, vec![old("old", "n"), unready(new("new"))], &[]),
        ("both ready", 0, vec![old("old", "n"), new("new")], &["-old"]),
        ("the old not ready", 0, vec![unready(old("old", "n")), unready(new("new"))], &["-old"]),
        ("the new not ready for long enough", 30, vec![old("old", "n"), young.clone()], &[]),
        ("the new ready for long enough", 5, vec![old("old", "n"), young], &["-old"]),
        ("two old ones", 0, vec![old("old", "n"), excess.clone(), unready(new("new"))], &["-excess"]),
        ("two old ones, the new ready", 0, vec![old("old", "n"), excess, new("new")], &["-excess", "-old"]),
    ];
    for (what, min_ready, pods, expected) in cases {
        let observed = set(&["n"], pods).strategy(by_surge(number(1)));
        let observed = observed.with(|o| o.set.min_ready = Duration::from_secs(min_ready.unsigned_abs()));
        assert_eq!(work(&observed), expected, "{what}");
    }
}

#[test]
fn a_failed_step_ends_neither_the_others_nor_the_status_but_the_update_and_the_history() {
    use steersman_controller::controller::{StepResult, SyncError};
    let mut observed = set(&["a", "b"], vec![pod("x", "b"), pod("y", "b")])
        .with(|o| (o.set.history_limit, o.set.strategy) = (0, by_unavailable(number(2))));
    for expected in ["Delete", "Create"] {
        for step in steps(&observed) {
            assert!(format!("{step:?}").starts_with(expected), "{step:?}");
            observed.absorb(step, StepResult::Failed(SyncError::Failed("no".to_owned())));
        }
    }
    assert!(matches!(&steps(&observed)[..], [Step::WriteStatus(_)]), "{:?}", steps(&observed));
}
