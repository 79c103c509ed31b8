//! JSON in the form in which Go writes a map: sorted, compact, with some more characters escaped.

use std::fmt::Write;

use serde_json::Value;

/// Writes a value as Go's `json.Marshal` writes what `json.Unmarshal` read into an `interface{}`: members sorted by the bytes of
/// their names, `<`, `>`, `&`, U+2028 and U+2029 escaped, and numbers as 64-bit floating point, so that whole numbers beyond
/// 2^53 are rounded.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            // No number of a template has a fraction, and none is as large as those that Go writes with an exponent. The
            // standard library writes the shortest digits that tell the number from others, as Go does.
            let number = number.as_f64().unwrap_or_default();
            write!(out, "{number}").expect("writing to a text must succeed");
        }
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            // The map is sorted by bytes.
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(letter)).expect("writing to a text must succeed");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
