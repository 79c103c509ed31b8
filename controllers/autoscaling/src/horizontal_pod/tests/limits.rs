//! Windows, rates and bounds.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::condition::ConditionStatus;
use steersman_informer::wire::FieldValue;
use steersman_kinds::horizontal_pod_autoscaler::Behavior;
use tokio::time::Instant;

use super::super::behavior::{Speed, greatest, least};
use super::super::history::{Change, History, Recommendation};
use super::super::limits::{Limited, Range, with_behavior, without_behavior};

const WINDOW: Duration = Duration::from_secs(60 * 5);

/// A moment from which one can count back.
fn base() -> Instant {
    Instant::now() + Duration::from_secs(3600 * 10)
}

fn recommended(now: Instant, earlier: &[(i32, u64)]) -> History {
    let one = |&(replicas, ago): &(i32, u64)| Recommendation { replicas, at: now - Duration::from_secs(ago) };
    History { recommendations: earlier.iter().map(one).collect(), ..History::default() }
}

fn changes(now: Instant, changes: &[(i32, u64)]) -> Vec<Change> {
    changes.iter().map(|&(count, ago)| Change { count, at: now - Duration::from_secs(ago) }).collect()
}

fn speed(behavior: Value) -> Speed {
    Speed::of(&Behavior::from_json(behavior).unwrap(), WINDOW)
}

fn reasons(limited: &Limited) -> (i32, &str, &str, bool) {
    let limits = limited.limited.status == ConditionStatus::True;
    (limited.replicas, &limited.able.reason, &limited.limited.reason, limits)
}

#[test]
fn without_behavior_the_bounds_and_twice_the_replicas_limit() {
    for (name, current, desired, (min, max), replicas, reason) in [
        ("within", 5, 7, (3, 8), 7, "DesiredWithinRange"),
        ("too few", 3, 1, (2, 8), 2, "TooFewReplicas"),
        ("zero within", 1, 0, (0, 10), 0, "DesiredWithinRange"),
        ("too many", 20, 1000, (1, 10), 10, "TooManyReplicas"),
        ("too fast", 3, 1000, (1, 2000), 6, "ScaleUpLimit"),
        ("four at least", 1, 1000, (1, 2000), 4, "ScaleUpLimit"),
        ("huge", i32::MAX, i32::MAX, (1, i32::MAX), i32::MAX, "DesiredWithinRange"),
    ] {
        let range = Range { min, max };
        let limited = without_behavior(&mut History::default(), current, desired, range, WINDOW, base());
        let limits = replicas != desired;
        assert_eq!(reasons(&limited), (replicas, "ReadyForNewScale", reason, limits), "{name}");
    }
}

#[test]
fn without_behavior_recent_recommendations_keep_replicas() {
    let range = Range { min: 1, max: 100 };
    let now = base();
    for (name, earlier, desired, replicas, able) in [
        ("none", &[][..], 3, 3, "ReadyForNewScale"),
        ("a higher one", &[(5, 60)], 3, 5, "ScaleDownStabilized"),
        ("one as old as the window", &[(5, 300)], 3, 5, "ScaleDownStabilized"),
        ("one that is too old", &[(5, 301)], 3, 3, "ReadyForNewScale"),
        ("lower ones", &[(1, 1), (2, 2)], 3, 3, "ReadyForNewScale"),
    ] {
        let mut history = recommended(now, earlier);
        let limited = without_behavior(&mut history, 10, desired, range, WINDOW, now);
        assert_eq!((limited.replicas, &*limited.able.reason), (replicas, able), "{name}");
        assert_eq!(history.recommendations.last().unwrap().replicas, desired, "{name}");
        assert!(history.recommendations.iter().all(|one| now - one.at <= WINDOW), "{name}");
    }
}

#[test]
fn with_behavior_each_direction_has_its_window() {
    const MIN: u64 = 60;
    let range = Range { min: 1, max: 1000 };
    let now = base();
    for (name, earlier, current, desired, (up, down), replicas) in [
        ("nothing recommended", &[][..], 100, 5, (0, 0), 5),
        ("down", &[(4, 2 * MIN), (5, MIN)], 100, 3, (0, 180), 5),
        ("up", &[(4, 2 * MIN), (5, MIN)], 1, 7, (300, 0), 4),
        ("down, window of up only", &[(1, 2 * MIN), (2, MIN)], 100, 3, (300, 0), 3),
        ("up, window of down only", &[(4, 2 * MIN), (5, MIN)], 1, 3, (0, 300), 3),
        ("down, all too old", &[(10, 10 * MIN), (9, 9 * MIN)], 100, 3, (0, 0), 3),
        ("up, all too old", &[(10, 10 * MIN), (9, 9 * MIN)], 1, 100, (0, 0), 100),
        ("down, some too old", &[(10, 10 * MIN), (4, MIN), (5, 2 * MIN), (9, 9 * MIN)], 100, 3, (0, 180), 5),
        ("up, some too old", &[(10, 100 * MIN), (6, MIN), (5, 2 * MIN), (9, 3 * MIN)], 1, 100, (300, 0), 5),
        ("both, then less", &[(2, 100 * MIN), (3, 3 * MIN)], 2, 1, (300, 300), 2),
        ("both, then more", &[(2, 100 * MIN), (1, 3 * MIN)], 2, 3, (300, 300), 2),
        ("as old as the window", &[(9, 180)], 100, 3, (0, 180), 3),
    ] {
        let free = json!([{"type": "Percent", "value": 100_000, "periodSeconds": 1}]);
        let speed = speed(json!({
            "scaleUp": {"stabilizationWindowSeconds": up, "policies": free},
            "scaleDown": {"stabilizationWindowSeconds": down, "policies": free},
        }));
        let mut history = recommended(now, earlier);
        let limited = with_behavior(&mut history, current, desired, range, &speed, now);
        assert_eq!(limited.replicas, replicas, "{name}");
        let longest = Duration::from_secs(u64::max(up, down));
        assert!(history.recommendations.iter().all(|one| now - one.at <= longest), "{name}");
        let able = match (replicas == desired, desired >= current) {
            (true, _) => "ReadyForNewScale",
            (false, true) => "ScaleUpStabilized",
            (false, false) => "ScaleDownStabilized",
        };
        assert_eq!(&*limited.able.reason, able, "{name}");
    }
}

#[test]
fn policies_bound_the_change_within_their_periods() {
    let now = base();
    let pods = |value: i32, period: i32| json!({"type": "Pods", "value": value, "periodSeconds": period});
    let percent =
        |value: i32, period: i32| json!({"type": "Percent", "value": value, "periodSeconds": period});
    // Policies, which of them counts, the growths and the shrinkings so far; then how far ten replicas may grow and shrink.
    for (name, policies, select, grown, shrunk, most, fewest) in [
        ("pods", json!([pods(4, 60)]), "Max", &[][..], &[][..], 14, 6),
        ("percent", json!([percent(15, 60)]), "Max", &[], &[], 12, 8),
        ("the greater change", json!([pods(4, 60), percent(100, 60)]), "Max", &[], &[], 20, 0),
        ("the smaller change", json!([pods(4, 60), percent(100, 60)]), "Min", &[], &[], 14, 6),
        ("none", json!([pods(4, 60)]), "Disabled", &[], &[], 10, 10),
        ("after a growth", json!([pods(4, 60)]), "Max", &[(3, 30)], &[], 11, 3),
        ("after a shrinking", json!([pods(4, 60)]), "Max", &[], &[(3, 30)], 17, 9),
        ("after both", json!([pods(4, 60)]), "Max", &[(1, 59), (1, 1)], &[(1, 2)], 13, 5),
        ("after a growth as old as the period", json!([pods(4, 60)]), "Max", &[(3, 60)], &[], 14, 6),
        ("after too much growth", json!([pods(4, 60)]), "Max", &[(9, 5)], &[], 5, -3),
        ("periods of their own", json!([pods(4, 60), pods(6, 10)]), "Max", &[(3, 30)], &[], 16, 3),
        ("percent of what there was", json!([percent(50, 60)]), "Max", &[(2, 30)], &[], 12, 4),
    ] {
        let rules = json!({"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": 0});
        let speed = speed(json!({"scaleUp": rules, "scaleDown": rules}));
        let history =
            History { growths: changes(now, grown), shrinkings: changes(now, shrunk), ..History::default() };
        assert_eq!(greatest(10, &history, &speed.up, now), most, "{name}");
        assert_eq!(least(10, &history, &speed.down, now), fewest, "{name}");
    }
}

#[test]
fn changes_faster_than_the_policies_are_limited() {
    let now = base();
    let one = json!({"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}], "stabilizationWindowSeconds": 0});
    let speed = speed(json!({"scaleUp": one, "scaleDown": one}));
    for (name, desired, (min, max), grown, replicas, reason) in [
        ("up", 20, (1, 100), &[][..], 12, "ScaleUpLimit"),
        ("up to the bound", 20, (1, 11), &[], 11, "TooManyReplicas"),
        ("up, already done", 20, (1, 100), &[(5, 1)], 10, "ScaleUpLimit"),
        ("down", 1, (1, 100), &[], 8, "ScaleDownLimit"),
        ("down to the bound", 1, (9, 100), &[], 9, "TooFewReplicas"),
        ("slow enough", 11, (1, 100), &[], 11, "DesiredWithinRange"),
        ("no change", 10, (1, 100), &[], 10, "DesiredWithinRange"),
    ] {
        let mut history = History { growths: changes(now, grown), ..History::default() };
        let limited = with_behavior(&mut history, 10, desired, Range { min, max }, &speed, now);
        let limits = reason != "DesiredWithinRange";
        assert_eq!(reasons(&limited), (replicas, "ReadyForNewScale", reason, limits), "{name}");
    }
}

#[test]
fn a_behavior_that_says_nothing_has_the_defaults_of_the_api() {
    let now = base();
    for behavior in [json!({}), json!({"scaleUp": {}, "scaleDown": {}})] {
        let speed = speed(behavior);
        assert_eq!((speed.up.window, speed.down.window), (Duration::ZERO, WINDOW));
        assert_eq!(greatest(1, &History::default(), &speed.up, now), 5);
        assert_eq!(greatest(10, &History::default(), &speed.up, now), 20);
        assert_eq!(least(10, &History::default(), &speed.down, now), 0);
    }
}

#[test]
fn changes_that_no_policy_looks_at_are_dropped() {
    let now = base();
    let mut history = History { growths: changes(now, &[(1, 61), (2, 30)]), ..History::default() };
    history.record(3, 7, now, Duration::from_secs(60));
    assert_eq!(history.growths.iter().map(|change| change.count).collect::<Vec<_>>(), [2, 4]);
    history.record(7, 6, now, Duration::from_secs(60));
    assert_eq!(history.shrinkings, changes(now, &[(1, 0)]));
}
