//! Rolling updates.

use steersman_informer::wire::IntOrString;

use super::super::observed::Order;
use super::super::steps::Which;
use super::*;

fn old(number: i32) -> Pod {
    pod(number).at(OLD)
}

#[test]
fn outdated_pods_are_deleted_one_by_one_from_the_highest_down_to_the_partition() {
    for (name, partition, pods, expected) in [
        ("all are old", 0, vec![old(0), old(1), old(2)], &["delete web-2"][..]),
        ("the last is going", 0, vec![old(0), old(1), old(2).deleting()], &[]),
        ("the last is new", 0, vec![old(0), old(1), pod(2)], &["delete web-1"]),
        ("the last is new and not ready", 0, vec![old(0), old(1), pod(2).unready()], &[]),
        ("the partition is reached", 2, vec![old(0), old(1), pod(2)], &[]),
        ("the partition leaves one", 2, vec![old(0), old(1), old(2)], &["delete web-2"]),
        ("the partition is beyond the end", 7, vec![old(0), old(1), old(2)], &[]),
        ("all are new", 0, vec![pod(0), pod(1), pod(2)], &[]),
        ("a lower one is not ready", 0, vec![old(0).unready(), old(1), old(2)], &[]),
        ("one has a third revision", 0, vec![old(0), old(1).at("web-other"), pod(2)], &["delete web-1"]),
        ("one has no revision", 0, vec![old(0), old(1).at(""), pod(2)], &["delete web-1"]),
    ] {
        let mut observed = set(3, pods);
        observed.set.update.partition = Some(partition);
        assert_eq!(sync(&mut observed), expected, "{name}");
    }
}

#[test]
fn parallel_pods_are_updated_one_by_one_as_well() {
    for (name, pods, expected) in [
        ("all are old", vec![old(0), old(1), old(2)], &["delete web-2"][..]),
        ("the highest is going", vec![old(0), old(1), old(2).deleting()], &[]),
        ("a lower one is not ready", vec![old(0).unready(), old(1), old(2)], &["delete web-2"]),
        ("the highest is old and not ready", vec![old(0), old(1), old(2).unready()], &["delete web-2"]),
        ("the highest is new and not ready", vec![old(0), old(1), pod(2).unready()], &[]),
    ] {
        let mut observed = set(3, pods);
        observed.set.order = Order::Parallel;
        assert_eq!(sync(&mut observed), expected, "{name}");
    }
}

#[test]
fn pods_of_a_set_that_updates_on_delete_stay() {
    let mut observed = set(3, vec![old(0), old(1)]);
    observed.set.update = Update { on_delete: true, ..Update::default() };
    assert_eq!(sync(&mut observed), ["create web-2"]);
    assert_eq!(observed.pods[2].revision(), NEW);
}

#[test]
fn a_rolling_update_waits_for_condemned_pods() {
    assert_eq!(sync(&mut set(1, vec![old(0), old(1)])), ["delete web-1"]);
}

#[test]
fn pods_below_the_partition_are_created_at_the_current_revision() {
    let (rolling, bare) = (|at| Update { partition: Some(at), ..Update::default() }, Update::default());
    for (name, update, start, current_replicas, number, expected) in [
        ("below the partition", rolling(2), 0, 0, 1, Which::Current),
        ("at the partition", rolling(2), 0, 0, 2, Which::Update),
        ("no partition", rolling(0), 0, 3, 0, Which::Update),
        ("below the partition of a set with a start", rolling(2), 5, 0, 6, Which::Current),
        ("above the partition of a set with a start", rolling(2), 5, 0, 7, Which::Update),
        ("among the current ones", bare.clone(), 0, 2, 1, Which::Current),
        ("behind the current ones", bare.clone(), 0, 2, 2, Which::Update),
        ("on delete", Update { on_delete: true, ..bare }, 0, 2, 1, Which::Update),
    ] {
        let pods = (start..start + 3).filter(|at| *at != number).map(pod).collect();
        let mut observed = set(3, pods);
        (observed.set.update, observed.set.start) = (update, start);
        observed.set.status.current_replicas = current_replicas;
        let [Step::Pod(step)] = &steps(&observed)[..] else { panic!("{name}") };
        assert_eq!(step.writes, [Write::CreatePod(expected)], "{name}");
    }
}

#[test]
fn several_pods_may_be_unavailable_where_the_gate_is_on() {
    let text = |text: &str| IntOrString::String(text.into());
    let five = || vec![old(0), old(1), old(2), old(3), old(4)];
    let mut one_new = five();
    (one_new[4], one_new[3]) = (pod(4).unready(), pod(3));
    let mut lower_unready = five();
    lower_unready[0] = old(0).unready();
    for (name, max, partition, pods, expected) in [
        ("one", IntOrString::Int(1), 0, five(), &["delete web-4"][..]),
        ("two", IntOrString::Int(2), 0, five(), &["delete web-4", "delete web-3"]),
        ("more than there are", IntOrString::Int(9), 3, five(), &["delete web-4", "delete web-3"]),
        ("a percentage, rounded down", text("50%"), 0, five(), &["delete web-4", "delete web-3"]),
        ("a small percentage is one", text("1%"), 0, five(), &["delete web-4"]),
        ("one is unavailable", IntOrString::Int(2), 0, one_new.clone(), &["delete web-2"]),
        ("as many as may be are unavailable", IntOrString::Int(1), 0, one_new, &[]),
        ("a lower one is unavailable", IntOrString::Int(2), 0, lower_unready, &["delete web-4"]),
    ] {
        let mut observed = set(5, pods);
        observed.set.order = Order::Parallel;
        observed.set.update =
            Update { partition: Some(partition), max_unavailable: Some(max), on_delete: false };
        assert_eq!(sync(&mut observed), expected, "{name}");
    }
    let mut ordered = set(2, vec![old(0), pod(1).unready()]);
    ordered.set.update.max_unavailable = Some(IntOrString::Int(2));
    assert_eq!(sync(&mut ordered), [""; 0], "ordered pods must be available first");
    assert_eq!(ordered.unavailable(now()), 1);
}

#[test]
fn a_broken_rollout_stays_stuck_where_pods_are_ordered() {
    // The pod of the broken revision is neither ready nor deleted, though the template is mended since.
    let observed = set(2, vec![old(0), pod(1).at("web-broken").pending()]);
    assert_eq!(said(&observed), [""; 0]);
}
