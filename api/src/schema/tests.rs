//! What holds for transcoding as a whole. The vectors in `testdata` are objects as Kubernetes itself encodes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::message::{Field, Message, Omit, Shape, Type};
use super::{
    Kind, TranscodeError, count_values, decode, encode, normalize, normalize_within, prune_unknown_fields,
    strategic_merge, table, to_json, to_json_within, to_protobuf, unknown_fields,
};

/// Each object's body in protobuf, and in JSON.
fn vectors() -> Vec<(Vec<u8>, Value)> {
    let lines = include_str!("testdata/objects.jsonl").lines();
    lines
        .map(|line| {
            let mut vector: Value = serde_json::from_str(line).unwrap();
            (BASE64.decode(vector["protobuf"].as_str().unwrap()).unwrap(), vector["json"].take())
        })
        .collect()
}

fn kind_of(object: &Value) -> &'static Kind {
    table().kind_of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap()
}

fn kind(api_version: &str, name: &str) -> &'static Kind {
    table().kind_of(api_version, name).unwrap()
}

/// Without the members that protobuf can't carry: lists that are empty.
fn without_empty_lists(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.into_iter().filter(|(_, value)| *value != json!([]) && !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_empty_lists(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty_lists).collect()),
        other => other,
    }
}

#[test]
fn objects_decode_to_the_json_that_kubernetes_gives() {
    for (body, json) in vectors() {
        let decoded = decode(&body).unwrap();
        assert_eq!(without_empty_lists(decoded), without_empty_lists(json));
    }
}

#[test]
fn objects_encode_to_the_bytes_that_kubernetes_gives() {
    for (body, json) in vectors() {
        assert!(encode(&json).unwrap() == body, "{json}");
    }
}

#[test]
fn kubernetes_sends_no_unknown_fields_and_nothing_that_is_not_normal() {
    for (_, json) in vectors() {
        let kind = kind_of(&json);
        assert_eq!(unknown_fields(kind, &json), [""; 0]);
        assert_eq!(without_empty_lists(normalize(kind, &json).unwrap()), without_empty_lists(json));
    }
}

#[test]
fn what_was_not_set_is_left_out_null_or_zero_as_the_type_says() {
    let decoded = to_json(kind("apps/v1", "Deployment"), &[]).unwrap();
    assert_eq!(
        decoded,
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {},
            "spec": {
                "selector": null,
                "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            },
            "status": {},
        })
    );
    assert_eq!(to_json(kind("v1", "PodList"), &[]).unwrap()["items"], json!([]));
}

#[test]
fn an_object_is_normalized_as_if_kubernetes_had_stored_it() {
    let pod = json!({
        "metadata": {"name": "a", "creationTimestamp": null, "labels": {"x": null}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}, "tty": false}],
            "hostNetwork": false,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [],
            "typo": 1,
        },
        "status": {"startTime": "2026-01-02T05:04:05.9+02:00"},
    });
    assert_eq!(
        normalize(kind("v1", "Pod"), &pod).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "labels": {"x": ""}},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
                "terminationGracePeriodSeconds": 0,
            },
            "status": {"startTime": "2026-01-02T03:04:05Z"},
        })
    );
}

#[test]
fn an_object_within_a_watch_event_is_decoded_by_its_own_envelope() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let event = table().message("meta.v1.WatchEvent").unwrap();
    let mut raw = crate::wire::Writer::new();
    raw.text(1, "ADDED");
    raw.message(2, |object| object.bytes(1, &encode(&pod).unwrap()));
    let decoded = event.to_json(&raw.into_bytes()).unwrap();
    assert_eq!(decoded["type"], "ADDED");
    assert_eq!(decoded["object"], normalize(kind("v1", "Pod"), &pod).unwrap());
}

#[test]
fn a_message_sent_in_two_parts_is_the_sum_of_both() {
    let part = |object: Value| to_protobuf(kind("v1", "Pod"), &object).unwrap();
    let mut sum = part(json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}]}}));
    sum.extend(part(json!({"metadata": {"labels": {"b": "2"}, "name": "x"}, "spec": {"nodeName": "n"}})));
    let pod = to_json(kind("v1", "Pod"), &sum).unwrap();
    assert_eq!(pod["metadata"], json!({"name": "x", "labels": {"a": "1", "b": "2"}}));
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["spec"]["containers"][0]["name"], "a");
}

#[test]
fn numbers_in_a_list_may_come_packed() {
    let mut context = crate::wire::Writer::new();
    context.bytes(4, &[0x01, 0x80, 0x01]);
    let context = table().message("core.v1.PodSecurityContext").unwrap().to_json(&context.into_bytes());
    assert_eq!(context.unwrap(), json!({"supplementalGroups": [1, 128]}));
}

#[test]
fn refusals_name_the_field() {
    let refused = |object: Value| to_protobuf(kind("v1", "Pod"), &object).unwrap_err().to_string();
    for (object, text) in [
        (json!([]), ": cannot unmarshal array into a field of type object"),
        (json!({"spec": 1}), "spec: cannot unmarshal number into a field of type object"),
        (
            json!({"spec": {"containers": [{"name": 1}]}}),
            "spec.containers[0].name: cannot unmarshal number into a field of type string",
        ),
        (
            json!({"spec": {"priority": 2_147_483_648_i64}}),
            "spec.priority: cannot unmarshal number into a field of type int32",
        ),
        (
            json!({"metadata": {"labels": []}}),
            "metadata.labels: cannot unmarshal array into a field of type map",
        ),
        (
            json!({"metadata": {"labels": {"a": true}}}),
            "metadata.labels.a: cannot unmarshal bool into a field of type string",
        ),
        (
            json!({"spec": {"containers": {}}}),
            "spec.containers: cannot unmarshal object into a field of type list",
        ),
    ] {
        assert_eq!(refused(object), text);
    }
    let quantity = refused(json!({"spec": {"overhead": {"cpu": "a lot"}}}));
    assert!(quantity.starts_with("spec.overhead.cpu: quantities must match"), "{quantity}");
    let secret = to_protobuf(kind("v1", "Secret"), &json!({"data": {"a": "*"}})).unwrap_err();
    assert_eq!(secret.to_string(), "data.a: illegal base64 data");
    let time = refused(json!({"metadata": {"deletionTimestamp": "tomorrow"}}));
    assert!(time.starts_with("metadata.deletionTimestamp: "), "{time}");
}

#[test]
fn broken_bytes_are_refused_where_they_are() {
    let mut pod = crate::wire::Writer::new();
    pod.message(2, |spec| spec.message(2, |container| container.bytes(1, &[0xff])));
    let error = to_json(kind("v1", "Pod"), &pod.into_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "spec.containers[0].name: the text is not UTF-8");
    let error = to_json(kind("v1", "Pod"), &[0x0a, 5]).unwrap_err();
    assert!(matches!(error, TranscodeError::Wire { .. }), "{error}");
    assert!(matches!(decode(b"{}"), Err(TranscodeError::Wire { .. })));
}

#[test]
fn a_kind_that_is_not_built_in_is_refused_by_name() {
    let error = encode(&json!({"apiVersion": "example.com/v1", "kind": "Foo"})).unwrap_err();
    assert_eq!(error.to_string(), "no kind \"Foo\" is registered for version \"example.com/v1\"");
    assert_eq!(decode(&crate::wire::wrap("example.com/v1", "Foo", b"")), Err(error));
}

#[test]
fn unknown_fields_are_found_wherever_they_are_and_can_be_pruned() {
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "extra": 1,
        "metadata": {"labels": {"anything": "goes"}, "label": {}},
        "spec": {"template": {"apiVersion": "v1", "spec": {
            "containers": [{"name": "a"}, {"imagee": "x", "resources": {"limits": {"any": "1"}}}],
            "volumes": [{"name": "v", "hostPath": {"path": "/", "mode": 0}}],
        }}},
    });
    let expected = [
        "extra",
        "metadata.label",
        "spec.template.apiVersion",
        "spec.template.spec.containers[1].imagee",
        "spec.template.spec.volumes[0].hostPath.mode",
    ];
    let kind = kind("apps/v1", "Deployment");
    assert_eq!(unknown_fields(kind, &deployment), expected);
    assert_eq!(prune_unknown_fields(kind, &mut deployment), expected);
    assert_eq!(unknown_fields(kind, &deployment), [""; 0]);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][1]["resources"]["limits"]["any"], "1");
}

#[test]
fn unknown_fields_within_schemas_of_custom_resources_are_found() {
    let schema =
        json!({"items": [{"typ": 1}], "additionalProperties": {"x": 1}, "properties": {"free": {"y": 1}}});
    let crd = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let at = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(
        unknown_fields(kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), &crd),
        [
            format!("{at}.additionalProperties.x"),
            format!("{at}.items[0].typ"),
            format!("{at}.properties.free.y"),
        ]
    );
}

#[test]
fn what_nests_too_deep_is_refused_both_ways() {
    let props = table().message("apiextensions.v1.JSONSchemaProps").unwrap();
    let (mut schema, mut bytes) = (json!({}), Vec::new());
    for _ in 0..200 {
        schema = json!({"not": schema});
        let mut outer = crate::wire::Writer::new();
        outer.bytes(28, &bytes);
        bytes = outer.into_bytes();
    }
    assert!(matches!(props.to_protobuf(&schema), Err(TranscodeError::TooDeep { .. })));
    assert!(matches!(props.to_json(&bytes), Err(TranscodeError::TooDeep { .. })));
    let crd = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    assert_eq!(unknown_fields(kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), &crd), [""; 0]);
}

/// Makes up objects from the table.
struct Inventor {
    state: u64,
    /// How many of a hundred fields are set.
    density: u64,
    /// How many fields may still be set.
    budget: u64,
}

impl Inventor {
    fn roll(&mut self, sides: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % sides
    }

    fn pick(&mut self, values: &[Value]) -> Value {
        let at = self.roll(values.len() as u64);
        values[usize::try_from(at).unwrap()].clone()
    }

    fn message(&mut self, message: &'static Message, depth: u32) -> Value {
        let mut object = Map::new();
        self.fields(message, depth, &mut object);
        Value::Object(object)
    }

    fn fields(&mut self, message: &'static Message, depth: u32, object: &mut Map<String, Value>) {
        for field in message.fields() {
            if let Some(inlined) = field.inlined() {
                self.fields(inlined, depth, object);
            } else if depth < 12 && self.budget > 0 && self.roll(100) < self.density {
                self.budget -= 1;
                object.insert(field.name.to_owned(), self.field(field, depth + 1));
            }
        }
    }

    fn field(&mut self, field: &'static Field, depth: u32) -> Value {
        let count = 1 + self.roll(2);
        match field.shape {
            Shape::Single => self.value(field.ty, depth),
            Shape::List => (0..count).map(|_| self.value(field.ty, depth)).collect(),
            Shape::Map => {
                Value::Object((0..count).map(|n| (format!("k{n}"), self.value(field.ty, depth))).collect())
            }
        }
    }

    fn value(&mut self, ty: Type, depth: u32) -> Value {
        let props = || table().message("apiextensions.v1.JSONSchemaProps").unwrap();
        match ty {
            Type::String => self.pick(&["".into(), "a".into(), "ü-✓".into()]),
            Type::Bool => self.pick(&[true.into(), false.into()]),
            Type::Int32 => self.pick(&[0.into(), (-1).into(), i32::MAX.into()]),
            Type::Int64 => self.pick(&[0.into(), i64::MIN.into(), i64::MAX.into()]),
            Type::Double => self.pick(&[0.into(), (-3).into(), json!(0.5), json!(1e-9)]),
            Type::Bytes => self.pick(&["/w==".into(), "AAEC".into()]),
            Type::Time => self.pick(&["1969-12-31T23:59:58Z".into(), "2026-01-02T03:04:05Z".into()]),
            Type::MicroTime => {
                self.pick(&["1969-12-31T23:59:58.000001Z".into(), "2026-01-02T03:04:05.678900Z".into()])
            }
            Type::Quantity => self.pick(&["0".into(), "100m".into(), "1Gi".into(), "1500".into()]),
            Type::IntOrString => self.pick(&[0.into(), (-7).into(), "".into(), "25%".into()]),
            Type::RawExtension => json!({"a": [1, null, {"b": 1.5}]}),
            Type::FieldsV1 => json!({"f:metadata": {}}),
            Type::Json => self.pick(&[json!({"a": 1}), "x".into(), json!([1]), true.into()]),
            Type::SchemaOrBool if self.roll(2) == 0 => self.roll(2).eq(&0).into(),
            Type::SchemaOrArray if self.roll(2) == 0 => json!([{"type": "string"}]),
            Type::SchemaOrStrings if self.roll(2) == 0 => json!(["a", "b"]),
            Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
                self.message(props(), depth + 3)
            }
            Type::Message(message) if message.is_list() => self.pick(&[json!([]), json!(["a", "b"])]),
            Type::Message(message) => self.message(message, depth),
        }
    }
}

fn any_object() -> impl Strategy<Value = (&'static Kind, Value)> {
    (any::<prop::sample::Index>(), any::<u64>(), 1..100_u64).prop_map(|(kind, state, density)| {
        let kind = kind.get(table().kinds());
        (kind, Inventor { state, density, budget: 200 }.message(kind.message, 0))
    })
}

/// Whether each of these members is one that the object may lose on the way: zero, and omitted when zero.
fn lost_members_are_empty(message: &'static Message, before: &Value, after: &Value) -> bool {
    let Value::Object(before) = before else { return before == after };
    before.iter().all(|(name, value)| {
        let field = message.field(name).unwrap();
        match (after.get(name), field.ty, field.shape) {
            (None, ..) => {
                field.omit == Omit::Empty
                    && !field.pointer
                    && [json!(""), json!(0), json!(false)].contains(value)
            }
            (Some(after), Type::Message(message), Shape::Single) if !message.is_list() => {
                lost_members_are_empty(message, value, after)
            }
            (Some(after), Type::Message(message), Shape::List) => {
                let (before, after) = (value.as_array().unwrap(), after.as_array().unwrap());
                before.len() == after.len()
                    && before
                        .iter()
                        .zip(after)
                        .all(|(before, after)| lost_members_are_empty(message, before, after))
            }
            (
                Some(_),
                Type::Message(_) | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings,
                _,
            ) => true,
            (Some(after), ..) => value == after,
        }
    })
}

/// Any JSON, with the directives of strategic merge patches among the names.
fn any_patch() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[ab]|delete|replace|merge".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let name = prop_oneof![
            "metadata|spec|labels|containers|finalizers|volumes|name|env|configMap|a",
            r"\$patch|\$retainKeys|\$setElementOrder/(containers|finalizers|env)|\$setElementOrder",
            r"\$deleteFromPrimitiveList/(finalizers|containers)|\$deleteFromPrimitiveList",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_kind_survives_the_way_through_protobuf((kind, object) in any_object()) {
        let bytes = to_protobuf(kind, &object).unwrap();
        let decoded = to_json(kind, &bytes).unwrap();
        prop_assert!(lost_members_are_empty(kind.message, &object, &decoded), "{object}\n{decoded}");
        prop_assert!(to_protobuf(kind, &decoded).unwrap() == bytes, "{object}\n{decoded}");
        prop_assert_eq!(unknown_fields(kind, &object), unknown_fields(kind, &decoded));
    }

    #[test]
    fn no_bytes_make_decoding_panic(kind: prop::sample::Index, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let kind = kind.get(table().kinds());
        if let Ok(object) = to_json(kind, &bytes) {
            prop_assert!(to_protobuf(kind, &object).is_ok());
        }
    }

    #[test]
    fn no_damage_to_a_body_makes_decoding_panic(
        vector: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let vectors = vectors();
        let mut body = vector.get(&vectors).0.clone();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        body.truncate(cut.index(body.len() * 4).max(1));
        if let Ok(object) = decode(&body) {
            prop_assert!(encode(&object).is_ok());
        }
    }

    #[test]
    fn no_json_makes_encoding_panic(kind: prop::sample::Index, object in any_patch()) {
        let kind = kind.get(table().kinds());
        let mut pruned = object.clone();
        prune_unknown_fields(kind, &mut pruned);
        prop_assert_eq!(unknown_fields(kind, &pruned), [""; 0]);
        prop_assert_eq!(to_protobuf(kind, &object), to_protobuf(kind, &pruned));
    }

    #[test]
    fn no_patch_makes_merging_panic(original in any_patch(), patch in any_patch()) {
        let mut object = original;
        let result = strategic_merge(kind("v1", "Pod"), &mut object, patch.clone());
        prop_assert!(result.is_err() || (object.is_object() && patch.is_object()));
    }

    #[test]
    fn an_empty_patch_changes_nothing((kind, object) in any_object()) {
        let mut patched = object.clone();
        strategic_merge(kind, &mut patched, json!({})).unwrap();
        prop_assert_eq!(patched, object);
    }
}

#[test]
fn the_values_of_an_object_are_counted_as_its_json_has_them() {
    for (body, json) in vectors() {
        let kind = kind_of(&json);
        let envelope = crate::wire::unwrap(&body).unwrap();
        let object = to_json(kind, envelope.raw).unwrap();
        let values = count_values(object.to_string().as_bytes());
        // Zeros that JSON leaves out are held for a moment.
        let enough = values + 50;
        assert_eq!(to_json_within(kind, envelope.raw, enough).as_ref(), Ok(&object), "{}", kind.name);
        let refused = to_json_within(kind, envelope.raw, values - 1);
        assert!(matches!(refused, Err(TranscodeError::TooManyValues { .. })), "{}: {refused:?}", kind.name);
        assert_eq!(normalize_within(kind, &object, enough).as_ref(), Ok(&object), "{}", kind.name);
        assert!(normalize_within(kind, &object, values - 1).is_err(), "{}", kind.name);
    }
}

#[test]
fn an_empty_item_counts_with_all_that_it_is_given() {
    // Two bytes each.
    let pods = [0x12, 0].repeat(1000);
    let list = kind("v1", "PodList");
    let one = to_json(list, &pods[..2]).unwrap();
    let (two, three) = (to_json(list, &pods[..4]).unwrap(), to_json(list, &pods[..6]).unwrap());
    let count = |object: &Value| count_values(object.to_string().as_bytes());
    let each = count(&two) - count(&one);
    assert!(each > 3 && count(&three) - count(&two) == each, "{each}");
    assert!(to_json_within(list, &pods, count(&one) + 1000 * each).is_ok());
    let refused = to_json_within(list, &pods, count(&one) + 998 * each).unwrap_err();
    assert!(refused.to_string().starts_with("items[999]"), "{refused}");
}
