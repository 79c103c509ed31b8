use super::super::data::{Form, data, is_same, restores, template};
use super::super::name::{daemon_set_name, stateful_set_hash, stateful_set_name};
use super::*;
use crate::pod_template;
use crate::pod_template::tests::{json_of, vectors};

const NGINX: &str = concat!(
    r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"nginx"}},"spec":{"containers":[{"#,
    r#""image":"nginx:1.14.2","imagePullPolicy":"IfNotPresent","name":"nginx","ports":[{"containerPort":80,"#,
    r#""protocol":"TCP"}],"resources":{},"terminationMessagePath":"/dev/termination-log","#,
    r#""terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","#,
    r#""schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#,
);

#[test]
fn data_is_gos_whatever_a_template_has() {
    let mut restored = 0;
    for vector in vectors() {
        for (form, expected) in
            [(Form::StatefulSet, vector.revision_hash), (Form::DaemonSet, vector.daemon_revision_hash)]
        {
            let text = data(form, &vector.template).unwrap();
            assert_eq!(stateful_set_hash(&text, vector.collision_count), expected, "{text}");
            // Go has rounded the largest number up for StatefulSets, and does not read it back itself.
            if let Ok(again) = data(form, &template(text.as_bytes()).unwrap()) {
                assert_eq!(again, text);
                restored += 1;
            }
        }
    }
    assert!(restored > 100, "{restored}");
}

#[test]
fn data_is_the_template_alone_as_a_patch() {
    for template in [protobuf_of(&nginx()), json_of(&nginx())] {
        assert_eq!(data(Form::StatefulSet, &template).unwrap(), NGINX);
    }
}

#[test]
fn data_has_what_go_never_leaves_out_and_its_escapes() {
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"]}});
    let template = json!({
        "metadata": {"annotations": {"a": "<b> & \u{2028}\"\\\u{1}", "": ""}, "labels": {}},
        "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1.500", "memory": "1024Mi"}}}],
            "nodeSelector": {},
            "terminationGracePeriodSeconds": 9_007_199_254_740_993_i64,
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}],
        },
    });
    let expected = concat!(
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"":"","#,
        r#""a":"\u003cb\u003e \u0026 \u2028\"\\\u0001"}},"spec":{"containers":[{"name":"a","#,
        r#""resources":{"limits":{"cpu":"1.500","memory":"1Gi"}}}],"terminationGracePeriodSeconds":9007199254740992,"#,
        r#""volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{},"spec":{"accessModes":["ReadWriteOnce"],"#,
        r#""resources":{}}}},"name":"v"}]}}}}"#,
    );
    assert_eq!(data(Form::StatefulSet, &protobuf_of(&template)).unwrap(), expected);
    let exact = expected.replace("740992", "740993");
    assert_eq!(data(Form::DaemonSet, &protobuf_of(&template)).unwrap(), exact);
    let empty = r#"{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":null}}}}"#;
    assert_eq!(data(Form::StatefulSet, &Opaque::None).unwrap(), empty);
}

#[test]
fn names_are_upstreams() {
    let data = data(Form::StatefulSet, &protobuf_of(&nginx())).unwrap();
    let hash = stateful_set_hash(&data, 0);
    assert_eq!(hash, "6fc8c9d6d6");
    assert_ne!(stateful_set_hash(&data, 1), hash);
    assert_eq!(stateful_set_name("web", &hash), "web-6fc8c9d6d6");
    assert_eq!(stateful_set_name(&"a".repeat(253), "x"), format!("{}-x", "a".repeat(223)));
    assert_eq!(daemon_set_name(&"a".repeat(253), "x"), format!("{}-x", "a".repeat(253)));
}

#[test]
fn the_data_restores_the_template() {
    let restored = template(NGINX.as_bytes()).unwrap();
    assert!(pod_template::equal_with_defaults(&restored, &protobuf_of(&nginx())).unwrap());
    for none in [
        "1",
        "[]",
        r#""x""#,
        r#"{"spec":1}"#,
        r#"{"spec":{}}"#,
        r#"{"spec":{"template":"x"}}"#,
        r#"{"spec":{"template":{"spec":[]}}}"#,
    ] {
        assert!(matches!(template(none.as_bytes()).unwrap(), Opaque::None), "{none}");
        assert!(!restores(none.as_bytes(), &protobuf_of(&nginx())).unwrap(), "{none}");
    }
    assert!(template(b"").is_err());
}

#[test]
fn data_is_the_same_however_its_json_is_written_but_not_by_meaning() {
    let rewritten: Value = serde_json::from_str(NGINX).unwrap();
    let pretty = serde_json::to_string_pretty(&rewritten).unwrap();
    let null = NGINX.replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#);
    let (default, amount) = (protobuf_of(&nginx()), |amount: &str| {
        let mut template = nginx();
        template["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": amount}});
        template
    });
    let gibibyte = data(Form::StatefulSet, &protobuf_of(&amount("1Gi"))).unwrap();
    for (case, stored, of, same, restored) in [
        ("as it is", NGINX, &default, true, true),
        ("written in another way", &pretty, &default, true, true),
        ("as Kubernetes 1.33 wrote it", &null, &default, false, true),
        ("another amount of the same size", &gibibyte, &protobuf_of(&amount("1073741824")), false, true),
        ("another amount", &gibibyte, &protobuf_of(&amount("2Gi")), false, false),
        ("another image", NGINX, &protobuf_of(&image("nginx:2")), false, false),
        ("no data", "", &default, false, false),
        ("a patch of something else", r#"{"spec":{"replicas":1}}"#, &default, false, false),
        ("no pod template", r#"{"spec":{"template":{"spec":{"containers":1}}}}"#, &default, false, false),
    ] {
        assert_eq!(is_same(stored.as_bytes(), &data(Form::StatefulSet, of).unwrap()), same, "{case}");
        assert_eq!(restores(stored.as_bytes(), of).unwrap(), restored, "{case}");
    }
    assert!(restores(NGINX.as_bytes(), &Opaque::Protobuf([0x0a, 5].into())).is_err());
}

#[test]
fn data_restores_a_template_that_has_more_defaults() {
    let mut template = nginx();
    template["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]);
    template["spec"]["containers"][0]["livenessProbe"] = json!({"grpc": {"port": 1, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    let of = protobuf_of(&template);
    let stored: Value = serde_json::from_str(&data(Form::StatefulSet, &of).unwrap()).unwrap();
    for (case, message, field, default, other) in [
        ("a text", "", "dnsPolicy", true, json!("Default")),
        ("a number", "", "terminationGracePeriodSeconds", true, json!(29)),
        ("a message", "", "securityContext", true, json!({"runAsUser": 0})),
        ("of a container", "/containers/0", "terminationMessagePolicy", true, json!("FallbackToLogsOnError")),
        ("by the image", "/containers/0", "imagePullPolicy", true, json!("Always")),
        ("of a port", "/containers/0/ports/0", "protocol", true, json!("UDP")),
        ("of a probe", "/containers/0/livenessProbe", "periodSeconds", true, json!(11)),
        ("an empty text", "/containers/0/livenessProbe/grpc", "service", true, json!("s")),
        ("of a volume", "/volumes/0/configMap", "defaultMode", true, json!(0)),
        ("no default", "/containers/0", "image", false, json!("nginx:2")),
        ("no default for a message", "", "volumes", false, json!([])),
    ] {
        let with = |value: Option<Value>| {
            let mut data = stored.clone();
            let members = data.pointer_mut(&format!("/spec/template/spec{message}")).unwrap();
            let members = members.as_object_mut().unwrap();
            match value {
                Some(value) => members.insert(field.to_owned(), value),
                None => members.remove(field),
            };
            data.to_string()
        };
        assert_eq!(restores(with(None).as_bytes(), &of).unwrap(), default, "{case}: {field} is absent");
        assert!(!restores(with(Some(other.clone())).as_bytes(), &of).unwrap(), "{case}: {field} is {other}");
    }
}
