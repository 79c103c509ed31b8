//! Computes JSON merge patches (RFC 7386). The crate `json-patch`, which applies them, can't compute them.

use serde_json::{Map, Value};

/// Returns the merge patch that turns `was` into `is`, or `None` if they are equal.
///
/// The patch has only what differs: members that `is` lacks become `null`, lists are replaced as a whole. A merge patch
/// can't set a member to `null`, so a `null` within an object of `is` has the effect of a missing member.
pub fn diff(was: &Value, is: &Value) -> Option<Value> {
    match (was, is) {
        _ if was == is => None,
        (Value::Object(was), Value::Object(is)) => Some(diff_members(was, is).into()),
        _ => Some(is.clone()),
    }
}

fn diff_members(was: &Map<String, Value>, is: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in is {
        let change = was.get(name).map_or_else(|| Some(value.clone()), |old| diff(old, value));
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let removed = was.keys().filter(|name| !is.contains_key(*name));
    patch.extend(removed.map(|name| (name.clone(), Value::Null)));
    patch
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_what_differs_and_nothing_else() {
        for (was, is, expected) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1, "b": 1}), json!({"a": 2, "b": 1}), Some(json!({"a": 2}))),
            (json!({"a": 1}), json!({"b": {}}), Some(json!({"a": null, "b": {}}))),
            (json!({"a": {"b": 1, "c": 1}}), json!({"a": {"c": 1}}), Some(json!({"a": {"b": null}}))),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (json!({"a": {"b": 1}}), json!({"a": 1}), Some(json!({"a": 1}))),
            (json!({}), json!(1), Some(json!(1))),
        ] {
            assert_eq!(diff(&was, &is), expected, "{was} to {is}");
        }
    }

    /// JSON without `null`, with so few names and leaves that two values often have some in common.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_i64).prop_map(Value::from)];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_that_is_applied_gives_the_new_value(was in any_json(), is in any_json()) {
            let mut patched = was.clone();
            if let Some(patch) = diff(&was, &is) {
                json_patch::merge(&mut patched, &patch);
            }
            prop_assert_eq!(patched, is);
        }
    }
}
