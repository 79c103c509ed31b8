//! Reading and changing objects in their JSON form.

use serde_json::{Map, Value, json};
use steersman_api::condition;

/// What is at a path of member names (`spec.nodeName`), as text; empty if nothing is.
pub(crate) fn text_at(object: &Value, path: &str) -> String {
    match at(object, path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// What is at a path of member names.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, member| value.get(member))
}

/// The text at a path of member names, if there is one.
pub(crate) fn str_at<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The number at a path of member names, if there is one.
pub(crate) fn int_at(object: &Value, path: &str) -> Option<i64> {
    at(object, path)?.as_i64()
}

/// Whether there is `true` at a path of member names.
pub(crate) fn is_true(object: &Value, path: &str) -> bool {
    at(object, path) == Some(&Value::Bool(true))
}

/// The list at a path of member names; empty if there is none.
pub(crate) fn list_at<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The members of `object`, which becomes an object if it was none.
pub(crate) fn members(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("the value must be an object: it was just made one")
}

/// The members of the object at a path of member names; objects are made where there are none.
pub(crate) fn members_at<'a>(object: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    let inner =
        path.split('.').fold(object, |value, member| members(value).entry(member).or_insert(Value::Null));
    members(inner)
}

/// `metadata`, to be changed.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    members_at(object, "metadata")
}

/// Sets a member that is absent or null.
pub(crate) fn default_to(members: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if members.get(name).is_none_or(Value::is_null) {
        members.insert(name.to_owned(), value.into());
    }
}

/// Sets a text member that is absent, null or empty: Go can't tell these apart.
pub(crate) fn default_text(members: &mut Map<String, Value>, name: &str, value: &str) {
    let absent = match members.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    };
    if absent {
        members.insert(name.to_owned(), value.into());
    }
}

/// Sets a member to what `from` has, or removes it.
pub(crate) fn carry_over(to: &mut Value, from: &Value, name: &str) {
    match from.get(name) {
        Some(value) => {
            members(to).insert(name.to_owned(), value.clone());
        }
        None => {
            members(to).remove(name);
        }
    }
}

/// Sets a condition in a status. The condition keeps the transition time of the one that it replaces, unless the status
/// changes: see [`condition::set`].
pub(crate) fn set_condition(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        condition::set(conditions, condition);
    }
}

/// Whether two values mean the same to Go: absent, null, empty texts, lists and objects are alike.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.values().all(empty),
            Value::String(text) => text.is_empty(),
            _ => false,
        }
    }
    match (a, b) {
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => empty(one),
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys()).all(|name| same(a.get(name), b.get(name)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(a), Some(b)) => a == b || (empty(a) && empty(b)),
    }
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list_at(object, "metadata.finalizers").iter().filter_map(Value::as_str)
}
