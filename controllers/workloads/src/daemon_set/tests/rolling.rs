use super::super::rolling::Limits;
use super::*;

#[test]
fn limits_are_rounded_up_and_allow_one_step_at_least() {
    let limits = |max_unavailable, max_surge| Some(Limits { max_unavailable, max_surge });
    let both = |max_unavailable, max_surge| UpdateStrategy::RollingUpdate { max_unavailable, max_surge };
    let cases = [
        (UpdateStrategy::OnDelete, 5, None),
        (by_unavailable(number(0)), 0, limits(0, 0)),
        (by_unavailable(number(1)), 2, limits(1, 0)),
        (by_unavailable(percent("50%")), 2, limits(1, 0)),
        (by_unavailable(percent("50%")), 3, limits(2, 0)),
        (by_unavailable(percent("1%")), 5, limits(1, 0)),
        (by_unavailable(percent("100%")), 7, limits(7, 0)),
        (by_surge(number(2)), 1, limits(0, 2)),
        (by_surge(percent("50%")), 2, limits(0, 1)),
        (by_surge(percent("100%")), 2, limits(0, 2)),
        (by_surge(percent("10%")), 11, limits(0, 2)),
        (both(number(0), number(0)), 2, limits(1, 0)),
        (both(None, None), 2, limits(1, 0)),
        (both(percent("0%"), percent("0%")), 2, limits(1, 0)),
        (both(percent("50%"), percent("50%")), 3, limits(2, 2)),
        (both(percent("many"), None), 3, limits(1, 0)),
    ];
    for (strategy, desired, expected) in cases {
        assert_eq!(strategy.limits(desired), expected, "{strategy:?} of {desired}");
    }
}

#[test]
fn available_old_pods_go_as_long_as_enough_are_available() {
    let three = |pods| set(&["a", "b", "c"], pods);
    let cases: [(&str, i32, Vec<Pod>, &[&str]); 11] = [
        ("all old", 1, vec![old("a", "a"), old("b", "b"), old("c", "c")], &["-a"]),
        ("all old, two at a time", 2, vec![old("a", "a"), old("b", "b"), old("c", "c")], &["-a", "-b"]),
        (
            "all old, many at a time",
            9,
            vec![old("a", "a"), old("b", "b"), old("c", "c")],
            &["-a", "-b", "-c"],
        ),
        ("none old", 1, vec![pod("a", "a"), pod("b", "b"), pod("c", "c")], &[]),
        ("a new one that is not ready", 1, vec![unready(pod("a", "a")), old("b", "b"), old("c", "c")], &[]),
        (
            "a new one that is not ready, two at a time",
            2,
            vec![unready(pod("a", "a")), old("b", "b"), old("c", "c")],
            &["-b"],
        ),
        ("an old one that goes", 1, vec![deleting(old("a", "a")), old("b", "b"), old("c", "c")], &[]),
        (
            "an old one that is not ready",
            1,
            vec![unready(old("a", "a")), old("b", "b"), old("c", "c")],
            &["-a"],
        ),
        (
            "no old one is ready",
            1,
            vec![unready(old("a", "a")), unready(old("b", "b")), unready(old("c", "c"))],
            &["-a", "-b", "-c"],
        ),
        ("a bad rollout", 1, vec![unready(pod("a", "a")), unready(old("b", "b")), old("c", "c")], &["-b"]),
        ("one is new", 1, vec![pod("a", "a"), old("b", "b"), old("c", "c")], &["-b"]),
    ];
    for (what, max_unavailable, pods, expected) in cases {
        assert_eq!(work(&three(pods).strategy(by_unavailable(number(max_unavailable)))), expected, "{what}");
    }
}

#[test]
fn pods_on_nodes_that_are_not_wanted_any_more_are_updated_as_well() {
    let tainted = set(&["a"], vec![pod("a", "a"), old("b", "b")]).node("b", Verdict::Keep);
    assert_eq!(work(&tainted), ["-b"]);
    // The pod collector deletes the pods of vanished nodes; until then they count.
    let vanished = set(&["a"], vec![old("a", "a"), unready(pod("b", "gone"))]);
    assert_eq!(work(&vanished), Vec::<String>::new());
    let leaves = set(&["a"], vec![old("a", "a"), deleting(pod("b", "b"))]).node("b", Verdict::Unfit);
    assert_eq!(work(&leaves), Vec::<String>::new());
}

#[test]
fn an_update_waits_until_each_node_has_its_pod() {
    let observed = set(&["a", "b"], vec![old("a", "a")]).strategy(by_unavailable(number(2)));
    assert_eq!(work(&observed), ["+b"]);
    let observed = set(&["a"], vec![old("a", "a"), pod("b", "b")]).node("b", Verdict::Unfit);
    assert_eq!(work(&observed), ["-b"]);
}

#[test]
fn on_delete_replaces_nothing() {
    let observed =
        set(&["a", "b"], vec![old("a", "a"), unready(old("b", "b"))]).strategy(UpdateStrategy::OnDelete);
    assert_eq!(work(&observed), Vec::<String>::new());
}

#[test]
fn pods_of_the_same_template_by_its_number_are_not_replaced() {
    let numbered = Pod { generation: "7".into(), ..old("a", "a") };
    let observed = set(&["a"], vec![numbered]);
    assert_eq!(work(&observed.clone().with(|o| o.set.template_generation = Some(7))), Vec::<String>::new());
    assert_eq!(work(&observed.with(|o| o.set.template_generation = Some(8))), ["-a"]);
}

#[test]
fn pods_count_as_available_once_they_have_been_ready_for_long_enough() {
    let young = Pod { ready: Some(Some(ago(10))), ..pod("a", "a") };
    let observed =
        set(&["a", "b"], vec![young, old("b", "b")]).with(|o| o.set.min_ready = Duration::from_secs(30));
    assert_eq!(work(&observed), Vec::<String>::new());
    assert_eq!(work(&observed.with(|o| o.set.min_ready = Duration::from_secs(5))), ["-b"]);
}

#[test]
fn with_surge_new_pods_come_beside_available_old_ones() {
    let cases: [(&str, i32, Vec<Pod>, &[&str]); 9] = [
        ("all old", 1, vec![old("a", "a"), old("b", "b"), old("c", "c")], &["+a"]),
        ("all old, two at a time", 2, vec![old("a", "a"), old("b", "b"), old("c", "c")], &["+a", "+b"]),
        ("none old", 2, vec![pod("a", "a"), pod("b", "b"), pod("c", "c")], &[]),
        ("one surges", 1, vec![old("a", "a"), unready(pod("a2", "a")), old("b", "b"), old("c", "c")], &[]),
        (
            "one surges of two",
            2,
            vec![old("a", "a"), unready(pod("a2", "a")), old("b", "b"), old("c", "c")],
            &["+b"],
        ),
        ("one has surged", 1, vec![old("a", "a"), pod("a2", "a"), old("b", "b"), old("c", "c")], &["-a"]),
        (
            "old ones that are not ready",
            1,
            vec![unready(old("a", "a")), unready(old("b", "b")), old("c", "c")],
            &["+a", "+b", "+c"],
        ),
        (
            "an old one that is not ready, at the limit",
            1,
            vec![unready(old("a", "a")), old("b", "b"), unready(pod("b2", "b")), old("c", "c")],
            &["+a"],
        ),
        (
            "an old one that goes, at the limit",
            1,
            vec![deleting(old("a", "a")), old("b", "b"), unready(pod("b2", "b")), old("c", "c")],
            &["+a"],
        ),
    ];
    for (what, max_surge, pods, expected) in cases {
        let observed = set(&["a", "b", "c"], pods).strategy(by_surge(number(max_surge)));
        assert_eq!(work(&observed), expected, "{what}");
    }
}

#[test]
fn with_surge_an_available_pod_on_an_unwanted_node_stays_until_there_are_enough_elsewhere() {
    let surging = |pods| set(&["a"], pods).node("b", Verdict::Keep).strategy(by_surge(number(1)));
    assert_eq!(work(&surging(vec![unready(pod("a", "a")), old("b", "b")])), Vec::<String>::new());
    assert_eq!(work(&surging(vec![pod("a", "a"), old("b", "b")])), ["-b"]);
    assert_eq!(work(&surging(vec![unready(pod("a", "a")), unready(old("b", "b"))])), ["-b"]);
    // A pod of the current revision stays on a tainted node.
    assert_eq!(work(&surging(vec![pod("a", "a"), pod("b", "b")])), Vec::<String>::new());
}

#[test]
fn with_surge_a_vanished_node_does_not_hold_up_the_others() {
    let observed = set(&["a"], vec![old("a", "a"), old("b", "gone")]).strategy(by_surge(number(1)));
    assert_eq!(work(&observed), ["+a"]);
}
