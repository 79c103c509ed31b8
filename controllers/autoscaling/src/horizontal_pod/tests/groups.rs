//! Which pods count.

use std::time::Duration;

use jiff::SignedDuration;
use steersman_api::condition::ConditionStatus;

use super::super::pods::{Groups, Pod, Ready, Sample, Samples, State};
use super::scenes::{Like, START_UP, ago, now, pod};

const UNKNOWN: ConditionStatus = ConditionStatus::Unknown;
const TRUE: ConditionStatus = ConditionStatus::True;
const FALSE: ConditionStatus = ConditionStatus::False;

fn group(pod: Pod, resource: &str, sample: Option<Sample>) -> &'static str {
    let samples: Samples = sample.into_iter().map(|sample| (pod.name.clone(), sample)).collect();
    let pods = [pod];
    let groups = Groups::of(&pods, &samples, resource, START_UP, now());
    match (groups.ready, groups.unready.len(), groups.missing.len(), groups.ignored.len()) {
        (1, 0, 0, 0) => "ready",
        (0, 1, 0, 0) => "unready",
        (0, 0, 1, 0) => "missing",
        (0, 0, 0, 1) => "ignored",
        other => panic!("{other:?}"),
    }
}

fn sample(seconds_ago: i64, window: u64) -> Option<Sample> {
    let at = now() - SignedDuration::from_secs(seconds_ago);
    Some(Sample { at: Some(at), window: Duration::from_secs(window), value: 1 })
}

#[test]
fn pods_are_grouped_by_what_they_do() {
    let fresh = sample(0, 30);
    for (name, pod, resource, sample, expected) in [
        ("runs", pod("p"), "cpu", fresh, "ready"),
        ("has no value", pod("p"), "cpu", None, "missing"),
        ("has ended", pod("p").is(State::Ending), "cpu", fresh, "ignored"),
        ("has ended and no value", pod("p").is(State::Ending), "memory", None, "ignored"),
        ("is pending", pod("p").is(State::Pending), "memory", fresh, "unready"),
        ("is pending without a value", pod("p").is(State::Pending), "cpu", None, "unready"),
        ("is in an unknown phase", pod("p").is(State::Unknown), "memory", fresh, "ready"),
        ("is unready, by memory", pod("p").unready(), "memory", fresh, "ready"),
        ("is unready, by a metric of its own", pod("p").unready(), "", fresh, "ready"),
        ("has no condition", Pod { ready: None, ..pod("p") }, "cpu", fresh, "unready"),
        ("has no condition, by memory", Pod { ready: None, ..pod("p") }, "memory", fresh, "ready"),
        ("has no start", Pod { started: None, ..pod("p") }, "cpu", fresh, "unready"),
    ] {
        assert_eq!(group(pod, resource, sample), expected, "{name}");
    }
}

#[test]
fn the_processor_usage_of_new_pods_counts_once_they_have_been_ready_for_a_window() {
    // The age of the pod, its readiness and how long ago that began, the sample; then whether it counts.
    for (name, started, (status, since), sample, expected) in [
        ("new, unready", 60, (FALSE, 60), sample(0, 30), "unready"),
        ("new, ready for less than a window", 60, (TRUE, 20), sample(0, 30), "unready"),
        ("new, ready for a window", 60, (TRUE, 30), sample(0, 30), "ready"),
        ("new, the sample is older", 60, (TRUE, 50), sample(25, 30), "unready"),
        ("new, of unknown readiness", 60, (UNKNOWN, 50), sample(0, 30), "ready"),
        ("new, the window is huge", 60, (TRUE, 50), sample(0, u64::MAX), "unready"),
        ("as old as the period", 120, (TRUE, 1), sample(0, 30), "ready"),
        ("old, never ready", 180, (FALSE, 175), sample(0, 30), "unready"),
        ("old, unready since a later moment", 180, (FALSE, 170), sample(0, 30), "ready"),
        ("old, unready for a moment", 180, (FALSE, 1), sample(0, 30), "ready"),
        ("old, ready, old sample", 180, (TRUE, 1), sample(600, 30), "ready"),
    ] {
        let ready = Some(Ready { status, since: Some(ago(since)) });
        let pod = Pod { started: Some(ago(started)), ready, ..pod("p") };
        assert_eq!(group(pod, "cpu", sample), expected, "{name}");
    }
    let since_ever = Some(Ready { status: TRUE, since: None });
    let undated = Some(Sample { at: None, window: Duration::ZERO, value: 1 });
    let new = Pod { started: Some(ago(5)), ready: since_ever, ..pod("p") };
    assert_eq!(group(new.clone(), "cpu", undated), "ready");
    let new = Pod { ready: Some(Ready { status: TRUE, since: Some(ago(5)) }), ..new };
    assert_eq!(group(new, "cpu", undated), "unready");
}
