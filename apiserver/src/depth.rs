//! How deep objects are nested.
//!
//! Reading, changing and dropping a value goes down its nesting by recursion, here and in clients, whose readers mostly
//! stop at 128. So nothing comes in, and nothing is made by a patch, that would leave too little room for what wraps an
//! object: an event, a list, a table.

use serde_json::Value;

/// The deepest nesting that is taken: far deeper than any kind, or any schema of a custom resource, needs.
pub(crate) const LIMIT: usize = 120;

/// What those are told who nest deeper.
pub(crate) fn message() -> String {
    format!("exceeded max depth: at most {LIMIT} levels of nesting are accepted")
}

/// How many levels of arrays and objects a value has, counted up to one more than `LIMIT`.
pub(crate) fn of(value: &Value) -> usize {
    within(value, LIMIT + 1)
}

fn within(value: &Value, limit: usize) -> usize {
    if limit == 0 {
        return 0;
    }
    let below = |items: &mut dyn Iterator<Item = &Value>| {
        items.map(|item| within(item, limit - 1)).max().unwrap_or(0)
    };
    match value {
        Value::Array(items) => 1 + below(&mut items.iter()),
        Value::Object(members) => 1 + below(&mut members.values()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn levels_are_counted_as_far_as_it_matters() {
        assert_eq!(of(&json!(1)), 0);
        assert_eq!(of(&json!({})), 1);
        assert_eq!(of(&json!([{"a": [1]}, 2])), 3);
        let deep = (0..LIMIT + 5).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(of(&deep), LIMIT + 1);
    }
}
