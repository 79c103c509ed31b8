//! When pods go, and what is done about it. Situations are those of upstream's tests.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::{Meta, OwnerReference, Time};
use steersman_controller::plan::Plan;
use steersman_kinds::device_allocation::{AllocatedDevice, Consumer};
use steersman_kinds::device_taint::{DeviceTaint, DeviceToleration, NO_EXECUTE};

use super::eviction::{
    Consumer as Pod, Eviction, FoundTaint, RuleName, SliceOfPool, UsedClaim, eviction, taints_in,
};
use super::plan::{Live, Observed, Planned, Step, plan};

mod rules;

fn at(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

/// A taint that was added then.
fn taint(key: &str, added: i64) -> DeviceTaint {
    DeviceTaint {
        key: key.into(),
        effect: NO_EXECUTE.into(),
        time_added: Some(at(added)),
        ..DeviceTaint::default()
    }
}

fn toleration(key: &str, effect: &str, seconds: Option<i64>) -> DeviceToleration {
    let [key, operator, effect] = [key, "Exists", effect].map(Into::into);
    DeviceToleration { key, operator, effect, seconds, ..DeviceToleration::default() }
}

/// A claim that is reserved for the pod `p`, with devices that have these taints and tolerations.
fn claim(devices: Vec<(Vec<DeviceTaint>, Vec<DeviceToleration>)>) -> UsedClaim {
    let device = |(taints, tolerations): (Vec<DeviceTaint>, Vec<DeviceToleration>)| {
        let taints = taints.into_iter().map(|taint| FoundTaint { taint, rule: None }).collect();
        (AllocatedDevice { tolerations, ..AllocatedDevice::default() }, taints)
    };
    let consumer = Consumer { resource: "pods".into(), uid: "p".into(), ..Consumer::default() };
    UsedClaim {
        reserved_for: vec![consumer],
        devices: devices.into_iter().map(device).collect(),
        ..UsedClaim::default()
    }
}

/// When the pod of this uid must go.
fn eviction_time(pod: &str, claims: &[UsedClaim]) -> Option<Time> {
    let pod = Pod { uid: pod.into(), group: None };
    eviction(&pod, claims).map(|eviction| eviction.due)
}

#[test]
fn a_pod_goes_at_the_end_of_the_shortest_toleration() {
    let no_execute = |key, seconds| toleration(key, NO_EXECUTE, seconds);
    let two = [taint("a", 100), taint("b", 50)];
    let undated = DeviceTaint { time_added: None, ..taint("a", 0) };
    for (name, taints, tolerations, expected) in [
        ("no taint", &[][..], vec![], None),
        ("not tolerated", &two[..1], vec![], Some(100)),
        ("two taints", &two[..], vec![], Some(50)),
        ("tolerated for ever", &two[..1], vec![no_execute("a", None)], None),
        ("only one is tolerated", &two[..], vec![no_execute("b", None)], Some(100)),
        ("tolerated for a time", &two[..1], vec![no_execute("a", Some(60))], Some(160)),
        (
            "the shortest counts",
            &two[..1],
            vec![no_execute("a", Some(60)), no_execute("", Some(20))],
            Some(120),
        ),
        ("for ever and for a time", &two[..1], vec![no_execute("a", Some(60)), no_execute("a", None)], None),
        (
            "each taint for its time",
            &two[..],
            vec![no_execute("a", Some(10)), no_execute("b", Some(70))],
            Some(110),
        ),
        ("negative", &two[..1], vec![no_execute("a", Some(-5))], Some(100)),
        ("more than there is time", &two[..1], vec![no_execute("a", Some(i64::MAX))], Some(i64::MAX)),
        ("of another effect", &two[..1], vec![toleration("a", "NoSchedule", None)], Some(100)),
        ("of any effect", &two[..1], vec![toleration("a", "", None)], Some(100)),
        ("undated", std::slice::from_ref(&undated), vec![], None),
    ] {
        let used = claim(vec![(taints.to_vec(), tolerations)]);
        assert_eq!(eviction_time("p", &[used]), expected.map(at), "{name}");
    }
}

#[test]
fn the_first_end_of_all_devices_and_claims_counts() {
    let [early, late] = [10, 20].map(|added| (vec![taint("a", added)], vec![]));
    let sound = (vec![], vec![]);
    let devices = claim(vec![late.clone(), early.clone(), sound]);
    assert_eq!(eviction_time("p", &[devices]), Some(at(10)));
    let claims = [claim(vec![late]), claim(vec![early]), claim(vec![])];
    assert_eq!(eviction_time("p", &claims), Some(at(10)));
}

#[test]
fn only_claims_that_the_pod_may_use_count() {
    let tainted = claim(vec![(vec![taint("a", 10)], vec![])]);
    let unreserved = UsedClaim { reserved_for: Vec::new(), ..tainted.clone() };
    assert_eq!(eviction_time("p", &[unreserved]), None, "not reserved");
    assert_eq!(eviction_time("q", std::slice::from_ref(&tainted)), None, "another pod of the name");
    let owned_by = |uid: &str| {
        let owners = [OwnerReference::controller("v1", "Pod", "p", uid.into())].into();
        UsedClaim { is_generated: true, meta: Meta { owners, ..Meta::default() }, ..tainted.clone() }
    };
    assert_eq!(eviction_time("p", &[owned_by("p")]), Some(at(10)));
    assert_eq!(eviction_time("p", &[owned_by("q")]), None, "made for another pod");
}

#[test]
fn only_slices_of_the_newest_generation_count() {
    let (old, new) = ([taint("old", 1)], [taint("new", 2)]);
    let slice = |generation, taints| SliceOfPool { generation, taints };
    let none: &[DeviceTaint] = &[];
    for (name, slices, expected) in [
        ("no slice", vec![], none),
        ("one", vec![slice(1, Some(&old[..]))], &old[..]),
        ("outdated", vec![slice(1, Some(&old[..])), slice(2, None)], none),
        ("newer", vec![slice(2, Some(&new[..])), slice(1, Some(&old[..]))], &new[..]),
        ("the second of the generation", vec![slice(2, None), slice(2, Some(&new[..]))], &new[..]),
    ] {
        assert_eq!(taints_in(&slices), expected, "{name}");
    }
}

const NOW: i64 = 1_000;

fn now() -> Timestamp {
    at(NOW).into()
}

fn observed(eviction: Option<i64>, is_planned: bool, live: Option<Live>) -> Observed {
    let eviction = eviction.map(|due| Eviction { due: at(due), rules: BTreeSet::new() });
    let planned = if is_planned { Planned::Yes } else { Planned::No };
    Observed { uid: "p".into(), eviction, planned, live }
}

#[test]
fn a_due_pod_is_read_marked_and_deleted() {
    let runs = |since: Option<i64>, is_marked| Some(Live::Runs { disrupted_since: since.map(at), is_marked });
    let evict = |mark: Option<i64>| Step::Evict { uid: "p".into(), due: at(900), mark: mark.map(at) };
    for (name, observed, expected) in [
        ("no taint", observed(None, false, None), None),
        ("cancelled", observed(None, true, None), Some(Step::Cancel)),
        ("new", observed(Some(900), false, None), Some(Step::Remember)),
        (
            "for a further reason",
            Observed { planned: Planned::ForLess, ..observed(Some(900), true, None) },
            Some(Step::Remember),
        ),
        (
            "cancelled, with fewer reasons",
            Observed { planned: Planned::ForLess, ..observed(None, true, None) },
            Some(Step::Cancel),
        ),
        ("due", observed(Some(900), true, None), Some(Step::Read)),
        ("due now", observed(Some(NOW), true, None), Some(Step::Read)),
        ("runs", observed(Some(900), true, runs(None, false)), Some(evict(Some(NOW)))),
        ("disrupted by another", observed(Some(900), true, runs(Some(7), false)), Some(evict(Some(7)))),
        ("marked already", observed(Some(900), true, runs(Some(7), true)), Some(evict(None))),
        ("gone", observed(Some(900), true, Some(Live::Gone)), Some(Step::Forget)),
        ("gone and forgotten", observed(Some(900), false, Some(Live::Gone)), None),
    ] {
        assert_eq!(plan(&observed, now()), expected.map_or_else(Plan::done, Plan::step), "{name}");
    }
}

#[test]
fn a_toleration_is_waited_for_to_the_fraction_of_a_second() {
    let waiting = observed(Some(NOW + 5), true, None);
    let rest = |now| match plan(&waiting, now) {
        Plan::Done { requeue_after } => requeue_after,
        acts @ Plan::Act(_) => panic!("{acts:?}"),
    };
    assert_eq!(rest(now()), Some(Duration::from_secs(5)));
    assert_eq!(rest(now() + SignedDuration::from_millis(400)), Some(Duration::from_millis(4600)));
}
