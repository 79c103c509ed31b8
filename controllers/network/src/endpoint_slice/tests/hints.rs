//! Hints: by the field `trafficDistribution` and by the annotation for topology aware hints.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::endpoint_slice::topology::{NodeShare, is_overloaded, ratios};

fn distributing(value: &str) -> View<RoutedService> {
    service(json!({"spec": {"trafficDistribution": value}}))
}

fn auto() -> View<RoutedService> {
    service(json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}}))
}

fn for_zone(zone: &str) -> Value {
    json!({"hints": {"forZones": [{"name": zone}]}})
}

/// The zones' shares in clusters whose nodes have these processors.
fn shares(nodes: &[(&str, i64)]) -> crate::endpoint_slice::topology::Ratios {
    let share = |(zone, cpu): &(&str, i64)| NodeShare { zone: (*zone).into(), milli_cpu: cpu * 1000 };
    ratios(nodes.iter().map(share))
}

#[test]
fn traffic_distribution_hints_at_the_own_zone_and_node() {
    let pods = || vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2").on("n3")];
    for (value, first, second) in [
        ("PreferClose", json!({"forZones": [{"name": "z1"}]}), Value::Null),
        ("PreferSameZone", json!({"forZones": [{"name": "z1"}]}), Value::Null),
        (
            "PreferSameNode",
            json!({"forZones": [{"name": "z1"}], "forNodes": [{"name": "n1"}]}),
            json!({"forNodes": [{"name": "n3"}]}),
        ),
        ("Unknown", Value::Null, Value::Null),
    ] {
        let written = writes(observed(distributing(value), pods(), vec![]));
        let endpoints = &written[0].1["endpoints"];
        assert_eq!((&endpoints[0]["hints"], &endpoints[1]["hints"]), (&first, &second), "{value}");
    }
}

#[test]
fn hints_are_written_only_where_they_are_wrong() {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let not_ready = json!({"conditions": {"ready": false, "serving": false}});
    let pods = || vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2").with(unready.clone())];
    let slice = |hints: Value, of_unready: Value| {
        let mut other = not_ready.clone();
        json_patch::merge(&mut other, &of_unready);
        stored("a", json!([endpoint("a", "10.0.0.1", hints), endpoint("b", "10.0.0.2", other)]), json!({}))
    };
    for (value, hints, of_unready, written) in [
        ("PreferClose", for_zone("z1"), json!({}), false),
        ("PreferClose", for_zone("z1"), for_zone("z9"), false),
        ("PreferClose", for_zone("z2"), json!({}), true),
        ("PreferClose", json!({}), json!({}), true),
        ("PreferSameNode", for_zone("z1"), json!({}), true),
        ("", json!({}), json!({}), false),
        ("", for_zone("z1"), json!({}), true),
        ("", json!({}), for_zone("z1"), true),
    ] {
        let found =
            writes(observed(distributing(value), pods(), vec![slice(hints.clone(), of_unready.clone())]));
        assert_eq!(!found.is_empty(), written, "{value} {hints} {of_unready}");
    }
}

#[test]
fn endpoints_are_divided_by_the_zones_shares() {
    let pods = || (0..4).map(|at| serving(&format!("p{at}"), &format!("10.0.0.{at}"))).collect::<Vec<_>>();
    let mut seen = observed(auto(), pods(), vec![]);
    seen.ratios = shares(&[("z1", 4), ("z2", 4)]);
    let all = steps(&mut seen);
    let [Step::Create(slice)] = &all[..] else { panic!("{all:?}") };
    let zones: Vec<_> = slice
        .endpoints
        .iter()
        .map(|endpoint| endpoint.hints.as_ref().unwrap().for_zones[0].name.to_string())
        .collect();
    assert_eq!(zones, ["z2", "z2", "z1", "z1"]);
    let events: Vec<_> = seen.begun[0].events.iter().map(|event| (event.reason, &*event.message)).collect();
    assert_eq!(
        events,
        [("TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4")]
    );
}

#[test]
fn nodes_that_claim_huge_numbers_of_processors_share_the_endpoints() {
    let node = |zone: &str| NodeShare { zone: zone.into(), milli_cpu: i64::MAX };
    let ratios = ratios([node("z1"), node("z1"), node("z2"), node("z2")]);
    let halves = Arc::new([("z1".into(), 0.5), ("z2".into(), 0.5)].into());
    assert_eq!(ratios, Some(halves));
}

#[test]
fn endpoints_that_cannot_be_divided_have_no_hints_and_the_service_an_event() {
    let three = [("z1", 4), ("z2", 4), ("z3", 4)];
    let insufficient =
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
    for (nodes, pods, why) in [
        (&[("z1", 4)][..], 4, insufficient),
        (&[("z1", 4), ("", 4)], 4, insufficient),
        (&[("z1", 4), ("z2", 0)], 4, insufficient),
        (&three, 2, "Insufficient number of endpoints (2 endpoints, 3 zones)"),
        (
            &three,
            4,
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (4 endpoints, 3 zones)",
        ),
    ] {
        let pods: Vec<_> = (0..pods).map(|at| serving(&format!("p{at}"), &format!("10.0.0.{at}"))).collect();
        let mut seen = observed(auto(), pods, vec![]);
        seen.ratios = shares(nodes);
        let all = steps(&mut seen);
        let [Step::Create(slice)] = &all[..] else { panic!("{all:?}") };
        let hinted = slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some());
        let events: Vec<_> =
            seen.begun[0].events.iter().map(|event| (event.reason, event.message.clone())).collect();
        let expected = vec![("TopologyAwareHintsDisabled", format!("{why}, addressType: IPv4"))];
        // Two endpoints in each zone would be a third too many for one of the zones.
        let enough = why.starts_with("Unable") && events[0].0 == "TopologyAwareHintsEnabled";
        assert!(!hinted || enough, "{why}");
        assert!(enough || events == expected, "{events:?}");
    }
}

#[test]
fn hints_go_when_the_annotation_goes() {
    let slice = stored("a", json!([endpoint("a", "10.0.0.1", for_zone("z1"))]), json!({}));
    let mut seen = observed(service(json!({})), vec![serving("a", "10.0.0.1")], vec![slice]);
    seen.had_hints = true;
    let all = steps(&mut seen);
    let [Step::Update(slice)] = &all[..] else { panic!("{all:?}") };
    assert!(slice.endpoints[0].hints.is_none());
    assert_eq!(seen.begun[0].events[0].message, "Topology Aware Hints has been disabled, addressType: IPv4");
}

#[test]
fn a_zone_with_too_few_endpoints_is_overloaded() {
    let halves = shares(&[("z1", 4), ("z2", 4)]);
    for (counts, ratios, overloaded) in [
        (&[][..], &halves, false),
        (&[("z1", 5), ("z2", 5)], &halves, false),
        (&[("z1", 6), ("z2", 5)], &halves, false),
        (&[("z1", 7), ("z2", 4)], &halves, true),
        (&[("z1", 10)], &halves, true),
        (&[("z1", 10)], &None, true),
    ] {
        let counts = counts.iter().map(|(zone, count)| ((*zone).into(), *count)).collect();
        assert_eq!(is_overloaded(&counts, ratios), overloaded, "{counts:?}");
    }
}

/// Carries out a sync. `stored` has the slices by name.
fn sync(seen: &mut Observed, stored: &mut BTreeMap<String, Value>) -> usize {
    let all = steps(seen);
    for step in &all {
        let (name, mut slice) = match step {
            Step::Create(manifest) => (format!("new-{}", stored.len()), json_of(manifest)),
            Step::Update(manifest) => (manifest.metadata.name.to_string(), json_of(manifest)),
            Step::Delete(slice) => {
                stored.remove(slice.key.name.as_str());
                continue;
            }
            Step::Confirm | Step::Begin(_) | Step::Fail(_) => panic!("{step:?}"),
        };
        let metadata = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "8"}});
        json_patch::merge(&mut slice, &metadata);
        stored.insert(name, slice);
    }
    all.len()
}

proptest! {
    /// Whatever hints slices had, a second sync finds them as they should be.
    #[test]
    fn hints_come_to_rest(
        zones in btree_map(0..4_u8, 0..9_i64, 0..4),
        pods in vec((0..4_u8, prop::bool::weighted(0.9), 0..4_u8, vec(0..5_u8, 0..2)), 0..24),
        had_hints: bool,
        value in prop::sample::select(vec!["Auto", "PreferClose", "PreferSameNode", ""]),
    ) {
        let zone = |number: &u8| format!("z{number}");
        let mut stored: BTreeMap<String, Value> = BTreeMap::new();
        for slice in 0..3_u8 {
            let of_slice = pods.iter().enumerate().filter(|(_, pod)| pod.2 == slice);
            let endpoints: Vec<Value> = of_slice.map(|(at, (node, ready, _, hints))| {
                let hints: Vec<_> = hints.iter().map(|hint| json!({"name": zone(hint)})).collect();
                let hints = if hints.is_empty() { Value::Null } else { json!({"forZones": hints}) };
                endpoint(&format!("p{at}"), &format!("10.0.0.{at}"), json!({
                    "conditions": {"ready": ready, "serving": ready}, "nodeName": format!("n{node}"),
                    "zone": zone(node), "hints": hints,
                }))
            }).collect();
            if !endpoints.is_empty() {
                stored.insert(format!("s{slice}"), super::stored(&format!("s{slice}"), json!(endpoints), json!({})));
            }
        }
        let mut had_hints = had_hints;
        let mut written = Vec::new();
        for _ in 0..5 {
            let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            let all = pods.iter().enumerate().map(|(at, (node, ready, _, _))| {
                let pod = serving(&format!("p{at}"), &format!("10.0.0.{at}")).on(&format!("n{node}"));
                if *ready { pod } else { pod.with(unready.clone()) }
            });
            let service = if value == "Auto" { auto() } else { distributing(value) };
            let mut seen = observed(service, all.collect(), stored.values().cloned().collect());
            seen.zones = (0..4_u8).map(|at| (format!("n{at}").into(), Some(zone(&at).into()))).collect();
            seen.max_endpoints = 8;
            seen.had_hints = had_hints;
            let cpus: Vec<_> = zones.iter().map(|(at, cpu)| (zone(at), *cpu)).collect();
            seen.ratios = shares(&cpus.iter().map(|(zone, cpu)| (zone.as_str(), *cpu)).collect::<Vec<_>>());
            written.push(sync(&mut seen, &mut stored));
            had_hints = seen.had_hints;
        }
        prop_assert_eq!(&written[1..], [0; 4], "{:?}", written);
    }
}
