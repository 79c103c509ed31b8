//! Updates and applies of whole objects.

use super::*;
use crate::managed_fields::managers::Operation;

#[track_caller]
fn applied(fixture: &Fixture, now: &str, old: &Value, config: Value, manager: &str) -> Value {
    stored(apply(&fixture.at(now), old, &config, manager, false).unwrap())
}

fn updated(fixture: &Fixture, now: &str, old: &Value, mut new: Value, manager: &str) -> Value {
    update(&fixture.at(now), old, &mut new, manager);
    new
}

fn entry(manager: &str, operation: &str, fields: Value) -> (String, String, Value) {
    (manager.to_owned(), operation.to_owned(), fields)
}

#[test]
fn a_creator_gets_what_it_sets_and_an_updater_what_it_changes() {
    let maps = Fixture::of("v1", "ConfigMap");
    let created = maps.object(json!({"data": {"a": "1", "b": "1"}}));
    let created = stored(updated(&maps, "t1", &maps.empty, created, "one"));
    let data = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}});
    assert_eq!(entries(&created), [entry("one", "Update", data)]);
    let mut next = created.clone();
    next["data"] = json!({"a": "2", "c": "1"});
    let next = updated(&maps, "t2", &created, next, "two");
    assert_eq!(
        entries(&next),
        [
            entry("one", "Update", json!({"f:data": {}})),
            entry("two", "Update", json!({"f:data": {"f:a": {}, "f:c": {}}}))
        ]
    );
    assert_eq!(times(&next), ["t1", "t2"]);
}

#[test]
fn who_changes_nothing_changes_no_time_and_reads_no_entry() {
    let maps = Fixture::of("v1", "ConfigMap");
    let created = stored(updated(&maps, "t1", &maps.empty, maps.object(json!({"data": {"a": "1"}})), "one"));
    let again = updated(&maps, "t2", &created, created.clone(), "two");
    assert_eq!(again, created);
    // Entries that nobody can read do not matter where nothing changes.
    let mut odd = created;
    odd["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let mut new = odd.clone();
    take(&mut new);
    assert_eq!(updated(&maps, "t3", &odd, new, "two"), odd);
}

#[test]
fn an_empty_list_stops_tracking_until_the_first_apply() {
    let maps = Fixture::of("v1", "ConfigMap");
    let created = stored(updated(&maps, "t1", &maps.empty, maps.object(json!({"data": {"a": "1"}})), "one"));
    for empty in [json!([]), json!([{}])] {
        let mut new = created.clone();
        new["metadata"]["managedFields"] = empty;
        let reset = updated(&maps, "t2", &created, new, "one");
        assert_eq!(reset["metadata"].get("managedFields"), None);
        let mut new = reset.clone();
        new["data"]["a"] = "2".into();
        let untracked = updated(&maps, "t3", &reset, new, "one");
        assert_eq!(untracked["metadata"].get("managedFields"), None);
        let config = maps.object(json!({"data": {"b": "1"}}));
        let tracked = applied(&maps, "t4", &untracked, config, "two");
        let before = json!({"f:data": {".": {}, "f:a": {}}});
        assert_eq!(
            entries(&tracked),
            [
                entry("two", "Apply", json!({"f:data": {"f:b": {}}})),
                entry("before-first-apply", "Update", before)
            ]
        );
    }
}

#[test]
fn what_an_applier_gives_up_goes_unless_others_have_it() {
    let maps = Fixture::of("v1", "ConfigMap");
    let one = maps.object(json!({"data": {"a": "1", "b": "1", "c": "1"}}));
    let state = applied(&maps, "t1", &maps.empty, one, "one");
    let state = applied(&maps, "t2", &state, maps.object(json!({"data": {"b": "1"}})), "two");
    let mut new = state.clone();
    new["data"]["c"] = "2".into();
    let state = updated(&maps, "t3", &state, new, "three");
    let state = applied(&maps, "t4", &state, maps.object(json!({})), "one");
    assert_eq!(state["data"], json!({"b": "1", "c": "2"}));
    assert_eq!(
        entries(&state),
        [
            entry("two", "Apply", json!({"f:data": {"f:b": {}}})),
            entry("three", "Update", json!({"f:data": {"f:c": {}}}))
        ]
    );
}

#[test]
fn a_conflict_names_field_and_manager_and_force_takes_the_field() {
    let maps = Fixture::of("v1", "ConfigMap");
    let state = applied(&maps, "t1", &maps.empty, maps.object(json!({"data": {"a": "1"}})), "one");
    let mut new = state.clone();
    new["data"]["b"] = "1".into();
    let state = updated(&maps, "t2", &state, new, "two");
    let config = maps.object(json!({"data": {"a": "2", "b": "2", "c": "2"}}));
    let error = apply(&maps.at("t3"), &state, &config, "three", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with \"two\" using v1:\n- .data.b"
    );
    let Error::Conflicts(conflicts) = error else { panic!("{error}") };
    let causes: Vec<_> = conflicts.iter().map(|conflict| (conflict.field(), conflict.message())).collect();
    assert_eq!(
        causes,
        [
            (".data.a".to_owned(), "conflict with \"one\"".to_owned()),
            (".data.b".to_owned(), "conflict with \"two\" using v1".to_owned())
        ]
    );
    let forced = apply(&maps.at("t3"), &state, &config, "three", true).unwrap();
    let all = json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}});
    assert_eq!(entries(&forced), [entry("three", "Apply", all)]);
}

#[test]
fn kubectl_takes_over_what_it_had_set_from_the_client_side() {
    let maps = Fixture::of("v1", "ConfigMap");
    let config = maps.object(json!({"data": {"a": "1", "b": "1"}}));
    let mut created = config.clone();
    created["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": config.to_string()});
    let created = stored(updated(&maps, "t1", &maps.empty, created, "kubectl-client-side-apply"));
    let new = maps.object(json!({"data": {"a": "2", "b": "1"}}));
    assert!(apply(&maps.at("t2"), &created, &new, "other", false).is_err());
    let state = applied(&maps, "t2", &created, new, "kubectl");
    assert_eq!(state["data"]["a"], "2");
    let noted = state["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str();
    assert!(noted.unwrap().contains("\"a\":\"2\""));
    // What somebody else has changed since is a conflict all the same.
    let mut changed = created.clone();
    changed["data"]["b"] = "9".into();
    let changed = updated(&maps, "t3", &created, changed, "editor");
    let new = maps.object(json!({"data": {"a": "2", "b": "1"}}));
    let error = apply(&maps.at("t4"), &changed, &new, "kubectl", false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.b");
}

#[test]
fn the_oldest_updaters_become_one() {
    let maps = Fixture::of("v1", "ConfigMap");
    let mut state =
        applied(&maps, "2026-01-01T00:00:00Z", &maps.empty, maps.object(json!({"data": {"a": "1"}})), "one");
    for at in 1..13 {
        let mut new = state.clone();
        new["data"][format!("k{at:02}")] = "1".into();
        state = updated(&maps, &format!("2026-01-01T00:00:{at:02}Z"), &state, new, &format!("u{at:02}"));
    }
    let names: Vec<_> = entries(&state).into_iter().map(|(name, ..)| name).collect();
    let expected = ["one", "ancient-changes", "u04", "u05", "u06", "u07", "u08", "u09", "u10", "u11", "u12"];
    assert_eq!(names, expected);
    let ancient = &entries(&state)[1];
    assert_eq!(ancient.2, json!({"f:data": {"f:k01": {}, "f:k02": {}, "f:k03": {}}}));
    assert_eq!(times(&state)[1], "2026-01-01T00:00:03Z");
}

#[test]
fn nobody_manages_name_and_version_nor_what_a_write_never_changes() {
    let pods = Fixture::of("v1", "Pod");
    let mut new = pods.object(json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}));
    new["metadata"]["generation"] = 3.into();
    let mut subject = pods.at("t1");
    subject.reset = Reset::of("", "pods", "", true);
    update(&subject, &pods.empty, &mut new, "one");
    assert_eq!(entries(&new), [entry("one", "Update", json!({"f:spec": {"f:nodeName": {}}}))]);
    let mut through = stored(new.clone());
    through["status"]["phase"] = "Failed".into();
    through["spec"]["nodeName"] = "m".into();
    let mut subject = pods.at("t2");
    (subject.subresource, subject.reset) = ("status", Reset::of("", "pods", "status", true));
    // Nothing that is sent counts through a subresource.
    through["metadata"]["managedFields"] = json!([]);
    update(&subject, &stored(new), &mut through, "two");
    assert_eq!(
        entries(&through),
        [
            entry("one", "Update", json!({"f:spec": {"f:nodeName": {}}})),
            entry("two", "Update", json!({"f:status": {"f:phase": {}}}))
        ]
    );
}

#[test]
fn a_custom_resource_is_managed_by_its_schema_or_by_what_it_looks_like() {
    let spec = json!({"set": ["a"], "list": [{"k": "x", "v": 1}], "free": {"a": {"b": [1]}}});
    let object = |fixture: &Fixture| {
        let mut object = fixture.object(json!({"spec": spec}));
        object["metadata"]["finalizers"] = json!(["example.com/x"]);
        object
    };
    let plain = Fixture::custom(Value::Null);
    let created = updated(&plain, "t", &plain.empty, object(&plain), "one");
    let finalizers = json!({".": {}, "v:\"example.com/x\"": {}});
    let deduced = json!({
        "f:metadata": {"f:finalizers": finalizers},
        "f:spec": {".": {}, "f:free": {".": {}, "f:a": {".": {}, "f:b": {}}}, "f:list": {}, "f:set": {}},
    });
    assert_eq!(entries(&created), [entry("one", "Update", deduced)]);
    let typed =
        Fixture::custom(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
                "items": {"type": "object", "properties": {
                    "k": {"type": "string"},
                    "p": {"type": "string", "default": "TCP"},
                    "v": {"x-kubernetes-int-or-string": true},
                }},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}));
    let state = applied(&typed, "t", &typed.empty, object(&typed), "one");
    let expected = json!({
        "f:metadata": {"f:finalizers": {"v:\"example.com/x\"": {}}},
        "f:spec": {
            "f:free": {"f:a": {".": {}, "f:b": {}}},
            "f:list": {"k:{\"k\":\"x\",\"p\":\"TCP\"}": {".": {}, "f:k": {}, "f:v": {}}},
            "f:set": {"v:\"a\"": {}},
        },
    });
    assert_eq!(entries(&state), [entry("one", "Apply", expected)]);
    let wrong = typed.object(json!({"spec": {"nope": 1}}));
    let error = apply(&typed.at("t"), &state, &wrong, "two", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (/x; example.com/v1, Kind=Foo): .spec.nope: field not declared in schema"
    );
}

#[test]
fn a_configuration_that_does_not_fit_is_refused_in_upstreams_words() {
    let pods = Fixture::of("v1", "Pod");
    let refused = |config: Value| apply(&pods.at("t"), &pods.empty, &config, "one", false).unwrap_err();
    let spec = |spec: Value| pods.object(json!({"spec": spec}));
    for (config, why) in [
        (spec(json!({"hostNetwork": "x"})), ".spec.hostNetwork: expected boolean, got &{x}"),
        (
            spec(json!({"nodeName": {"a": 1}})),
            r#".spec.nodeName: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":1}}"#,
        ),
        (spec(json!({"priority": "1"})), ".spec.priority: expected numeric (int or float), got string"),
        (
            spec(json!({"containers": {"a": [1, "b"]}})),
            ".spec.containers: expected list, got &{map[a:[1 b]]}",
        ),
        (
            spec(json!({"containers": ["x"]})),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            spec(json!({"tolerations": [{}, {"x": 1}]})),
            ".spec.tolerations[1].x: field not declared in schema",
        ),
        (spec(json!([1])), ".spec: expected map, got &{[1]}"),
        (
            spec(json!({"hostNetwork": 1, "hostPID": 1})),
            "errors:\n  .spec.hostNetwork: expected boolean, got &{1}\n  .spec.hostPID: expected boolean, got &{1}",
        ),
    ] {
        let expected = format!("failed to create typed patch object (/x; /v1, Kind=Pod): {why}");
        assert_eq!(refused(config).to_string(), expected);
    }
    assert_eq!(refused(json!({"kind": "Pod"})).to_string(), "invalid object type: /, Kind=Pod");
    let mut listed = spec(json!({}));
    listed["metadata"]["managedFields"] = json!([]);
    assert_eq!(refused(listed).to_string(), "metadata.managedFields must be nil");
}

#[test]
fn the_number_of_replicas_changes_hands_between_an_object_and_its_scale() {
    let deployments = Fixture::of("apps/v1", "Deployment");
    let config = deployments.object(json!({"spec": {"replicas": 1, "paused": true}}));
    let state = applied(&deployments, "t1", &deployments.empty, config, "one");
    let list = list_of(&state);
    let scale = of_parent(list).unwrap();
    assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let list_in = |list: Option<Value>| json!({"metadata": {"managedFields": list}});
    assert_eq!(entries(&list_in(Some(scale.clone()))), [entry("one", "Apply", replicas.clone())]);
    // Left alone, the applier keeps it.
    assert_eq!(of_scale(list, Some(&scale), "apps/v1").as_ref(), list);
    let taken = json!([{
        "manager": "two", "operation": "Update", "apiVersion": "autoscaling/v1", "fieldsType": "FieldsV1",
        "fieldsV1": replicas, "subresource": "scale",
    }]);
    let after = of_scale(list, Some(&taken), "apps/v1");
    assert_eq!(
        entries(&list_in(after.clone())),
        [entry("one", "Apply", json!({"f:spec": {"f:paused": {}}})), entry("two", "Update", replicas)]
    );
    assert_eq!(after.unwrap()[1]["apiVersion"], "apps/v1");
}

#[test]
fn lists_are_sorted_by_operation_time_and_name() {
    let entry = |manager: &str, operation: &str, time: &str| {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}})
    };
    let list = json!([
        entry("b", "Update", "2026-01-01T00:00:02Z"),
        entry("a", "Update", "2026-01-01T00:00:02Z"),
        entry("c", "Update", "2026-01-01T00:00:01Z"),
        entry("d", "Apply", "2026-01-01T00:00:03Z"),
    ]);
    let written = Managers::read(&list).unwrap().write().unwrap();
    let names: Vec<_> = written.as_array().unwrap().iter().map(|entry| entry["manager"].clone()).collect();
    assert_eq!(names, ["d", "c", "a", "b"]);
    let id = ManagerId::new("", Operation::Apply, "v1", "status");
    assert_eq!(id.to_string(), "\"unknown\" with subresource \"status\"");
}
