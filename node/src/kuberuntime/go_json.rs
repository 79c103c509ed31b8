//! JSON as Go writes it, for what is compared byte for byte.

use serde::Serialize;

/// `value` as Go's `json.Marshal` writes a value with the same members in the same order: inside strings, `<`, `>`, `&`
/// and the two line separators of Unicode are escaped.
///
/// # Panics
/// Where `value` cannot be JSON: a map whose keys are no strings, or a serializer that fails by itself.
pub fn to_string(value: &impl Serialize) -> String {
    let plain = serde_json::to_string(value).expect("a value of plain members must serialize");
    let mut escaped = String::with_capacity(plain.len());
    // Outside strings JSON has none of these characters.
    for c in plain.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        assert_eq!(to_string(&"<a>&\u{2028}\u{2029}"), r#""\u003ca\u003e\u0026\u2028\u2029""#);
        assert_eq!(
            to_string(&"\u{8}\u{c}\n\r\t\u{1}\u{7f}\"\\é"),
            "\"\\b\\f\\n\\r\\t\\u0001\u{7f}\\\"\\\\é\""
        );
    }
}
