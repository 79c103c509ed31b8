//! Strategic merge patches of JSON objects. Pure.

use serde_json::{Map, Value, json};

/// Lists whose items are merged by a member of theirs: the name of the list, wherever it occurs, and that of the member.
pub(crate) type Merged<'a> = &'a [(&'a str, &'a str)];

/// The patch that turns `old` into `new`.
pub(crate) fn diff(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    merged: Merged<'_>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in new {
        let merge_key = merged.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
        match (old.get(name), value) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                let changes = diff(before, after, merged);
                if !changes.is_empty() {
                    patch.insert(name.clone(), changes.into());
                }
            }
            (Some(Value::Array(before)), Value::Array(after)) if merge_key.is_some() => {
                let key = merge_key.unwrap_or_default();
                if let Some((changes, order)) = diff_list(before, after, key, merged) {
                    if !changes.is_empty() {
                        patch.insert(name.clone(), changes.into());
                    }
                    patch.insert(format!("$setElementOrder/{name}"), order.into());
                }
            }
            _ => _ = patch.insert(name.clone(), value.clone()),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch
}

/// What changes in a list whose items have a key: the changed and added in their new order, then the deleted by their
/// keys; and the new order. `None` if nothing changes.
fn diff_list(
    old: &[Value],
    new: &[Value],
    key: &str,
    merged: Merged<'_>,
) -> Option<(Vec<Value>, Vec<Value>)> {
    let keys = |items: &[Value]| items.iter().map(|item| item[key].clone()).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for item in new {
        match (old.iter().find(|old| old[key] == item[key]), item) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let mut change = diff(before, after, merged);
                if !change.is_empty() {
                    change.insert(key.to_owned(), item[key].clone());
                    changes.push(Value::Object(change));
                }
            }
            _ => changes.push(item.clone()),
        }
    }
    let mut gone: Vec<_> =
        keys(old).into_iter().filter(|gone| !new.iter().any(|item| item[key] == *gone)).collect();
    gone.sort_by_key(Value::to_string);
    changes.extend(gone.into_iter().map(|gone| json!({ "$patch": "delete", key: gone })));
    if changes.is_empty() && keys(old) == keys(new) {
        return None;
    }
    Some((changes, keys(new).into_iter().map(|value| json!({ key: value })).collect()))
}
