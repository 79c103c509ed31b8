//! Tests that both decoders give the same object, and keep only the fields that are declared and requested.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_api::condition::ConditionStatus;
use steersman_api::meta::LabelMap;
use steersman_api::schema;
use steersman_api::{ArcStr, Quantity, Time};

use super::*;
use crate::intern::Interned;
use crate::{keep, kind, projection};

projection! {
    struct Spec {
        pub node: Interned = 10 "nodeName",
        pub grace: Option<i64> = 4 "terminationGracePeriodSeconds",
        pub host_network: bool = 11 "hostNetwork",
        pub selector: LabelMap = 7 "nodeSelector",
        pub containers: Vec<Container> = 2 "containers",
    }
    struct Container {
        pub name: ArcStr = 1 "name",
        pub command: Vec<ArcStr> = 3 "command",
        pub ports: Vec<Port> = 6 "ports",
        pub probe: Option<Box<Probe>> = 10 "livenessProbe",
    }
    struct Port {
        pub name: ArcStr = 1 "name",
        pub number: i32 = 3 "containerPort",
    }
    struct Probe {
        pub delay: i32 = 2 "initialDelaySeconds",
    }
    struct Status {
        pub phase: Interned = 1 "phase",
        pub conditions: Vec<Condition> = 2 "conditions",
        pub started: Option<Time> = 7 "startTime",
    }
    struct Condition {
        pub kind: Interned = 1 "type",
        pub status: ConditionStatus = 2 "status",
        pub changed: Option<Time> = 4 "lastTransitionTime",
    }
}

projection! {
    /// Looks into `metadata`, which every kind's metadata looks into as well.
    struct Mark {
        pub generate_name: ArcStr = 2 "generateName",
        pub namespace: ArcStr = 3 "namespace",
    }
    struct Address {
        pub ip: ArcStr = 6 "podIP",
    }
}

kind! {
    struct Pod("", "v1", "pods") {
        spec: Spec = 2 "spec",
        status: Status = 3 "status",
        mark: Mark = 1 "metadata",
        address: Address = 3 "status",
    }
}
keep! { struct Whole: Pod => Spec, Status }
keep! { struct Split: Pod => Spec, Status, Mark, Address }
keep! { struct StatusOnly: Pod => Status }

fn protobuf(object: &Value) -> Bytes {
    let kind = schema::table().kind("", "v1", "Pod").expect("pods must be in the table");
    schema::to_protobuf(kind, object).expect("the object of a test must be encodable").into()
}

fn both(object: &Value, groups: u64) -> [Pod; 2] {
    let decode = |body: Bytes, encoding| Pod::decode(&body, encoding, groups).expect("it must decode");
    [decode(protobuf(object), Encoding::Protobuf), decode(object.to_string().into(), Encoding::Json)]
}

fn assert_same(object: &Value) {
    let [a, b] = both(object, Whole::GROUPS);
    // Several groups look into the metadata and the status.
    let [c, d] = both(object, Split::GROUPS);
    for pod in [&b, &c, &d] {
        assert_eq!(a.meta(), pod.meta());
        assert_eq!(Spec::of(&a), Spec::of(pod));
        assert_eq!(Status::of(&a), Status::of(pod));
    }
    assert_eq!((Mark::of(&c), Address::of(&c)), (Mark::of(&d), Address::of(&d)));
}

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9.-]{0,12}"
}

fn stamp() -> impl Strategy<Value = String> {
    (0_i64..4_000_000_000).prop_map(|seconds| Time::from_seconds(seconds).to_string())
}

fn texts() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-z]{1,8}", text(), 0..4)
}

prop_compose! {
    fn container()(
        name in text(), command in proptest::collection::vec(text(), 0..3), port in 0..70_000_i32,
        delay in any::<i32>(), port_name in text(), has_probe in any::<bool>(),
    ) -> Value {
        let mut container = json!({
            "name": name, "image": "busybox", "command": command, "ports": [{"name": port_name, "containerPort": port}],
        });
        if has_probe {
            container["livenessProbe"] = json!({"initialDelaySeconds": delay});
        }
        container
    }
}

prop_compose! {
    fn pod()(
        name in "[a-z]{1,12}", namespace in text(), labels in texts(), version in any::<u64>(), generation in any::<i64>(),
        created in stamp(), deleted in proptest::option::of(stamp()), owner in proptest::option::of(text()),
        controller in any::<bool>(), finalizers in proptest::collection::vec("[a-z/]{1,9}", 0..3),
        node in text(), grace in proptest::option::of(any::<i64>()), host in any::<bool>(), selector in texts(),
        containers in proptest::collection::vec(container(), 0..3), phase in text(),
        condition in prop_oneof!["True", "False", "Unknown"], changed in stamp(),
    ) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "generateName": name, "namespace": namespace, "labels": labels, "resourceVersion": version.to_string(),
                "uid": "0191e7d2-8a6b-4cde-8f00-1234567890ab", "generation": generation, "creationTimestamp": created,
                "finalizers": finalizers, "annotations": {"ignored": "value"},
            },
            "spec": { "nodeName": node, "hostNetwork": host, "nodeSelector": selector, "containers": containers },
            "status": {
                "phase": phase, "podIP": "10.0.0.1", "startTime": changed,
                "conditions": [{"type": "Ready", "status": condition, "lastTransitionTime": changed}],
            },
        });
        if let Some(deleted) = deleted {
            pod["metadata"]["deletionTimestamp"] = json!(deleted);
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        }
        if let Some(owner) = owner {
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": controller,
            }]);
        }
        if let Some(grace) = grace {
            pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        }
        pod
    }
}

proptest! {
    #[test]
    fn both_decoders_give_the_same_object(pod in pod()) {
        assert_same(&pod);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            let _ = Decoded::<Pod>::decode(&body.clone().into(), encoding, u64::MAX);
        }
    }

    #[test]
    fn a_body_that_is_cut_short_is_refused_or_read_up_to_a_field(pod in pod(), cut in 0.0..1.0_f64) {
        let body = protobuf(&pod);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let cut = (body.len() as f64 * cut) as usize;
        let _ = Decoded::<Pod>::decode(&body.slice(..cut), Encoding::Protobuf, u64::MAX);
    }
}

#[test]
fn null_and_absent_members_are_defaults() {
    let object = json!({ "metadata": {"name": "a", "creationTimestamp": null, "labels": null},
        "spec": {"containers": null, "nodeName": null}, "status": null });
    let pod = Pod::decode(&object.to_string().into(), Encoding::Json, Whole::GROUPS).unwrap();
    assert_eq!(pod.meta().created, None);
    assert_eq!(Spec::of(&pod), Some(&Spec::default()));
    assert_eq!(Status::of(&pod), Some(&Status::default()));
}

#[test]
fn names_and_stamps_are_read_however_they_are_written() {
    let json = r#"{"\u006detadata": {"n\u0061me": "a", "creationTimestamp": "0001-01-01T00:00:00Z"},
        "\u0073pec": {"nodeName": "n"}, "extra\n": 1}"#;
    let pod = Pod::decode(&json.into(), Encoding::Json, Whole::GROUPS).unwrap();
    assert_eq!((&*pod.meta().key.name, pod.meta().created), ("a", None));
    assert_eq!(&Spec::of(&pod).unwrap().node, "n");
}

#[test]
fn what_has_no_name_is_no_object() {
    for body in ["{}", r#"{"kind": "Status", "code": 500}"#] {
        let decoded = Decoded::<Pod>::decode(&body.into(), Encoding::Json, u64::MAX);
        assert!(matches!(decoded, Decoded::Lost(DecodeError::Nameless)), "{decoded:?}");
    }
}

#[test]
fn groups_that_nobody_asked_for_are_not_kept() {
    let object =
        json!({ "metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"} });
    for pod in both(&object, StatusOnly::GROUPS) {
        assert_eq!(Spec::of(&pod), None);
        assert_eq!(&Status::of(&pod).unwrap().phase, "Running");
    }
}

#[test]
fn an_object_whose_body_is_damaged_keeps_its_name() {
    let object = json!({ "metadata": {"name": "a", "namespace": "b"}, "spec": "nonsense" });
    let decoded = Decoded::<Pod>::decode(&object.to_string().into(), Encoding::Json, u64::MAX);
    let Decoded::Unreadable(pod, _) = decoded else { panic!("{decoded:?}") };
    assert_eq!(pod.meta().key.to_string(), "b/a");
    assert_eq!(View::<Whole>::new(std::sync::Arc::new(pod)).get::<Spec>(), &Spec::default());
}

/// The fields that the protobuf reader reads to decode `body` with `groups`.
fn fields_read<K: Object>(body: &Bytes, groups: u64) -> usize {
    let before = steersman_api::wire::fields_read();
    K::decode(body, Encoding::Protobuf, groups).expect("it must decode");
    steersman_api::wire::fields_read() - before
}

#[test]
fn a_message_is_walked_once_for_all_groups_that_look_into_it() {
    projection! {
        struct Phase { pub phase: Interned = 1 "phase" }
        struct Started { pub started: Option<Time> = 7 "startTime" }
        struct Ip { pub ip: ArcStr = 6 "podIP" }
        struct Mark { pub generate_name: ArcStr = 2 "generateName" }
    }
    kind! { struct Split("", "v1", "pods") {
        phase: Phase = 3 "status", started: Started = 3 "status", ip: Ip = 3 "status", mark: Mark = 1 "metadata",
    } }
    let object = json!({
        "metadata": {"name": "a", "generateName": "b", "namespace": "c"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2", "reason": "d", "message": "e"},
    });
    let body = protobuf(&object);
    let one_group = fields_read::<Split>(&body, Phase::BIT);
    assert_eq!(fields_read::<Split>(&body, u64::MAX), one_group, "more groups need no more walks");

    for pod in [
        Split::decode(&body, Encoding::Protobuf, u64::MAX).unwrap(),
        Split::decode(&object.to_string().into(), Encoding::Json, u64::MAX).unwrap(),
    ] {
        assert_eq!(pod.meta().key.to_string(), "c/a");
        assert_eq!(&Phase::of(&pod).unwrap().phase, "Running");
        assert_eq!(Ip::of(&pod).unwrap().ip, "10.0.0.1");
        assert_eq!(Mark::of(&pod).unwrap().generate_name, "b");
        assert_eq!(Started::of(&pod).unwrap().started, None);
    }
}

#[test]
fn groups_share_a_member_that_several_of_them_read() {
    projection! {
        struct Phase { pub phase: Interned = 1 "phase" }
        struct PhaseText { pub phase: ArcStr = 1 "phase", pub ip: ArcStr = 6 "podIP" }
    }
    /// A group that takes the field as a whole.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Raw(Opaque);
    impl FieldValue for Raw {
        fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
            self.0.merge(field)
        }
        fn from_json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Opaque::from_json(deserializer).map(Self)
        }
    }
    kind! { struct Split("", "v1", "pods") {
        phase: Phase = 3 "status", text: PhaseText = 3 "status", raw: Raw = 3 "status",
    } }
    let object = json!({"metadata": {"name": "a"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    for (body, encoding) in
        [(protobuf(&object), Encoding::Protobuf), (object.to_string().into(), Encoding::Json)]
    {
        let pod = Split::decode(&body, encoding, Phase::BIT | PhaseText::BIT).unwrap();
        assert_eq!(&Phase::of(&pod).unwrap().phase, "Running");
        assert_eq!(PhaseText::of(&pod).unwrap().phase, "Running");
        assert_eq!(PhaseText::of(&pod).unwrap().ip, "10.0.0.1");
        let pod = Split::decode(&body, encoding, u64::MAX).unwrap();
        assert_eq!(&Phase::of(&pod).unwrap().phase, "Running");
        assert!(!Raw::of(&pod).unwrap().0.is_empty());
    }
}

#[test]
fn a_template_is_kept_as_it_came() {
    projection! { struct Templated { pub template: Opaque = 6 "template" } }
    kind! { struct Job("batch", "v1", "jobs") { spec: Templated = 2 "spec" } }
    let json = json!({"metadata": {"name": "a"}, "spec": {"template": {"newer": [1, 2]}}});
    let job = Job::decode(&json.to_string().into(), Encoding::Json, 1).unwrap();
    let Opaque::Json(text) = &Templated::of(&job).unwrap().template else { panic!("it came as JSON") };
    assert_eq!(text.get(), r#"{"newer":[1,2]}"#);

    let mut writer = Writer::new();
    writer.message(2, |spec| spec.bytes(6, b"\x0a\x00"));
    let job = Job::decode(&writer.into_bytes().into(), Encoding::Protobuf, 1).unwrap();
    let Opaque::Protobuf(bytes) = &Templated::of(&job).unwrap().template else {
        panic!("it came as protobuf")
    };
    assert_eq!(&**bytes, b"\x0a\x00");
}

#[test]
fn ports_are_numbers_or_names_in_both_encodings() {
    for (json, expected) in
        [("8080", IntOrString::Int(8080)), ("\"http\"", IntOrString::String("http".into()))]
    {
        let from_json = IntOrString::from_json(&mut serde_json::Deserializer::from_str(json)).unwrap();
        let mut writer = Writer::new();
        writer.message(1, |port| match &expected {
            IntOrString::Int(number) => port.int64(2, i64::from(*number)),
            IntOrString::String(name) => {
                port.int64(1, 1);
                port.text(3, name);
            }
        });
        let bytes = writer.into_bytes();
        let mut from_protobuf = IntOrString::default();
        from_protobuf.merge(Reader::new(&bytes).field().unwrap().unwrap()).unwrap();
        assert_eq!((&from_json, &from_protobuf), (&expected, &expected));
    }
}

#[test]
fn quantities_are_read_in_both_encodings() {
    let mut amount = Quantity::default();
    let mut writer = Writer::new();
    writer.message(1, |quantity| quantity.text(1, "1536Mi"));
    let bytes = writer.into_bytes();
    amount.merge(Reader::new(&bytes).field().unwrap().unwrap()).unwrap();
    let json: Quantity = serde_json::from_str("\"1.5Gi\"").unwrap();
    assert_eq!(amount, json);
}
