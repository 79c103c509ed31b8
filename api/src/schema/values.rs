//! Counts the values in a text of JSON.

/// Counts the objects, lists, texts, numbers, booleans and nulls in a text of JSON. Counts all members of the same
/// name.
///
/// It bounds the memory that the parsed text would take, in one pass over the bytes and without allocations. For a text
/// that is not valid JSON, the count is no less than the number of values that a parser makes before it finds the
/// error.
pub fn count_values(json: &[u8]) -> usize {
    let (mut values, mut in_text, mut escaped, mut opened) = (1, false, false, false);
    for byte in json {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        // The first value in a list or an object follows the bracket; each further one follows a comma.
        if opened && !matches!(byte, b']' | b'}') {
            values += 1;
        }
        opened = matches!(byte, b'[' | b'{');
        match byte {
            b',' => values += 1,
            b'"' => in_text = true,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn values_of(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values_of).sum(),
            Value::Object(members) => members.values().map(values_of).sum(),
            _ => 0,
        }
    }

    #[test]
    fn values_are_counted_whatever_stands_in_texts_and_between_them() {
        for (text, expected) in [
            ("1", 1),
            ("[ ]", 1),
            ("{\n}", 1),
            ("[[], {}, [1]]", 5),
            (r#"{"a,[": "b\",[\\", "c": [",", true, null]}"#, 6),
            (r#"{"a": 1, "a": 2}"#, 3),
            ("[1,", 3),
        ] {
            assert_eq!(count_values(text.as_bytes()), expected, "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\,:\\[\\]{} ]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a\"\\\\,\\[{]{0,3}", inner, 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_parsed_value(value in json()) {
            prop_assert_eq!(count_values(value.to_string().as_bytes()), values_of(&value));
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(count_values(pretty.as_bytes()), values_of(&value));
        }
    }
}
