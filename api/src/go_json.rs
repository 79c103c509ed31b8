//! JSON in the form in which Go writes a map: sorted, compact, with some more characters escaped.

use std::fmt::Write;

use serde_json::Value;

/// Writes a value as Go's `json.Marshal` writes raw JSON: compact, with `<`, `>`, `&`, U+2028 and U+2029 escaped. Members are
/// sorted by the bytes of their names, as in all JSON that Go writes from a map.
pub fn marshal(value: &Value) -> String {
    let mut out = String::new();
    write(value, Numbers::AsTheyAre, &mut out);
    out
}

/// Writes a value as Go's `json.Marshal` writes what `json.Unmarshal` has read into an `interface{}`: like [`marshal`], but with
/// all numbers as 64-bit floating point, so that whole numbers beyond 2^53 are rounded.
pub fn marshal_untyped(value: &Value) -> String {
    let mut out = String::new();
    write(value, Numbers::Rounded, &mut out);
    out
}

#[derive(Clone, Copy)]
enum Numbers {
    AsTheyAre,
    /// To 64-bit floating point.
    Rounded,
}

fn write(value: &Value, numbers: Numbers, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            let written = match numbers {
                Numbers::AsTheyAre => write!(out, "{number}"),
                // The standard library writes the shortest digits that tell the number from others, as Go does for numbers
                // below 1e21.
                Numbers::Rounded => write!(out, "{}", number.as_f64().unwrap_or_default()),
            };
            written.expect("writing to a text must succeed");
        }
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, numbers, out);
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
                write(member, numbers, out);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_escaped_sorted_and_rounded_as_in_go() {
        let value = json!({
            "b": "<b> & \u{2028}\u{2029}\"\\\u{1}\u{8}\u{c}\n\r\t\u{7f}ü😀", "a": [1, null, true, {}, []], "B": 0,
            "big": 9_007_199_254_740_993_i64, "negative": -1, "fraction": 0.5,
        });
        let expected = concat!(
            r#"{"B":0,"a":[1,null,true,{},[]],"b":"\u003cb\u003e \u0026 \u2028\u2029\"\\\u0001\b\f\n\r\t"#,
            "\u{7f}ü😀",
            r#"","big":9007199254740993,"fraction":0.5,"negative":-1}"#,
        );
        assert_eq!(marshal(&value), expected);
        assert_eq!(marshal_untyped(&value), expected.replace("740993", "740992"));
        assert_eq!(marshal_untyped(&json!(i64::MAX)), "9223372036854776000");
    }
}
