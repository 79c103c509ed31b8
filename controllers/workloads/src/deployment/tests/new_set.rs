use serde_json::{Value, json};
use steersman_api::schema;
use steersman_api::wire::Reader;
use steersman_api::{OwnerReference, Uid};
use steersman_controller::call::PROTOBUF;
use steersman_informer::wire::FieldValue;
use steersman_kinds::selector::SelectorRequirement;

use super::*;
use crate::deployment::new_set;
use crate::deployment::plan::NewSet;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web", "pod-template-hash": "copied"}, "annotations": {"note": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

/// The template as a cache keeps it, in either encoding.
fn opaque(template: &Value, encoding: &str) -> Opaque {
    if encoding == "json" {
        return Opaque::Json(serde_json::value::to_raw_value(template).unwrap());
    }
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

fn made(deployment: &Deployment) -> Value {
    let owner = OwnerReference::controller("apps/v1", "Deployment", "web", Uid::from("u"));
    let annotations = [("note", "y")].into_iter().collect();
    let new = NewSet { name: "web-6d4c".into(), hash: "6d4c".into(), replicas: 2, annotations };
    let content = new_set::content(deployment, &owner, &new).unwrap();
    match content.media_type {
        PROTOBUF => schema::decode(&content.bytes).unwrap(),
        _ => serde_json::from_slice(&content.bytes).unwrap(),
    }
}

fn deployment(template: &Value, encoding: &str) -> Deployment {
    let mut deployment = Deployment { template: opaque(template, encoding), min_ready_seconds: 5, ..web(3) };
    deployment.selector.match_expressions = vec![SelectorRequirement {
        key: "tier".into(),
        operator: "In".into(),
        values: vec!["front".into(), "back".into()],
    }];
    deployment
}

#[test]
fn the_new_set_is_the_deployments_template_with_the_hash_in_either_encoding() {
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": "web-6d4c", "namespace": "ns", "annotations": {"note": "y"},
            "labels": {"app": "web", "pod-template-hash": "6d4c"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 2, "minReadySeconds": 5,
            "selector": {
                "matchLabels": {"app": "web", "pod-template-hash": "6d4c"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}],
            },
            "template": {
                "metadata": {"labels": {"app": "web", "pod-template-hash": "6d4c"}, "annotations": {"note": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    for encoding in ["json", "protobuf"] {
        let mut made = made(&deployment(&template(), encoding));
        // What Go writes for structs that are not pointers, in protobuf alone.
        made.as_object_mut().unwrap().remove("status");
        for metadata in ["/metadata", "/spec/template/metadata"] {
            made.pointer_mut(metadata).unwrap().as_object_mut().unwrap().remove("creationTimestamp");
        }
        made["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
        assert_eq!(made, expected, "{encoding}");
    }
}

#[test]
fn fields_that_nobody_here_knows_survive() {
    let mut template_json = template();
    template_json["spec"]["newer"] = json!({"still": 1});
    assert_eq!(
        made(&deployment(&template_json, "json"))["spec"]["template"]["spec"]["newer"],
        json!({"still": 1})
    );

    let Opaque::Protobuf(bytes) = opaque(&template(), "protobuf") else { panic!() };
    let mut newer = steersman_api::wire::Writer::onto(&bytes);
    newer.text(9_000, "newer still");
    let deployment = Deployment {
        template: Opaque::Protobuf(newer.into_bytes().into()),
        ..deployment(&template(), "json")
    };
    let owner = OwnerReference::controller("apps/v1", "Deployment", "web", Uid::from("u"));
    let new =
        NewSet { name: "n".into(), hash: "h".into(), replicas: 0, annotations: [].into_iter().collect() };
    let content = new_set::content(&deployment, &owner, &new).unwrap();
    assert!(content.bytes.windows(11).any(|window| window == b"newer still"));
}

#[test]
fn a_long_name_is_cut_before_the_hash() {
    assert_eq!(new_set::name("web", "6d4c"), "web-6d4c");
    let long = "a".repeat(253);
    assert_eq!(new_set::name(&long, "6d4c"), format!("{}-6d4c", "a".repeat(248)));
}
