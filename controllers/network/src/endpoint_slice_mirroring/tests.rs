//! Tests of the plan: Endpoints and slices in, writes out.

use serde_json::{Value, json};
use steersman_controller::children::Grounds;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::wire::{Encoding, Selection};
use steersman_kinds::endpoint_slice::EndpointSlice;

use super::plan::{Note, Observed, Step, plan};
use super::*;
use crate::slices::Outcome;

/// Endpoints `ns/web` with these subsets, changed by `patch`.
fn endpoints(subsets: Value, patch: Value) -> Arc<Endpoints> {
    let mut object = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "e"}, "subsets": subsets});
    json_patch::merge(&mut object, &patch);
    Arc::new(
        Endpoints::decode(&object.to_string().into(), Encoding::Json, MirroredEndpoints::GROUPS).unwrap(),
    )
}

fn addresses(prefix: &str, count: usize) -> Vec<Value> {
    (1..=count).map(|at| json!({"ip": format!("{prefix}{at}")})).collect()
}

fn http() -> Value {
    json!([{"name": "http", "port": 80, "protocol": "TCP"}])
}

fn observed(endpoints: impl Into<Option<Arc<Endpoints>>>, slices: &[Value]) -> Observed {
    let slice = |slice: &Value| {
        let body = slice.to_string().into();
        Arc::new(EndpointSlice::decode(&body, Encoding::Json, CachedSlice::GROUPS).unwrap())
    };
    Observed {
        endpoints: endpoints.into(),
        slices: slices.iter().map(slice).collect(),
        grounds: Grounds::Sure,
        max: 100,
        begun: None,
    }
}

/// The writes of a sync, and what it counts.
fn writes(mut observed: Observed) -> (Vec<(String, Value)>, Note) {
    let mut all = Vec::new();
    while let Plan::Act(batch) = plan(&observed) {
        for step in batch.steps {
            let json = |manifest: &crate::slices::Manifest| {
                steersman_api::schema::decode(&manifest.to_protobuf()).unwrap()
            };
            match &step {
                Step::Confirm | Step::Begin(_) => {}
                Step::Create(manifest) => all.push(("create".to_owned(), json(manifest))),
                Step::Update(manifest) => {
                    all.push((format!("update {}", manifest.metadata.name), json(manifest)));
                }
                Step::Delete(slice) => all.push((format!("delete {}", slice.key.name), Value::Null)),
            }
            observed.absorb(step, StepResult::Done(Outcome::Done));
        }
    }
    (all, observed.begun.unwrap_or_default())
}

/// The slice that a write leaves, as it is stored under a name.
fn stored(name: &str, mut written: Value) -> Value {
    written["metadata"]["name"] = json!(name);
    written["metadata"]["uid"] = json!(name);
    written
}

#[test]
fn a_slice_mirrors_addresses_ports_labels_and_annotations() {
    let metadata = json!({"metadata": {
        "labels": {"team": "a"},
        "annotations": {
            "note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
        },
    }});
    let subsets = json!([{
        "addresses": [{"ip": "10.0.0.1", "hostname": "h", "nodeName": "n1"}],
        "notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": http(),
    }]);
    let object = endpoints(subsets, metadata);
    let (written, note) = writes(observed(Arc::clone(&object), &[]));
    let expected = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": "web-", "namespace": "ns", "annotations": {"note": "kept"},
            "labels": {
                "team": "a", "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "e", "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hostname": "h", "nodeName": "n1"},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
        ],
        "ports": http(),
    });
    assert_eq!(written, [("create".to_owned(), expected.clone())]);
    assert_eq!((note.added, note.updated, note.removed), (2, 0, 0));

    let slice = stored("s", expected);
    assert!(writes(observed(object, std::slice::from_ref(&slice))).0.is_empty(), "it is right");
    let same = json!([{"addresses": [{"ip": "10.0.0.1", "hostname": "h"}], "ports": http()}]);
    let (written, note) = writes(observed(endpoints(same, json!({})), &[slice]));
    assert_eq!((written.len(), written[0].0.as_str()), (1, "update s"));
    assert_eq!((note.added, note.updated, note.removed), (0, 1, 1));
}

#[test]
fn each_family_and_each_set_of_ports_has_a_slice() {
    let subsets = json!([
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": http()},
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
        {"addresses": [{"ip": "no address"}], "ports": http()},
    ]);
    let (written, note) = writes(observed(endpoints(subsets, json!({})), &[]));
    let mut all: Vec<_> = written
        .iter()
        .map(|(_, slice)| {
            (slice["addressType"].as_str().unwrap(), slice["ports"][0]["port"].as_i64().unwrap())
        })
        .collect();
    all.sort_unstable();
    assert_eq!(all, [("IPv4", 53), ("IPv4", 80), ("IPv6", 80)]);
    assert_eq!((note.invalid, note.skipped), (1, 1));
}

#[test]
fn addresses_beyond_the_maximum_are_left_out_those_that_are_not_ready_first() {
    let subsets = json!([{
        "addresses": addresses("10.0.0.", 90), "notReadyAddresses": addresses("10.0.1.", 20), "ports": http(),
    }]);
    let (written, note) = writes(observed(endpoints(subsets, json!({})), &[]));
    let listed = written[0].1["endpoints"].as_array().unwrap();
    let ready = listed.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
    assert_eq!((listed.len(), ready), (100, 90));
    assert_eq!((note.invalid, note.skipped, note.counts.endpoints), (0, 10, 100));
}

#[test]
fn slices_that_mirror_nothing_are_reused_or_deleted() {
    let one = |port: i32| json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "a", "port": port, "protocol": "TCP"}]}]);
    let (written, _) = writes(observed(endpoints(one(80), json!({})), &[]));
    let slices = [stored("s1", written[0].1.clone()), stored("s2", written[0].1.clone())];
    let verbs = |observed: Observed| -> Vec<String> {
        writes(observed).0.into_iter().map(|(verb, _)| verb).collect()
    };
    assert_eq!(verbs(observed(endpoints(one(80), json!({})), &slices)), ["delete s2"]);
    assert_eq!(verbs(observed(endpoints(one(81), json!({})), &slices)), ["update s1", "delete s2"]);
    assert_eq!(verbs(observed(endpoints(json!([]), json!({})), &slices)), ["delete s1", "delete s2"]);
    assert_eq!(verbs(observed(None, &slices)), ["delete s1", "delete s2"]);
    let renewed = endpoints(one(80), json!({"metadata": {"uid": "new"}}));
    assert_eq!(verbs(observed(renewed, &slices[..1])), ["update s1"], "its owner is gone");
}

#[test]
fn locks_and_endpoints_that_ask_for_it_are_not_mirrored() {
    for (metadata, mirrored) in [
        (json!({}), true),
        (json!({"labels": {SKIP_MIRROR: "true"}}), false),
        (json!({"labels": {SKIP_MIRROR: "false"}}), true),
        (json!({"annotations": {LEADER_ANNOTATION: "{}"}}), false),
    ] {
        let object = endpoints(json!([]), json!({"metadata": metadata}));
        assert_eq!(should_mirror(&object), mirrored, "{metadata}");
    }
}

#[test]
fn a_slice_that_has_an_endpoint_twice_is_written() {
    let object =
        |count| endpoints(json!([{"addresses": addresses("10.0.0.", count), "ports": http()}]), json!({}));
    let (written, _) = writes(observed(object(1), &[]));
    let mut slice = stored("s1", written[0].1.clone());
    let twice = slice["endpoints"][0].clone();
    slice["endpoints"].as_array_mut().unwrap().push(twice);
    for (count, added, removed) in [(1, 0, 1), (2, 1, 1)] {
        let (written, note) = writes(observed(object(count), &[slice.clone()]));
        assert_eq!(written.len(), 1, "{count} addresses");
        assert_eq!(written[0].1["endpoints"].as_array().unwrap().len(), count);
        assert_eq!((note.added, note.updated, note.removed), (added, 0, removed));
    }
}

#[test]
fn a_new_leader_confirms_its_cache_before_it_writes() {
    let subsets = json!([{"addresses": addresses("10.0.0.", 1), "ports": http()}]);
    let object = endpoints(subsets, json!({}));
    let (written, _) = writes(observed(Arc::clone(&object), &[]));
    let slice = stored("s1", written[0].1.clone());
    let unsure = |object: Option<Arc<Endpoints>>, slices: &[Value]| {
        plan(&Observed { grounds: Grounds::Unsure, ..observed(object, slices) })
    };
    let of = |object: &Arc<Endpoints>| Some(Arc::clone(object));
    assert_eq!(unsure(of(&object), &[]), Plan::step(Step::Confirm));
    assert_eq!(unsure(None, std::slice::from_ref(&slice)), Plan::step(Step::Confirm));
    assert_ne!(
        unsure(of(&object), std::slice::from_ref(&slice)),
        Plan::step(Step::Confirm),
        "it writes nothing"
    );

    let mut lagging = Observed { grounds: Grounds::Unsure, ..observed(object, &[]) };
    let current = observed(None, &[slice]).slices;
    lagging.absorb(Step::Confirm, StepResult::Done(Outcome::Slices(current)));
    assert!(writes(lagging).0.is_empty(), "the previous leader has made the slice");
}
