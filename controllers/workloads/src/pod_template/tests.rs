use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use steersman_informer::wire::FieldValue as _;

use super::*;

/// Hashes that Go computed for random templates; `testdata/README.md` says how.
const VECTORS: [(Layout, &str); 3] = [
    (Layout::V1_35, include_str!("testdata/vectors-1.35.txt")),
    (Layout::V1_36, include_str!("testdata/vectors-1.36.txt")),
    (Layout::V1_37, include_str!("testdata/vectors-1.37.txt")),
];

/// A template that Go hashed.
pub(crate) struct Vector {
    pub(crate) layout: Layout,
    pub(crate) hash: &'static str,
    pub(crate) collision_count: i32,
    /// With the collision count.
    pub(crate) counted_hash: &'static str,
    /// The hash of the data of a StatefulSet's revision, with the collision count.
    pub(crate) revision_hash: &'static str,
    /// The same of the data of a DaemonSet's revision.
    pub(crate) daemon_revision_hash: &'static str,
    pub(crate) template: Opaque,
}

/// The templates that Go hashed.
pub(crate) fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.iter().flat_map(|(layout, text)| text.lines().map(|line| Vector::parse(*layout, line)))
}

impl Vector {
    fn parse(layout: Layout, line: &'static str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [hash, collision_count, counted_hash, revision_hash, daemon_revision_hash, template] = words[..]
        else {
            panic!("{line} is no vector")
        };
        let template = Opaque::Protobuf(BASE64.decode(template).unwrap().into());
        let collision_count = collision_count.parse().unwrap();
        Self { layout, hash, collision_count, counted_hash, revision_hash, daemon_revision_hash, template }
    }
}

/// A template as the cache keeps it of an API server that speaks protobuf.
pub(crate) fn protobuf_of(template: &Value) -> Opaque {
    Opaque::Protobuf(to_protobuf(template).unwrap().into())
}

pub(crate) fn json_of(template: &Value) -> Opaque {
    Opaque::from_json(template).unwrap()
}

/// The template that kubeadm makes for CoreDNS, with the API server's defaults.
fn core_dns(version: &str) -> Value {
    let port = |port: u16, name: &str, protocol: &str| json!({"containerPort": port, "name": name, "protocol": protocol});
    let probe = |path: &str, port: &str| {
        json!({
            "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
            "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1, "failureThreshold": 3,
        })
    };
    let mut liveness = probe("/health", "liveness-probe");
    liveness["initialDelaySeconds"] = json!(60);
    liveness["timeoutSeconds"] = json!(5);
    liveness["failureThreshold"] = json!(5);
    json!({
        "metadata": {"labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "priorityClassName": "system-cluster-critical",
            "serviceAccountName": "coredns", "serviceAccount": "coredns",
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {
                    "labelSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]},
                    "topologyKey": "kubernetes.io/hostname",
                },
            }]}},
            "tolerations": [
                {"key": "CriticalAddonsOnly", "operator": "Exists"},
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
            ],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "containers": [{
                "name": "coredns",
                "image": format!("registry.k8s.io/coredns/coredns:{version}"), "imagePullPolicy": "IfNotPresent",
                "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
                "args": ["-conf", "/etc/coredns/Corefile"],
                "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
                "ports": [
                    port(53, "dns", "UDP"), port(53, "dns-tcp", "TCP"), port(9153, "metrics", "TCP"),
                    port(8080, "liveness-probe", "TCP"), port(8181, "readiness-probe", "TCP"),
                ],
                "livenessProbe": liveness, "readinessProbe": probe("/ready", "readiness-probe"),
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                },
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "Default", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "config-volume", "configMap": {
                "name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}], "defaultMode": 420,
            }}],
        },
    })
}

/// The template of a Deployment of nginx with a port, with the API server's defaults.
pub(crate) fn nginx() -> Value {
    json!({
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {
            "containers": [{
                "name": "nginx", "image": "nginx:1.14.2", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
    })
}

#[test]
fn hashes_are_those_of_clusters_in_use() {
    let (v35, v36) = (core_dns("v1.13.1"), core_dns("v1.14.2"));
    for (name, template, layout, collision_count, expected) in [
        ("CoreDNS of 1.35", &v35, Layout::V1_35, None, "7d764666f9"),
        ("CoreDNS of 1.36", &v36, Layout::V1_36, None, "589f44dc88"),
        ("first collision", &v36, Layout::V1_36, Some(0), "6974bffc96"),
        ("second collision", &v36, Layout::V1_36, Some(1), "84fc7b65d9"),
        ("third collision", &v36, Layout::V1_36, Some(2), "57bf49c766"),
        ("empty", &json!({}), Layout::V1_36, None, "85748b7f68"),
        ("nginx", &nginx(), Layout::V1_36, None, "6c5f67b5f7"),
        ("empty, 1.37", &json!({}), Layout::V1_37, None, "54f4c57dcb"),
        ("nginx, 1.37", &nginx(), Layout::V1_37, None, "54fd4d6d4c"),
    ] {
        for opaque in [protobuf_of(template), json_of(template)] {
            assert_eq!(hash(&opaque, collision_count, Some(layout)).unwrap(), expected, "{name}");
        }
    }
    assert_eq!(hash(&Opaque::None, None, Some(Layout::V1_36)).unwrap(), "85748b7f68");
}

#[test]
fn hashes_are_gos_whatever_a_template_has() {
    for Vector { layout, hash: expected, collision_count, counted_hash, template, .. } in vectors() {
        let json = json(&template).unwrap();
        assert_eq!(hash(&template, None, Some(layout)).unwrap(), expected, "{layout:?} {json}");
        assert_eq!(
            hash(&template, Some(collision_count), Some(layout)).unwrap(),
            counted_hash,
            "{layout:?} {json}"
        );
        assert_eq!(
            hash(&json_of(&json), None, Some(layout)).unwrap(),
            expected,
            "{layout:?} {json}, as JSON"
        );
    }
}

#[test]
fn the_vectors_have_every_field_of_every_struct() {
    let (text, added) = (include_str!("layout.txt"), include_str!("added-in-1.37.txt"));
    for (layout, lines) in [(Layout::V1_36, text.to_owned()), (Layout::V1_37, [text, added].concat())] {
        let mut text = String::new();
        for Vector { template, .. } in vectors().filter(|vector| vector.layout == layout) {
            text.push_str(&go_json::marshal_untyped(&json(&template).unwrap()));
        }
        let mut of = "";
        for line in lines.lines() {
            let Some(field) = line.strip_prefix(' ') else {
                of = line;
                continue;
            };
            let name = field.split(' ').nth(2).unwrap();
            let is_left_out = ["ManagedFieldsEntry", "FieldsV1"].contains(&of)
                || ["selfLink", "creationTimestamp", "deletionTimestamp", "managedFields", "-"]
                    .contains(&name);
            assert!(is_left_out || text.contains(&format!("\"{name}\":")), "{layout:?} {of}: {field}");
        }
    }
}

#[test]
fn other_layouts_and_fields_have_another_hash_of_the_same_form() {
    let template = protobuf_of(&nginx());
    let fallback = hash(&template, None, Layout::of_minor(99)).unwrap();
    assert_ne!(fallback, hash(&template, None, Layout::of_minor(36)).unwrap());
    assert_eq!(fallback, hash(&json_of(&nginx()), None, None).unwrap());
    assert!(
        fallback.len() <= 10 && fallback.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)),
        "{fallback}"
    );
    assert_ne!(fallback, hash(&template, Some(0), None).unwrap());

    // Go prints its tables of time zones for a time, and managed fields have no place in a template.
    let mut stamped = nginx();
    stamped["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let layouts = [Some(Layout::V1_35), Some(Layout::V1_36), Some(Layout::V1_37), None];
    let hashes = layouts.map(|layout| hash(&protobuf_of(&stamped), None, layout).unwrap());
    assert!(hashes.iter().all(|hash| *hash == hashes[0] && *hash != fallback), "{hashes:?}");
}

/// The template in protobuf with a field in its spec that the schema table lacks.
fn with_newer_field(template: &Value, value: &str) -> Opaque {
    let Opaque::Protobuf(bytes) = protobuf_of(template) else { unreachable!() };
    let mut writer = steersman_api::wire::Writer::onto(&bytes);
    writer.message(2, |spec| spec.text(9_000, value));
    Opaque::Protobuf(writer.into_bytes().into())
}

#[test]
fn fields_newer_than_this_program_count() {
    let [old, a, b] =
        [protobuf_of(&nginx()), with_newer_field(&nginx(), "a"), with_newer_field(&nginx(), "b")];
    let of = |template: &Opaque| hash(template, None, Some(Layout::V1_36)).unwrap();
    assert_eq!(of(&a), of(&with_newer_field(&nginx(), "a")));
    assert!(of(&a) != of(&b) && of(&a) != of(&old));
    assert!(equal_but_for_hash(&a, &with_newer_field(&nginx(), "a")).unwrap());
    assert!(!equal_but_for_hash(&a, &b).unwrap());
    assert!(!equal_but_for_hash(&a, &old).unwrap());
}

/// The template with one of the fields that came with 1.37.
fn with_responders(responders: Value) -> Value {
    let mut template = nginx();
    template["spec"]["evictionResponders"] = responders;
    template
}

#[test]
fn fields_of_1_37_have_hashes_of_their_own_with_other_layouts() {
    let of = |template: &Opaque, layout| hash(template, None, layout).unwrap();
    let a = protobuf_of(&with_responders(json!([{"name": "a", "priority": 1}])));
    let b = protobuf_of(&with_responders(json!([{"name": "a", "priority": 2}])));
    for layout in [Some(Layout::V1_35), Some(Layout::V1_36), None] {
        assert_eq!(of(&a, layout), of(&a, None));
        assert_ne!(of(&a, layout), of(&b, layout));
        assert_ne!(of(&a, layout), of(&a, Some(Layout::V1_37)));
    }
    // A part of such a field may be newer than 1.37.
    let Opaque::Protobuf(bytes) = &a else { unreachable!() };
    let mut writer = steersman_api::wire::Writer::onto(bytes);
    writer.message(2, |spec| {
        spec.message(44, |responder| {
            responder.text(1, "b");
            responder.text(9, "newer");
        });
    });
    let newer = Opaque::Protobuf(writer.into_bytes().into());
    assert_eq!(of(&newer, Some(Layout::V1_37)), of(&newer, None));
}

#[test]
fn fields_of_1_37_are_read_from_json_and_protobuf() {
    for (sent, written) in [
        (json!([{"name": "a", "priority": 1}]), json!([{"name": "a", "priority": 1}])),
        (
            json!([{"name": "a"}, {}]),
            json!([{"name": "a", "priority": null}, {"name": "", "priority": null}]),
        ),
    ] {
        let template = with_responders(sent);
        for opaque in [protobuf_of(&template), json_of(&template)] {
            assert_eq!(json(&opaque).unwrap()["spec"]["evictionResponders"], written);
            assert!(equal_but_for_hash(&opaque, &protobuf_of(&template)).unwrap());
            assert!(equal_with_defaults(&opaque, &protobuf_of(&template)).unwrap());
            assert!(!equal_with_defaults(&opaque, &protobuf_of(&nginx())).unwrap());
        }
    }
    for none in [json!([]), Value::Null] {
        let template = with_responders(none);
        assert!(equal_but_for_hash(&json_of(&template), &protobuf_of(&nginx())).unwrap());
        assert_eq!(json(&json_of(&template)).unwrap(), json(&json_of(&nginx())).unwrap());
    }
    for wrong in [json!(1), json!([1]), json!([{"name": 1}]), json!([{"name": "a", "priority": "1"}])] {
        let error = json(&json_of(&with_responders(wrong))).unwrap_err().to_string();
        assert!(error.starts_with("reading the pod template: invalid type: "), "{error}");
    }
}

#[test]
fn templates_are_equal_by_meaning() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut template = nginx();
        change(&mut template);
        template
    };
    let set = |path: &'static str, value: Value| {
        with(&move |template| {
            let (parent, name) = path.rsplit_once('/').unwrap();
            template.pointer_mut(parent).unwrap()[name] = value.clone();
        })
    };
    let container = "/spec/containers/0";
    let memory = |amount: &str| set("/spec/containers/0/resources", json!({"limits": {"memory": amount}}));
    let probe = |port: Value| set("/spec/containers/0/livenessProbe", json!({"tcpSocket": {"port": port}}));
    for (name, a, b, expected) in [
        ("the same", nginx(), nginx(), true),
        ("another image", nginx(), set("/spec/containers/0/image", json!("nginx:2")), false),
        ("hash label", nginx(), set("/metadata/labels/pod-template-hash", json!("abc")), true),
        (
            "only the hash label",
            set("/metadata/labels", json!({})),
            set("/metadata/labels", json!({"pod-template-hash": "a"})),
            true,
        ),
        ("another label", nginx(), set("/metadata/labels/x", json!("y")), false),
        ("another value of a label", nginx(), set("/metadata/labels/app", json!("y")), false),
        ("empty and absent lists", nginx(), set("/spec/tolerations", json!([])), true),
        ("empty and absent maps", nginx(), set("/spec/nodeSelector", json!({})), true),
        ("empty and absent pointers", nginx(), set("/spec/affinity", json!({})), false),
        ("false and absent pointers", nginx(), set("/spec/enableServiceLinks", json!(false)), false),
        ("false and absent values", nginx(), set("/spec/hostNetwork", json!(false)), true),
        ("amounts", memory("1Gi"), memory("1073741824"), true),
        ("other amounts", memory("1Gi"), memory("1G"), false),
        (
            "amounts of other resources",
            memory("1Gi"),
            set("/spec/containers/0/resources", json!({"limits": {"cpu": "1Gi"}})),
            false,
        ),
        ("ports", probe(json!(80)), probe(json!(80)), true),
        ("a port's number and name", probe(json!(80)), probe(json!("80")), false),
        (
            "order of items",
            set("/spec/containers/0/args", json!(["a", "b"])),
            set("/spec/containers/0/args", json!(["b", "a"])),
            false,
        ),
        (
            "more items",
            set("/spec/containers/0/args", json!(["a"])),
            set("/spec/containers/0/args", json!(["a", "b"])),
            false,
        ),
    ] {
        assert!(a.pointer(container).is_some());
        for (left, right) in [(&a, &b), (&b, &a)] {
            for right in [protobuf_of(right), json_of(right)] {
                assert_eq!(equal_but_for_hash(&protobuf_of(left), &right).unwrap(), expected, "{name}");
            }
        }
    }
}

#[test]
fn every_random_template_equals_itself_in_each_form_and_no_other() {
    let all: Vec<Opaque> = vectors().map(|vector| vector.template).collect();
    for (at, template) in all.iter().enumerate() {
        let as_json = json_of(&json(template).unwrap());
        assert!(equal_with_defaults(template, &as_json).unwrap(), "{at}");
        assert!(!equal_with_defaults(template, &all[(at + 1) % all.len()]).unwrap(), "{at}");
    }
}

#[test]
fn broken_templates_are_errors() {
    let broken = Opaque::Protobuf(vec![0x0a, 5, 1].into());
    assert!(hash(&broken, None, Some(Layout::V1_36)).is_err());
    assert!(equal_but_for_hash(&broken, &Opaque::None).is_err());
    assert!(hash(&json_of(&json!({"spec": {"containers": 1}})), None, None).is_err());
}
