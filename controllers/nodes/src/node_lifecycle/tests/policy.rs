//! Taints, labels, silence, rates and zones, as tables.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::condition::ConditionStatus::{self, False, True, Unknown};
use steersman_api::meta::Labels;
use steersman_api::{ArcStr, ResourceVersion, Time};
use steersman_informer::View;
use steersman_kinds::node::{Cordon, Health, Taints};
use steersman_kinds::node_conditions::ReadyCondition;
use tokio::time::Instant;

use crate::node_lifecycle::WatchedNode;
use crate::node_lifecycle::labels::outdated;
use crate::node_lifecycle::queue::TaintQueue;
use crate::node_lifecycle::silence::{Grace, LeaseState, Silence};
use crate::node_lifecycle::taints::{NOT_READY, TaintChange, UNREACHABLE, no_execute, no_schedule};
use crate::node_lifecycle::writes::silent_status;
use crate::node_lifecycle::zones::{Rates, Verdict, ZoneState, Zones, zone_key};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn node(object: Value) -> View<WatchedNode> {
    View::from_json(&object)
}

#[test]
fn taints_with_no_schedule_follow_the_conditions() {
    for (name, conditions, taints, unschedulable, add, remove) in [
        ("ready", vec![("Ready", "True")], vec![], false, vec![], vec![]),
        ("no condition", vec![], vec![], false, vec![], vec![]),
        ("not ready", vec![("Ready", "False")], vec![], false, vec!["not-ready"], vec![]),
        (
            "silent",
            vec![("Ready", "Unknown")],
            vec!["not-ready"],
            false,
            vec!["unreachable"],
            vec!["not-ready"],
        ),
        ("cordoned", vec![("Ready", "True")], vec![], true, vec!["unschedulable"], vec![]),
        ("uncordoned", vec![("Ready", "True")], vec!["unschedulable"], false, vec![], vec!["unschedulable"]),
        (
            "under pressure",
            vec![
                ("NetworkUnavailable", "True"),
                ("MemoryPressure", "True"),
                ("DiskPressure", "True"),
                ("PIDPressure", "True"),
                ("Ready", "True"),
            ],
            vec!["disk-pressure"],
            false,
            vec!["memory-pressure", "network-unavailable", "pid-pressure"],
            vec![],
        ),
        (
            "pressure that can't be told",
            vec![("MemoryPressure", "Unknown"), ("NetworkUnavailable", "False")],
            vec!["memory-pressure", "network-unavailable"],
            false,
            vec![],
            vec!["memory-pressure", "network-unavailable"],
        ),
        (
            "a condition that has no taint",
            vec![("Tired", "True"), ("Ready", "True")],
            vec![],
            false,
            vec![],
            vec![],
        ),
        ("a taint of somebody else", vec![("Ready", "True")], vec!["out-of-service"], false, vec![], vec![]),
    ] {
        let conditions: Vec<_> =
            conditions.into_iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let key = |key: &str| format!("node.kubernetes.io/{key}");
        let taints: Vec<_> =
            taints.into_iter().map(|name| json!({"key": key(name), "effect": "NoSchedule"})).collect();
        let node = node(json!({
            "metadata": {"name": "n"}, "spec": {"taints": taints, "unschedulable": unschedulable},
            "status": {"conditions": conditions},
        }));
        let taints = &node.get::<Taints>().taints;
        let change =
            no_schedule(taints, &node.get::<Health>().conditions, node.get::<Cordon>().unschedulable);
        let keys = |taints: &[crate::node_lifecycle::taints::Managed]| -> Vec<String> {
            assert!(taints.iter().all(|taint| taint.effect == "NoSchedule"), "{name}");
            taints.iter().map(|taint| taint.key.to_owned()).collect()
        };
        let full = |names: Vec<&str>| names.into_iter().map(key).collect::<Vec<_>>();
        assert_eq!((keys(&change.add), keys(&change.remove)), (full(add), full(remove)), "{name}");
    }
}

#[test]
fn the_taint_with_no_execute_follows_the_condition_ready() {
    let ready = |status: &str| json!([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]);
    for (name, conditions, change) in [
        ("not ready", ready("False"), TaintChange::swap(NOT_READY, UNREACHABLE)),
        ("silent", ready("Unknown"), TaintChange::swap(UNREACHABLE, NOT_READY)),
        ("ready", ready("True"), TaintChange::default()),
        ("another status", ready("Maybe"), TaintChange::default()),
        ("never reported", json!([]), TaintChange::default()),
        ("no conditions", Value::Null, TaintChange::default()),
    ] {
        assert_eq!(no_execute(&conditions), change, "{name}");
    }
}

#[test]
fn a_change_of_taints_keeps_other_taints_and_the_stamps_of_those_that_are_there() {
    let now = Time::from_seconds(0);
    let not_ready = json!({"key": NOT_READY.key, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let new = json!({"key": UNREACHABLE.key, "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z"});
    let other = json!({"key": NOT_READY.key, "effect": "NoSchedule", "future": 1});
    for (name, before, change, after) in [
        ("none yet", Value::Null, TaintChange::swap(UNREACHABLE, NOT_READY), Some(json!([new]))),
        ("another", json!([other]), TaintChange::swap(UNREACHABLE, NOT_READY), Some(json!([other, new]))),
        (
            "swapped",
            json!([not_ready, other]),
            TaintChange::swap(UNREACHABLE, NOT_READY),
            Some(json!([other, new])),
        ),
        ("there already", json!([not_ready]), TaintChange::swap(NOT_READY, UNREACHABLE), None),
        ("gone already", json!([other]), TaintChange::without(&[NOT_READY, UNREACHABLE]), None),
        ("removed", json!([not_ready, other]), TaintChange::without(&[NOT_READY]), Some(json!([other]))),
    ] {
        assert_eq!(change.applied(&before, now), after, "{name}");
    }
}

#[test]
fn older_labels_follow_the_stable_ones() {
    let labels = |pairs: &[(&str, &str)]| {
        let mut labels = Labels::default();
        pairs.iter().for_each(|(key, value)| labels.insert((*key).into(), (*value).into()));
        labels
    };
    let (os, beta) = ("kubernetes.io/os", "beta.kubernetes.io/os");
    let arch = ("beta.kubernetes.io/arch", ArcStr::from("arm"));
    for (name, pairs, expected) in [
        ("no labels", vec![], vec![]),
        ("older label missing", vec![(os, "linux")], vec![(beta, "linux".into())]),
        ("older label differs", vec![(os, "linux"), (beta, "windows")], vec![(beta, "linux".into())]),
        ("equal", vec![(os, "linux"), (beta, "linux")], vec![]),
        ("only the older one", vec![(beta, "linux")], vec![]),
        ("both", vec![(os, "linux"), ("kubernetes.io/arch", "arm")], vec![(beta, "linux".into()), arch]),
    ] {
        assert_eq!(outdated(&labels(&pairs)), expected, "{name}");
    }
}

#[test]
fn the_zone_is_that_of_the_older_labels_first() {
    let (beta, stable) = ("failure-domain.beta.kubernetes.io", "topology.kubernetes.io");
    let pair = |prefix: &str, what: &str, value: &str| (format!("{prefix}/{what}"), value.to_owned());
    for (pairs, key) in [
        (vec![], ""),
        (vec![pair(stable, "zone", "a")], ":\0:a"),
        (vec![pair(stable, "region", "r")], "r:\0:"),
        (vec![pair(stable, "region", "r"), pair(stable, "zone", "a")], "r:\0:a"),
        (vec![pair(beta, "zone", "b"), pair(stable, "zone", "a"), pair(stable, "region", "r")], "r:\0:b"),
    ] {
        let mut labels = Labels::default();
        pairs.iter().for_each(|(key, value)| labels.insert(key.as_str().into(), value.as_str().into()));
        assert_eq!(zone_key(&labels), key, "{pairs:?}");
    }
}

#[test]
fn a_silent_node_gets_four_unknown_conditions() {
    let unknown = |kind: &str, reason: &str| {
        let message = match reason {
            "NodeStatusUnknown" => "Kubelet stopped posting node status.",
            _ => "Kubelet never posted node status.",
        };
        let mut condition = json!({
            "type": kind, "status": "Unknown", "reason": reason, "message": message,
            "lastTransitionTime": "1970-01-01T00:00:09Z",
        });
        if reason == "NodeStatusNeverUpdated" {
            condition["lastHeartbeatTime"] = "1970-01-01T00:00:00Z".into();
        }
        condition
    };
    let (stopped, never) = ("NodeStatusUnknown", "NodeStatusNeverUpdated");
    for (conditions, expected) in [
        (
            json!([]),
            ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
                .map(|kind| unknown(kind, never))
                .to_vec(),
        ),
        (
            json!([
                {"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"},
                {"type": "DiskPressure", "status": "Unknown"}, {"type": "NetworkUnavailable", "status": "False"},
            ]),
            vec![
                unknown("Ready", stopped),
                unknown("MemoryPressure", stopped),
                unknown("PIDPressure", never),
            ],
        ),
    ] {
        let node = node(json!({
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "status": {"conditions": conditions},
        }));
        let patch = silent_status(&node, Time::from_seconds(9));
        assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
        assert_eq!(patch["status"]["conditions"], Value::from(expected));
    }
}

fn ready(status: ConditionStatus, heartbeat: i64) -> Option<ReadyCondition> {
    Some(ReadyCondition {
        status,
        last_heartbeat_time: Some(Time::from_seconds(heartbeat)),
        last_transition_time: None,
    })
}

/// A sign of a node's life, or something that is none, so many seconds after the beginning.
#[derive(Clone, Copy)]
enum Sign {
    Status(Option<ReadyCondition>),
    /// The cache shows a lease with this `renewTime` and version.
    Lease(i64, u64),
    /// The API server answers with such a lease.
    Answer(i64, u64),
    Spared,
}

fn lease(renewed: i64, version: u64) -> LeaseState {
    LeaseState { renewed: Some(renewed), version: ResourceVersion(version) }
}

#[test]
fn a_node_is_silent_one_grace_period_after_the_last_sign_that_was_seen() {
    use Sign::{Answer, Lease, Spared, Status};
    let grace = Grace { running: seconds(50), starting: seconds(60) };
    for (name, signs, silent_after) in [
        ("no status", vec![(0, Status(None))], 60),
        ("a status", vec![(0, Status(ready(True, 0)))], 50),
        ("the first status", vec![(0, Status(None)), (30, Status(ready(True, 0)))], 80),
        ("status removed", vec![(0, Status(ready(True, 0))), (30, Status(None))], 90),
        ("a heartbeat", vec![(0, Status(ready(True, 0))), (40, Status(ready(True, 1)))], 90),
        ("the same heartbeat again", vec![(0, Status(ready(True, 0))), (40, Status(ready(False, 0)))], 50),
        ("a lease", vec![(0, Status(ready(True, 0))), (10, Lease(1, 1))], 60),
        ("without status, but with a lease", vec![(0, Status(None)), (50, Lease(1, 1))], 110),
        ("the same lease again", vec![(0, Status(ready(True, 0))), (10, Lease(1, 1)), (20, Lease(1, 2))], 60),
        (
            "a clock that steps back",
            vec![(0, Status(ready(True, 0))), (10, Lease(9, 1)), (20, Lease(1, 2))],
            70,
        ),
        (
            "a late watch",
            vec![(0, Status(ready(True, 0))), (10, Answer(9, 9)), (20, Lease(1, 1)), (30, Lease(9, 9))],
            60,
        ),
        (
            "news after a late watch",
            vec![(0, Status(None)), (10, Answer(9, 9)), (20, Lease(1, 1)), (30, Lease(3, 10))],
            90,
        ),
        (
            "a restored API server",
            vec![(0, Status(None)), (10, Answer(9, 9)), (20, Answer(2, 2)), (30, Lease(3, 3))],
            90,
        ),
        ("a heartbeat in the past", vec![(0, Status(ready(True, 9))), (20, Status(ready(True, 1)))], 70),
        ("a new leader", vec![(0, Status(ready(True, 0))), (40, Spared)], 90),
        ("silent when the leader began", vec![(0, Status(ready(Unknown, 0))), (200, Spared)], 250),
    ] {
        let (begun, node) = (Instant::now(), ArcStr::from("n"));
        let mut silence = Silence::new(grace, begun);
        let mut signs = signs.into_iter().peekable();
        let found = (0..400).find(|second| {
            let now = begun + seconds(*second);
            while let Some((_, sign)) = signs.next_if(|(at, _)| at == second) {
                match sign {
                    Status(ready) => silence.status(&node, ready, || None, now),
                    Lease(renewed, version) => _ = silence.shown(&node, lease(renewed, version), now),
                    Answer(renewed, version) => _ = silence.answered(&node, lease(renewed, version), now),
                    Spared => silence.spare_all(now),
                }
            }
            // At the end of the period the node is not silent yet, as in upstream.
            let is_over = signs.peek().is_none();
            !silence.due(now + Duration::from_millis(1)).is_empty() && is_over
        });
        assert_eq!(found, Some(silent_after), "{name}");
    }
}

#[test]
fn a_silent_node_is_returned_again_and_one_that_is_gone_is_not() {
    let grace = Grace { running: seconds(50), starting: seconds(60) };
    let (begun, node) = (Instant::now(), ArcStr::from("n"));
    let mut silence = Silence::new(grace, begun);
    silence.status(&node, ready(True, 0), || Some(1), begun);
    assert!(!silence.shown("n", lease(1, 1), begun), "the lease was known");
    assert_eq!(silence.due(begun + seconds(51)), ["n"]);
    assert!(silence.due(begun + seconds(52)).is_empty());
    assert_eq!(silence.due(begun + seconds(102)), ["n"]);
    assert!(!silence.is_silent("n", begun + seconds(50)) && silence.is_silent("n", begun + seconds(51)));
    silence.remove("n");
    assert!(silence.due(begun + seconds(500)).is_empty() && !silence.is_silent("n", begun + seconds(500)));
    silence.status(&node, ready(True, 0), || None, begun + seconds(500));
    assert!(silence.due(begun + seconds(549)).is_empty());
    assert_eq!(silence.due(begun + seconds(551)), ["n"]);
    assert!(silence.due(begun + seconds(551)).is_empty());
}

#[test]
fn nodes_of_a_zone_get_taints_at_its_rate() {
    let begun = Instant::now();
    let names = |names: &[&str]| names.iter().map(|name| ArcStr::from(*name)).collect::<Vec<_>>();
    let nodes = names(&["a", "b", "c"]);
    let served = |queue: &mut TaintQueue, until: u64| {
        let taken = (0..=until * 10).filter_map(|tenth| {
            let node = queue.next(begun + Duration::from_millis(tenth * 100))?;
            Some((tenth / 10, node.to_string()))
        });
        taken.collect::<Vec<_>>()
    };
    let expect = |served: &[(u64, &str)]| -> Vec<(u64, String)> {
        served.iter().map(|(at, node)| (*at, (*node).to_owned())).collect()
    };
    let mut queue = TaintQueue::new(0.1, begun);
    nodes.iter().chain(&nodes).for_each(|node| queue.add(node, begun));
    assert_eq!(served(&mut queue, 60), expect(&[(0, "a"), (10, "b"), (20, "c")]));
    assert!(queue.is_empty());

    // No rate, then one again: without a token that was not there.
    let mut queue = TaintQueue::new(0.1, begun);
    nodes.iter().for_each(|node| queue.add(node, begun));
    queue.set_rate(0.0, begun);
    assert_eq!(served(&mut queue, 60), []);
    queue.set_rate(1.0, begun);
    queue.remove("b");
    assert_eq!(served(&mut queue, 60), expect(&[(1, "a"), (2, "c")]));

    // A node that got no taint comes again, behind the others.
    let mut queue = TaintQueue::new(1.0, begun);
    nodes.iter().for_each(|node| queue.add(node, begun));
    assert_eq!(queue.next(begun).as_deref(), Some("a"));
    queue.retry(&nodes[0], begun + Duration::from_nanos(1));
    assert_eq!(served(&mut queue, 60), expect(&[(1, "b"), (2, "c"), (3, "a")]));
    for rate in [0.0, -1.0, f32::NAN] {
        let mut queue = TaintQueue::new(rate, begun);
        queue.add(&nodes[0], begun);
        assert_eq!(served(&mut queue, 60), [], "{rate}");
    }
}

#[test]
fn zones_are_disrupted_by_the_part_of_their_nodes_that_is_not_ready() {
    use ZoneState::{FullDisruption, Normal, PartialDisruption};
    let rates = Rates { healthy: 0.1, disrupted: 0.01, large: 4, threshold: 0.55 };
    // A second zone stays healthy.
    for (ready, unready, state) in [
        (1, 0, Normal),
        (0, 1, FullDisruption),
        (0, 5, FullDisruption),
        (1, 2, Normal),
        (1, 3, PartialDisruption),
        (3, 3, Normal),
        (9, 11, PartialDisruption),
        (10, 10, Normal),
    ] {
        let now = Instant::now();
        let mut zones = Zones::new(rates);
        zones.place(&"other".into(), &"b".into(), Some(true), now);
        for number in 0..ready + unready {
            let node = ArcStr::from(format!("n{number}"));
            zones.place(&node, &"a".into(), Some(true), now);
            zones.place(&node, &"a".into(), Some(number < ready), now);
        }
        zones.place(&"excluded".into(), &"a".into(), None, now);
        assert_eq!(zones.count(now), Verdict::Same);
        assert_eq!(zones.of("n0").unwrap().state, state, "{ready} ready, {unready} not");
    }
}

#[test]
fn taints_stop_while_no_node_of_any_zone_is_ready() {
    let rates = Rates { healthy: 1000.0, disrupted: 0.0, large: 50, threshold: 0.55 };
    let mut now = Instant::now();
    let mut zones = Zones::new(rates);
    let mut step = |zones: &mut Zones, ready: [bool; 2], expected, flows: [bool; 2]| {
        now += seconds(5);
        for ((node, zone), is_ready) in [("a1", "a"), ("b1", "b")].into_iter().zip(ready) {
            zones.place(&node.into(), &zone.into(), Some(is_ready), now);
        }
        assert_eq!(zones.count(now), expected, "{ready:?}");
        for (node, flows) in ["a1", "b1"].into_iter().zip(flows) {
            let zone = zones.of(node).unwrap();
            zone.queue.add(&node.into(), now);
            assert_eq!(zone.queue.next(now + seconds(1)).is_some(), flows, "{node} of {ready:?}");
        }
    };
    step(&mut zones, [true, true], Verdict::Same, [true, true]);
    step(&mut zones, [false, true], Verdict::Same, [true, true]);
    step(&mut zones, [false, false], Verdict::AllDisrupted, [false, false]);
    step(&mut zones, [false, false], Verdict::Same, [false, false]);
    step(&mut zones, [true, false], Verdict::Recovered, [true, true]);
    step(&mut zones, [true, false], Verdict::Same, [true, true]);
}

#[test]
fn zones_without_nodes_are_forgotten_and_only_counted_zones_are_dark() {
    let rates = Rates { healthy: 1.0, disrupted: 0.0, large: 50, threshold: 0.55 };
    let (now, node, other) = (Instant::now(), ArcStr::from("n"), ArcStr::from("other"));
    let mut zones = Zones::new(rates);
    let names = |zones: &mut Zones| zones.iter_mut().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
    for number in 0..100 {
        zones.place(&node, &format!("z{number}").into(), Some(false), now);
        zones.place(&other, &"z0".into(), None, now);
        zones.count(now);
        zones.forget_empty();
    }
    assert_eq!(names(&mut zones), ["z0", "z99"]);
    assert!(zones.is_dark("n") && !zones.is_dark("other"), "a zone of exempt nodes is never dark");
    zones.place(&other, &"z0".into(), Some(true), now);
    zones.count(now);
    assert!(!zones.is_dark("n"), "another zone is well");
    zones.remove("n");
    zones.remove("other");
    zones.remove("other");
    zones.forget_empty();
    assert!(names(&mut zones).is_empty() && !zones.is_dark("n"));
}
