use serde_json::{Value, json};

use super::{PatchError, strategic_merge};
use crate::schema::table;

fn try_patched(api_version: &str, kind: &str, original: Value, patch: Value) -> Result<Value, PatchError> {
    let mut object = original;
    strategic_merge(table().kind_of(api_version, kind).unwrap(), &mut object, patch).map(|()| object)
}

fn pod(original: Value, patch: Value) -> Value {
    try_patched("v1", "Pod", original, patch).unwrap()
}

fn refused(original: Value, patch: Value) -> PatchError {
    try_patched("v1", "Pod", original, patch).unwrap_err()
}

#[test]
fn maps_and_messages_are_merged_and_null_removes() {
    assert_eq!(
        pod(
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}}),
            json!({"metadata": {"labels": {"a": null, "c": "3"}, "annotations": {"x": "y", "z": null}}}),
        ),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}, "annotations": {"x": "y"}}, "spec": {"nodeName": "n"}})
    );
}

#[test]
fn a_keyed_list_is_merged_item_by_item_in_the_order_of_the_patch() {
    assert_eq!(
        pod(
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}),
            json!({"spec": {"containers": [{"name": "c", "image": "3"}, {"name": "b", "image": "2", "tty": null}]}}),
        ),
        json!({"spec": {"containers": [
            {"name": "c", "image": "3"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2"}
        ]}})
    );
}

#[test]
fn an_item_is_deleted_by_its_key() {
    assert_eq!(
        pod(
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
        ),
        json!({"spec": {"containers": [{"name": "b"}]}})
    );
}

#[test]
fn a_keyed_list_is_replaced_when_one_of_its_items_says_so() {
    assert_eq!(
        pod(
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}),
        ),
        json!({"spec": {"containers": [{"name": "c"}]}})
    );
}

#[test]
fn lists_inside_inlined_messages_have_their_strategies() {
    assert_eq!(
        pod(
            json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}}),
        ),
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})
    );
}

#[test]
fn an_atomic_list_is_replaced() {
    assert_eq!(
        pod(
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}]}}),
        ),
        json!({"spec": {"tolerations": [{"key": "b"}]}})
    );
}

#[test]
fn an_object_is_replaced_or_emptied_when_it_says_so() {
    let original = json!({"spec": {"securityContext": {"runAsUser": 1, "fsGroup": 2}}});
    assert_eq!(
        pod(original.clone(), json!({"spec": {"securityContext": {"$patch": "replace", "runAsUser": 3}}})),
        json!({"spec": {"securityContext": {"runAsUser": 3}}})
    );
    assert_eq!(
        pod(original, json!({"spec": {"securityContext": {"$patch": "delete"}}})),
        json!({"spec": {"securityContext": {}}})
    );
}

#[test]
fn directives_for_what_is_not_there_leave_nothing_behind() {
    assert_eq!(
        pod(
            json!({"spec": {}}),
            json!({"spec": {
                "securityContext": {"$patch": "delete"},
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}],
                "$deleteFromPrimitiveList/x": ["y"],
            }}),
        ),
        json!({"spec": {"containers": [{"name": "b"}]}})
    );
}

#[test]
fn values_are_merged_into_and_deleted_from_a_set() {
    let original = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    assert_eq!(
        pod(original.clone(), json!({"metadata": {"finalizers": ["d", "b"]}})),
        json!({"metadata": {"finalizers": ["d", "a", "b", "c"]}})
    );
    assert_eq!(
        pod(original, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}})),
        json!({"metadata": {"finalizers": ["a", "c"]}})
    );
}

#[test]
fn the_order_that_a_patch_asks_for_holds_and_the_rest_stays_where_it_was() {
    assert_eq!(
        pod(
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}}),
            json!({"spec": {
                "$setElementOrder/containers": [{"name": "d"}, {"name": "x"}, {"name": "b"}],
                "containers": [{"name": "x", "image": "i"}, {"name": "c", "$patch": "delete"}],
            }}),
        ),
        json!({"spec": {"containers": [{"name": "a"}, {"name": "d"}, {"name": "x", "image": "i"}, {"name": "b"}]}})
    );
    assert_eq!(
        pod(
            json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"]}}),
        ),
        json!({"metadata": {"finalizers": ["b", "c", "a"]}})
    );
}

#[test]
fn retain_keys_drops_what_it_does_not_name() {
    assert_eq!(
        try_patched(
            "apps/v1",
            "Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        ),
        Ok(json!({"spec": {"strategy": {"type": "Recreate"}}}))
    );
}

#[test]
fn fields_that_the_kind_does_not_have_are_merged_as_by_a_merge_patch() {
    assert_eq!(
        pod(
            json!({"extra": {"a": {"b": 1}, "list": [1, 2]}}),
            json!({"extra": {"a": {"c": 2}, "list": [3]}}),
        ),
        json!({"extra": {"a": {"b": 1, "c": 2}, "list": [3]}})
    );
}

#[test]
fn malformed_patches_are_refused_with_upstreams_words() {
    let containers = || json!({"spec": {"containers": [{"name": "a"}], "nodeName": "n"}});
    for (patch, status, text) in [
        (json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (json!({"spec": {"$patch": "keep"}}), 500, "unknown patch type: keep in map: map[$patch:keep]"),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({"spec": {"$retainKeys": ["x"], "hostname": "h"}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$retainKeys": {}}}), 400, "invalid patch format of retainKeys"),
        (json!({"spec": {"$deleteFromPrimitiveList": []}}), 400, "invalid patch format of primitive list"),
        (json!({"spec": {"$setElementOrder": []}}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"spec": {"$setElementOrder/containers": "a"}}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"spec": {"$setElementOrder/contain": []}}),
            500,
            "unable to find api field in struct PodSpec for the json field \"contain\"",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "c"}]}}),
            500,
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (json!({"spec": {"containers": [["a"]]}}), 422, "lists of lists are not supported"),
        (
            json!({"spec": {"containers": ["a"]}}),
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
    ] {
        let error = refused(containers(), patch.clone());
        assert_eq!((error.to_string().as_str(), error.status()), (text, status), "{patch}");
    }
}
