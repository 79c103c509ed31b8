//! Path elements, sets of fields and their texts.

use serde_json::{Value, json};
use steersman_api::schema;

use super::super::compare::Comparison;
use super::super::element::Element;
use super::super::set::FieldSet;
use super::super::walk::{fields_of, removed, with_listed};
use super::super::{Type, merge::merge};

fn set(text: &str) -> FieldSet {
    FieldSet::from_text(text).unwrap()
}

fn kind(api_version: &str, kind: &str) -> Type<'static> {
    Type::Kind(schema::table().kind_of(api_version, kind).unwrap())
}

#[test]
fn elements_are_encoded_and_shown_as_upstream_does() {
    for (encoded, shown) in [
        ("f:replicas", ".replicas"),
        ("f:example.com/a:b", ".example.com/a:b"),
        (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
        (r#"v:"example.com/keep""#, r#"[="example.com/keep"]"#),
        ("v:1", "[=1]"),
        ("v:true", "[=true]"),
        ("i:3", "[3]"),
    ] {
        let element = Element::decode(encoded).unwrap().unwrap();
        let mut again = String::new();
        element.encode(&mut again);
        assert_eq!((again.as_str(), element.to_string().as_str()), (encoded, shown));
    }
    // Keys are sorted by name, whatever the text says.
    let element = Element::decode(r#"k:{"b": 1, "a": "x"}"#).unwrap().unwrap();
    assert_eq!(element.to_string(), r#"[a="x",b=1]"#);
}

#[test]
fn texts_that_are_no_elements_are_refused_and_elements_of_tomorrow_left_out() {
    for text in ["", "f", "name", "k:[]", "k:{", "v:", "i:x"] {
        assert!(Element::decode(text).is_err(), "{text:?}");
    }
    assert_eq!(Element::decode("z:later"), Ok(None));
    assert_eq!(set(r#"{"f:a":{"z:later":{}},"z:x":{}}"#), set(r#"{"f:a":{}}"#));
    for text in ["", "[]", "1", r#"{"f:a":1}"#, r#"{"a":{}}"#, r#"{"f:a":{"f":{}}}"#] {
        assert!(FieldSet::from_text(text).is_err(), "{text:?}");
    }
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(1000), "}".repeat(1000));
    assert!(FieldSet::from_text(&deep).is_err());
}

#[test]
fn elements_are_in_upstreams_order_numbers_by_their_worth() {
    let text = r#"{".":{},"i:1":{},"v:10":{},"v:\"a\"":{},"v:9":{},"k:{\"p\":443}":{},"k:{\"p\":80}":{},"f:b":{},"f:a":{}}"#;
    let ordered = r#"{"f:a":{},"f:b":{},"k:{\"p\":80}":{},"k:{\"p\":443}":{},"v:9":{},"v:10":{},"v:\"a\"":{},"i:1":{}}"#;
    assert_eq!(set(text).to_text(), ordered);
}

#[test]
fn members_with_something_below_are_marked_with_a_dot() {
    let text = r#"{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}},"f:e":{}}"#;
    assert_eq!(set(text).to_text(), text);
    let path = |text: &str| text.split('.').map(Element::field).collect::<Vec<_>>();
    for (path_text, member) in
        [("a", true), ("a.b", true), ("c", false), ("c.d", true), ("e", true), ("e.x", false), ("x", false)]
    {
        assert_eq!(set(text).has(&path(path_text)), member, "{path_text}");
    }
    assert!(!set(text).has(&[]));
}

#[test]
fn the_algebra_of_sets_is_by_path() {
    let a = set(r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{}}"#);
    let b = set(r#"{"f:a":{"f:b":{},"f:x":{}},"f:d":{"f:e":{}},"f:f":{}}"#);
    let text = |set: FieldSet| set.to_text();
    assert_eq!(
        text(a.union(&b)),
        r#"{"f:a":{".":{},"f:b":{},"f:c":{},"f:x":{}},"f:d":{".":{},"f:e":{}},"f:f":{}}"#
    );
    assert_eq!(text(a.intersection(&b)), r#"{"f:a":{"f:b":{}}}"#);
    assert_eq!(text(a.difference(&b)), r#"{"f:a":{".":{},"f:c":{}},"f:d":{}}"#);
    assert_eq!(text(b.difference(&a)), r#"{"f:a":{"f:x":{}},"f:d":{"f:e":{}},"f:f":{}}"#);
    // A path takes what is below it along.
    let cut = |set: &FieldSet, other: &FieldSet| {
        let mut set = set.clone();
        set.cut(other);
        set
    };
    assert_eq!(text(cut(&b, &a)), r#"{"f:f":{}}"#);
    assert_eq!(text(cut(&a, &b)), r#"{"f:a":{".":{},"f:c":{}},"f:d":{}}"#);
    assert!(a.difference(&a).is_empty() && cut(&a, &a).is_empty());
}

#[test]
fn an_object_sets_what_its_type_lets_it_set_apart() {
    let pod = json!({
        "metadata": {
            "labels": {"a": "b"},
            "finalizers": ["example.com/x", "example.com/y"],
            "ownerReferences": [{"uid": "u", "name": "n"}],
        },
        "spec": {
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "k"}],
            "containers": [
                {"name": "c", "ports": [{"containerPort": 80}], "resources": {}, "command": ["x"]},
                {"name": "twice"},
                {"name": "twice"},
            ],
        },
    });
    let text = fields_of(kind("v1", "Pod"), &pod).unwrap().to_text();
    let fields: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "f:metadata": {
            "f:finalizers": {"v:\"example.com/x\"": {}, "v:\"example.com/y\"": {}},
            "f:labels": {"f:a": {}},
            "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}},
        },
        "f:spec": {
            "f:containers": {
                "k:{\"name\":\"c\"}": {
                    ".": {},
                    "f:command": {},
                    "f:name": {},
                    // The default of a key counts where an item does not say it.
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    "f:resources": {},
                },
                // What is there twice is one whole.
                "k:{\"name\":\"twice\"}": {},
            },
            "f:nodeSelector": {},
            "f:tolerations": {},
        },
    });
    assert_eq!(fields, expected);
}

#[test]
fn items_that_cannot_be_told_apart_are_a_mistake() {
    let ty = kind("v1", "Pod");
    for items in [json!([null]), json!(["x"])] {
        let pod = json!({"spec": {"containers": items}});
        assert!(fields_of(ty, &pod).is_err());
        assert!(Comparison::of(ty, &json!({}), &pod).is_err());
        assert!(merge(ty, &json!({}), &pod).is_err());
    }
    assert!(fields_of(ty, &json!({"metadata": {"finalizers": [{}]}})).is_err());
}

/// The fields that a change removed, and those that it set.
fn change(ty: Type<'_>, old: &Value, new: &Value) -> [String; 2] {
    let change = Comparison::of(ty, old, new).unwrap();
    [change.removed.to_text(), change.set.to_text()]
}

#[test]
fn a_comparison_knows_what_came_went_and_changed() {
    let map = kind("v1", "ConfigMap");
    let old = json!({"data": {"a": "1", "b": "1", "c": "1"}});
    let new = json!({"data": {"b": "2", "c": "1", "d": "1"}, "metadata": {"labels": {"x": "y"}}});
    assert_eq!(
        change(map, &old, &new),
        [
            r#"{"f:data":{"f:a":{}}}"#,
            r#"{"f:data":{"f:b":{},"f:d":{}},"f:metadata":{".":{},"f:labels":{".":{},"f:x":{}}}}"#
        ]
    );
    // Nothing, null and empty are three things.
    let cases = [
        (json!({}), json!({"data": {}}), ["{}", r#"{"f:data":{}}"#]),
        (json!({"data": null}), json!({"data": {}}), ["{}", r#"{"f:data":{}}"#]),
        (json!({"data": null}), json!({"data": {"a": "1"}}), ["{}", r#"{"f:data":{"f:a":{}}}"#]),
        (json!({"data": {"a": "1"}}), json!({}), [r#"{"f:data":{".":{},"f:a":{}}}"#, "{}"]),
    ];
    for (old, new, expected) in cases {
        assert_eq!(change(map, &old, &new), expected, "{old} {new}");
    }
}

#[test]
fn items_that_are_there_twice_are_compared_as_one() {
    let pod = kind("v1", "Pod");
    let of = |images: &[&str]| {
        let items: Vec<_> = images.iter().map(|image| json!({"name": "c", "image": image})).collect();
        json!({"spec": {"containers": items}})
    };
    let item = |below: &str| format!(r#"{{"f:spec":{{"f:containers":{{"k:{{\"name\":\"c\"}}":{below}}}}}}}"#);
    let none = || "{}".to_owned();
    assert_eq!(change(pod, &of(&["1", "2"]), &of(&["1", "2"])), [none(), none()]);
    assert_eq!(change(pod, &of(&["1", "2"]), &of(&["1", "3"])), [none(), item("{}")]);
    let all = item(r#"{".":{},"f:image":{},"f:name":{}}"#);
    assert_eq!(change(pod, &of(&["1", "2"]), &of(&["1"])), [item("{}"), all.clone()]);
    assert_eq!(change(pod, &of(&["1"]), &of(&["1", "2"])), [all, item("{}")]);
}

#[test]
fn numbers_are_equal_by_what_they_count() {
    let custom = Type::Custom(None);
    let none = ["{}", "{}"];
    assert_eq!(change(custom, &json!({"spec": {"n": 1}}), &json!({"spec": {"n": 1.0}})), none);
    assert_eq!(
        change(custom, &json!({"spec": {"n": {"a": 1}}}), &json!({"spec": {"n": [1]}})),
        [r#"{"f:spec":{"f:n":{"f:a":{}}}}"#, r#"{"f:spec":{"f:n":{}}}"#]
    );
}

#[test]
fn a_configuration_is_merged_by_key_and_its_order_wins() {
    let names = |names: &[&str]| -> Value {
        let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": items}})
    };
    for (state, config, expected) in [
        (&["a", "b", "c"][..], &["b"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b"], &["x", "b", "y"], &["a", "x", "b", "y"]),
        (&["a", "b", "c", "d"], &["d", "x", "b"], &["a", "c", "d", "x", "b"]),
        (&["a"], &["x"], &["a", "x"]),
        (&[], &["x", "y"], &["x", "y"]),
        (&["a", "b"], &[], &["a", "b"]),
    ] {
        let merged = merge(kind("v1", "Pod"), &names(state), &names(config)).unwrap();
        assert_eq!(merged, names(expected), "{state:?} {config:?}");
    }
}

#[test]
fn a_configuration_replaces_what_is_one_whole_and_adds_to_what_is_not() {
    let state = json!({"spec": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a"}],
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}],
    }});
    let config = json!({"spec": {
        "nodeSelector": {"c": "d"},
        "tolerations": [{"key": "b"}],
        "containers": [{"name": "c", "env": [{"name": "B", "value": "2"}], "image": null}],
    }});
    let expected = json!({"spec": {
        "nodeSelector": {"c": "d"},
        "tolerations": [{"key": "b"}],
        "containers": [{
            "name": "c",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "image": null,
        }],
    }});
    assert_eq!(merge(kind("v1", "Pod"), &state, &config).unwrap(), expected);
}

#[test]
fn what_loses_all_its_content_becomes_null() {
    let ty = kind("v1", "ConfigMap");
    let map = json!({"data": {"a": "1", "b": "2"}, "metadata": {"finalizers": ["x"], "name": "n"}});
    let without = |text: &str| removed(ty, &map, &set(text)).unwrap();
    assert_eq!(without(r#"{"f:data":{"f:a":{}}}"#)["data"], json!({"b": "2"}));
    assert_eq!(without(r#"{"f:data":{"f:a":{},"f:b":{}}}"#)["data"], Value::Null);
    assert_eq!(without(r#"{"f:data":{}}"#).get("data"), None);
    assert_eq!(
        without(r#"{"f:metadata":{"f:finalizers":{"v:\"x\"":{}}}}"#)["metadata"],
        json!({"finalizers": null, "name": "n"})
    );
    assert_eq!(without("{}"), map);
}

#[test]
fn who_has_all_of_a_listed_field_has_the_field() {
    let ty = kind("apps/v1", "Deployment");
    let text = r#"{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}}}}"#;
    let with = r#"{"f:metadata":{".":{},"f:labels":{".":{},"f:a":{}}},"f:spec":{".":{},"f:template":{".":{},"f:spec":{".":{},"f:containers":{".":{},"k:{\"name\":\"c\"}":{"f:image":{}}}}}}}"#;
    assert_eq!(with_listed(ty, &set(text)).to_text(), with);
}
