//! How much there is to a value.

use serde_json::Value;

/// How heavy an object may become. Upstream's etcd takes requests of 1.5 MiB in protobuf; as JSON, bytes are texts that are
/// a third longer, so nothing that etcd takes for its bytes is refused here.
pub(crate) const LIMIT: usize = 2 * 1024 * 1024;

/// About how many bytes a value takes as JSON: texts as they are, before anything in them is escaped.
pub(crate) fn of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + of(item)).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| 4 + name.len() + of(value)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_weighs_about_what_its_json_does() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}, "generation": 12},
            "spec": {"args": vec!["--flag=value"; 20], "ready": true, "nothing": null},
        });
        let (weight, length) = (of(&object), object.to_string().len());
        assert!(weight.abs_diff(length) < length / 10, "{weight} for {length} bytes");
    }
}
