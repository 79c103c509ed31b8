use serde_json::{Value, json};
use steersman_api::schema;
use steersman_api::wire::Reader;
use steersman_informer::wire::{FieldValue, Opaque};

use super::super::template::for_node;

fn in_protobuf(template: &Value) -> Opaque {
    let object = json!({"apiVersion": "v1", "kind": "PodTemplate", "template": template});
    let kind = schema::table().kind("", "v1", "PodTemplate").unwrap();
    let bytes = schema::to_protobuf(kind, &object).unwrap();
    let (mut reader, mut opaque) = (Reader::new(&bytes), Opaque::None);
    while let Some(field) = reader.field().unwrap() {
        if field.number == 2 {
            opaque.merge(field).unwrap();
        }
    }
    opaque
}

fn in_json(template: &Value) -> Opaque {
    Opaque::from_json(template).unwrap()
}

/// The template's spec as JSON.
fn spec(template: &Opaque) -> Value {
    match template {
        Opaque::None => panic!("there is no template"),
        Opaque::Json(text) => serde_json::from_str::<Value>(text.get()).unwrap()["spec"].clone(),
        Opaque::Protobuf(bytes) => {
            let mut object = steersman_api::wire::Writer::new();
            object.bytes(2, bytes);
            let body = steersman_api::wire::wrap("v1", "PodTemplate", &object.into_bytes());
            schema::decode(&body).unwrap()["template"]["spec"].clone()
        }
    }
}

fn pinned() -> Value {
    let by_name = json!({"key": "metadata.name", "operator": "In", "values": ["node-1"]});
    json!({"nodeSelectorTerms": [{"matchFields": [by_name]}]})
}

fn tolerations(host_network: bool) -> Vec<Value> {
    let exists = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let mut all = vec![
        exists("not-ready", "NoExecute"),
        exists("unreachable", "NoExecute"),
        exists("disk-pressure", "NoSchedule"),
        exists("memory-pressure", "NoSchedule"),
        exists("pid-pressure", "NoSchedule"),
        exists("unschedulable", "NoSchedule"),
    ];
    all.extend(host_network.then(|| exists("network-unavailable", "NoSchedule")));
    all
}

#[test]
fn a_pod_is_pinned_to_its_node_in_either_encoding_and_keeps_its_other_affinity() {
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
    let preferred = json!([{"weight": 1, "preference": term}]);
    let spread = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
    let cases = [
        (Value::Null, json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pinned()}})),
        (json!({}), json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pinned()}})),
        (
            json!({"podAntiAffinity": spread}),
            json!({
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pinned()},
                "podAntiAffinity": spread,
            }),
        ),
        (
            json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, term]},
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }}),
            json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": pinned(),
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }}),
        ),
    ];
    for (before, after) in cases {
        let template = json!({"spec": {"containers": [{"name": "main", "image": "i"}], "affinity": before}});
        for template in [in_json(&template), in_protobuf(&template)] {
            let spec = spec(&for_node(&template, "node-1").unwrap());
            assert_eq!(spec["affinity"], after, "{template:?}");
            assert_eq!(spec["containers"][0]["image"], "i");
        }
    }
}

#[test]
fn pods_get_the_tolerations_of_daemons_once() {
    let own = json!({"key": "k", "operator": "Exists"});
    // A limit of time does not keep the toleration from being one of daemons, without limit.
    let limited = json!({
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5,
    });
    let other = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"});
    for host_network in [false, true] {
        let unreachable = &tolerations(host_network)[1];
        let mut expected = vec![unreachable.clone(), own.clone(), other.clone(), unreachable.clone()];
        expected.extend(
            tolerations(host_network).into_iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, one)| one),
        );
        let spec_before = json!({
            "hostNetwork": host_network, "tolerations": [limited, own, other, limited],
            "containers": [{"name": "main", "image": "i"}],
        });
        let template = json!({"spec": spec_before});
        for template in [in_json(&template), in_protobuf(&template)] {
            let once = for_node(&template, "node-1").unwrap();
            assert_eq!(spec(&once)["tolerations"], json!(expected), "{template:?}");
            let twice = for_node(&once, "node-1").unwrap();
            assert_eq!(spec(&twice), spec(&once), "nothing is added a second time");
        }
    }
}

#[test]
fn fields_that_this_program_does_not_know_survive() {
    let mut newer = steersman_api::wire::Writer::new();
    newer.message(2, |spec| {
        spec.text(9_000, "in the spec");
        spec.message(18, |affinity| {
            affinity.text(9_001, "in the affinity");
            affinity.message(1, |nodes| {
                nodes.text(9_002, "in the node affinity");
                nodes.message(1, |required| required.text(9_003, "in the selector"));
            });
        });
    });
    newer.text(9_004, "in the template");
    let template = Opaque::Protobuf(newer.into_bytes().into());
    let Opaque::Protobuf(bytes) = for_node(&template, "node-1").unwrap() else { panic!("not protobuf") };
    for text in
        ["in the spec", "in the affinity", "in the node affinity", "in the selector", "in the template"]
    {
        let there = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(there, "{text}");
    }
}
