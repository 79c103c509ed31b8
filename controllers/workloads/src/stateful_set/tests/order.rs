//! Creation, deletion and repair of pods, one after the other or all at once.

use std::time::Duration;
use steersman_api::Deletion;

use steersman_controller::plan::Pace;
use steersman_informer::wire::IntOrString;

use super::super::observed::Order;
use super::*;

fn parallel(mut observed: Observed) -> Observed {
    observed.set.order = Order::Parallel;
    observed
}

#[test]
fn ordered_pods_are_created_one_by_one_each_after_its_predecessor_is_available() {
    for (name, pods, expected) in [
        ("none", vec![], &["create web-0"][..]),
        ("the first is pending", vec![pod(0).pending()], &[]),
        ("the first runs and is not ready", vec![pod(0).unready()], &[]),
        ("the first is ready", vec![pod(0)], &["create web-1"]),
        ("the first is ready and is being deleted", vec![pod(0).deleting()], &[]),
        ("the first is missing", vec![pod(1), pod(2)], &["create web-0"]),
        ("the first has ended", vec![pod(0).ended(), pod(1)], &["delete web-0"]),
        ("the first has ended and is being deleted", vec![pod(0).ended().deleting()], &[]),
        ("the second has ended", vec![pod(0), pod(1).ended()], &["delete web-1"]),
        ("all are ready", vec![pod(0), pod(1), pod(2)], &[]),
        ("the last is not ready", vec![pod(0), pod(1), pod(2).unready()], &[]),
    ] {
        assert_eq!(said(&settled(3, pods)), expected, "{name}");
    }
}

#[test]
fn a_sync_of_ordered_pods_creates_one() {
    assert_eq!(sync(&mut settled(3, vec![])), ["create web-0"]);
    assert_eq!(sync(&mut settled(3, vec![pod(0).ended()])), ["delete web-0"], "its successor comes later");
}

#[test]
fn ordered_pods_wait_until_the_one_before_is_available_for_long_enough() {
    let mut observed = settled(2, vec![pod(0).ready_since(5)]);
    observed.set.min_ready = Duration::from_secs(30);
    assert_eq!(said(&observed), [""; 0]);
    observed.set.min_ready = Duration::from_secs(5);
    assert_eq!(said(&observed), ["create web-1"]);
}

#[test]
fn parallel_pods_are_created_and_replaced_at_once_in_a_slow_start() {
    let observed = parallel(settled(4, vec![pod(1).ended(), pod(2).pending()]));
    let Plan::Act(batch) = plan(&observed, now()) else { panic!("nothing planned") };
    assert_eq!(batch.pace, Pace::SlowStart);
    assert_eq!(said(&observed), ["create web-0", "delete web-1", "create web-3"]);
}

#[test]
fn pods_are_numbered_from_the_start() {
    let mut observed = parallel(settled(2, vec![pod(3), pod(5)]));
    observed.set.start = 3;
    assert_eq!(sync(&mut observed), ["create web-4", "delete web-5"]);
    let mut ordered = settled(2, vec![pod(0), pod(3), pod(4)]);
    ordered.set.start = 3;
    assert_eq!(sync(&mut ordered), ["delete web-0"]);
}

#[test]
fn condemned_pods_go_one_by_one_from_the_highest() {
    let dying = |number| pod(number).deleting();
    for (name, condemned, expected) in [
        ("all are available", vec![pod(1), pod(2), pod(3)], &["delete web-3"][..]),
        ("the highest is going", vec![pod(1), pod(2), dying(3)], &[]),
        (
            "the highest is the only one that is not ready",
            vec![pod(1), pod(2), pod(3).unready()],
            &["delete web-3"],
        ),
        ("a lower one is not ready", vec![pod(1), pod(2).unready(), pod(3)], &["delete web-3"]),
        ("two are not ready", vec![pod(1), pod(2).unready(), pod(3).unready()], &[]),
        ("a lower one is going, and the highest is not ready", vec![dying(1), pod(3).unready()], &[]),
        ("they have ended", vec![pod(1), pod(2).ended()], &["delete web-2"]),
    ] {
        let pods = std::iter::once(pod(0)).chain(condemned).collect();
        assert_eq!(said(&settled(1, pods)), expected, "{name}");
    }
    let waits = settled(1, vec![pod(0).unready(), pod(1)]);
    assert_eq!(said(&waits), [""; 0], "wanted pods must be available first");
    let fresh = |number| pod(number).ready_since(1);
    let mut observed = settled(1, vec![pod(0), fresh(1), fresh(2)]);
    observed.set.min_ready = Duration::from_secs(60);
    assert_eq!(said(&observed), [""; 0], "a lower one is not available either");
}

#[test]
fn parallel_condemned_pods_go_at_once() {
    let mut observed = parallel(settled(1, vec![pod(0), pod(1).unready(), pod(2).deleting(), pod(3)]));
    assert_eq!(sync(&mut observed), ["delete web-3", "delete web-1"]);
}

#[test]
fn pods_whose_names_have_no_valid_ordinal_are_left_alone() {
    let mut odd = pod(0);
    odd.ordinal = None;
    assert_eq!(sync(&mut settled(0, vec![odd])), [""; 0]);
}

#[test]
fn pods_lose_neither_name_nor_label() {
    let mut nameless = pod(0);
    nameless.labels = [("app", "web"), (REVISION, NEW)].into_iter().collect();
    assert_eq!(sync(&mut settled(2, vec![nameless.clone()])), ["update web-0", "create web-1"]);
    let mut unready = settled(1, vec![nameless.unready()]);
    assert_eq!(sync(&mut unready), [""; 0], "an ordered pod gets its label once it is available");
}

#[test]
fn a_set_that_is_being_deleted_only_reports() {
    let mut observed = settled(3, vec![pod(0).ended(), pod(5)]);
    observed.set.meta.deletion = Deletion::at(now());
    assert_eq!(said(&observed), [""; 0]);
    assert_eq!(written(&observed).replicas, 2);
}

#[test]
fn after_a_failure_a_sync_does_nothing_but_report() {
    for mut observed in [settled(3, vec![pod(0)]), parallel(settled(3, vec![pod(0)]))] {
        for step in steps(&observed) {
            observed.absorb(step, StepResult::Failed(refused()));
        }
        assert_eq!(written(&observed).replicas, 1);
        assert_eq!(sync(&mut observed), [""; 0]);
    }
}

#[test]
fn a_set_adopts_only_after_a_live_read_and_releases_without() {
    let orphan = Pod { claim: PodClaim::Orphan, ..pod(1) };
    let stray = Pod { claim: PodClaim::Stray, ..pod(0) };
    let mut observed = settled(2, vec![orphan, stray]);
    observed.revisions.all[0].is_orphan = true;
    assert_eq!(
        sync(&mut observed),
        ["check alive", "adopt web-new", "release web-0", "adopt web-1", "create web-0"]
    );
}

#[test]
fn an_unsure_observation_is_confirmed_before_the_first_step_and_not_without_one() {
    let mut observed = settled(1, vec![]);
    observed.grounds = Grounds::Unsure;
    assert_eq!(said(&observed), ["confirm"]);
    let mut right = settled(1, vec![pod(0)]);
    sync(&mut right);
    right.grounds = Grounds::Unsure;
    assert_eq!(steps(&right), []);
}

#[test]
fn a_set_that_wants_as_many_pods_as_can_be_counted_gets_a_few_at_a_time() {
    let many = || {
        let mut observed = settled(i32::MAX, vec![pod(700)]);
        observed.set.update.max_unavailable = Some(IntOrString::String("100%".into()));
        observed.set.claims = vec![template("data")];
        observed.pods[0] = pod(700).with_volume("data", "data-web-700");
        observed
    };
    let created = sync(&mut parallel(many()));
    assert_eq!((created.len(), &*created[0], &*created[499]), (500, "create web-0", "create web-499"));
    assert_eq!(sync(&mut many()), ["create web-0"]);
    assert_eq!(many().unavailable(now()), i32::MAX - 1);
    let mut without_gate = parallel(many());
    without_gate.set.update.max_unavailable = None;
    assert_eq!(sync(&mut without_gate).len(), 500);
}

#[test]
fn ordinals_end_with_the_greatest_number() {
    let mut observed = parallel(settled(5, vec![]));
    observed.set.start = i32::MAX - 1;
    assert_eq!(sync(&mut observed), ["create web-2147483646", "create web-2147483647"]);
    observed.set.update.partition = Some(i32::MIN);
    assert_eq!(sync(&mut observed), [""; 0]);
}

#[test]
fn many_ordered_pods_are_amended_in_one_round() {
    let nameless = |number| Pod { labels: [(REVISION, NEW)].into_iter().collect(), ..pod(number) };
    let mut observed = settled(151, (0..150).map(nameless).collect());
    let planned = plan(&observed, now());
    let Plan::Act(batch) = planned else { panic!("nothing planned") };
    assert_eq!((batch.pace, batch.steps.len()), (Pace::InOrder, 150));
    let all = sync(&mut observed);
    assert_eq!((all.len(), &*all[150]), (151, "create web-150"));
    let mut waits = settled(3, vec![nameless(0), pod(1).unready(), nameless(2)]);
    assert_eq!(sync(&mut waits), ["update web-0"], "a pod that is not ready holds up those after it");
}
