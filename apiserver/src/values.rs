//! How many values an object may have.
//!
//! A body of a few bytes for each value takes dozens of times its length once it is decoded, and a message in protobuf is
//! filled with defaults besides. So what bounds memory is the number of values, in whatever encoding they come.

use serde_json::Value;
use steersman_api::schema::count_values;

/// The most values (objects, lists, texts, numbers, booleans, nulls) that an object may have: several times as many as the
/// largest objects that upstream's etcd takes have in practice, and as many as the YAML reader takes by default.
pub(crate) const LIMIT: usize = 250_000;

/// Whether a text of JSON has more values than an object may have. Costs nothing for texts too short for that.
pub(crate) fn are_too_many_in(json: &[u8]) -> bool {
    // Each value takes a byte, and a comma or a bracket.
    json.len() / 2 >= LIMIT && count_values(json) > LIMIT
}

/// The number of values in a value, itself included.
pub(crate) fn of(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(of).sum(),
        Value::Object(members) => members.values().map(of).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_too_long_by_their_values_and_not_by_their_length() {
        let list = |items: usize| format!("[{}]", vec!["0"; items].join(","));
        for (text, expected) in [
            (list(LIMIT - 1), false),
            (list(LIMIT), true),
            (format!("[{}]", " ".repeat(4 * LIMIT)), false),
            (format!("\"{}\"", ",".repeat(4 * LIMIT)), false),
        ] {
            assert_eq!(are_too_many_in(text.as_bytes()), expected, "{}...", &text[..9]);
        }
    }

    #[test]
    fn every_value_counts_once() {
        assert_eq!(of(&serde_json::json!({"a": [1, {}], "b": "c"})), 5);
    }
}
