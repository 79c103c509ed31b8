//! Strict decoding: finds unknown and duplicate fields in a text of JSON.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::kind::Kind;
use super::message::{Field, Message, Shape, Type};
use super::path::Path;
use super::unknown::{is_type_meta, schema_props};

/// Maximum number of errors that are returned. From upstream.
const MOST: usize = 100;

/// Returns upstream's messages, such as `unknown field "spec.imagee"` and `duplicate field "metadata.name"`, in the
/// order of the text, each once.
///
/// Without a kind, no field counts as unknown. If the text is not valid JSON, returns the messages up to the syntax
/// error.
pub fn strict_errors(kind: Option<&Kind>, json: &[u8]) -> Vec<String> {
    let found = RefCell::default();
    let sight = kind.map_or(Sight::Anything, |kind| Sight::Value(Type::Message(kind.message)));
    let mut reader = serde_json::Deserializer::from_slice(json);
    let _ = Walk { sight, at: &Path::ROOT, found: &found }.deserialize(&mut reader);
    found.into_inner().in_order
}

/// Whether the JSON from which `value` was parsed has duplicate members, of which a parser keeps only the last.
pub fn has_duplicates(value: &Value, json: &[u8]) -> bool {
    members_of(value) != colons_of(json)
}

fn members_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members_of).sum(),
        Value::Object(members) => members.values().map(|member| 1 + members_of(member)).sum(),
        _ => 0,
    }
}

/// Counts the colons outside of texts: one for each member.
fn colons_of(json: &[u8]) -> usize {
    let (mut colons, mut in_text, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b':' if !in_text => colons += 1,
            _ => {}
        }
    }
    colons
}

#[derive(Default)]
struct Found {
    in_order: Vec<String>,
    seen: HashSet<String>,
}

impl Found {
    fn note(&mut self, what: &str, at: &Path<'_>) {
        let error = format!("{what} field {:?}", at.to_string());
        if self.in_order.len() < MOST && self.seen.insert(error.clone()) {
            self.in_order.push(error);
        }
    }
}

/// The schema of a value that is about to be read.
#[derive(Clone, Copy)]
enum Sight {
    /// Unknown: an object may have any members.
    Anything,
    /// One value of this type.
    Value(Type),
    /// The value of this field: one value, a list or a map.
    Field(&'static Field),
    /// Not checked, not even for duplicates.
    Opaque,
}

/// The schema of what an object holds: fields of a message, or values that all have the same schema.
enum Within {
    Members(&'static Message),
    Each(Sight),
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    sight: Sight,
    at: &'a Path<'a>,
    found: &'a RefCell<Found>,
}

impl Walk<'_> {
    fn in_list(&self) -> Sight {
        match self.sight {
            Sight::Anything => Sight::Anything,
            Sight::Field(&Field { shape: Shape::List, ty, .. }) => Sight::Value(ty),
            Sight::Field(&Field { shape: Shape::Single, ty, .. }) | Sight::Value(ty) => match ty {
                Type::Message(message) if message.is_list() => {
                    message.fields().first().map_or(Sight::Opaque, |field| Sight::Value(field.ty))
                }
                Type::SchemaOrArray => Sight::Value(schema_props()),
                _ => Sight::Opaque,
            },
            _ => Sight::Opaque,
        }
    }

    fn in_object(&self) -> Within {
        match self.sight {
            Sight::Anything => Within::Each(Sight::Anything),
            Sight::Field(&Field { shape: Shape::Map, ty, .. }) => Within::Each(Sight::Value(ty)),
            Sight::Field(&Field { shape: Shape::Single, ty, .. }) | Sight::Value(ty) => match ty {
                Type::Message(message) if !message.is_list() => Within::Members(message),
                Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => match schema_props() {
                    Type::Message(message) => Within::Members(message),
                    _ => Within::Each(Sight::Opaque),
                },
                _ => Within::Each(Sight::Opaque),
            },
            _ => Within::Each(Sight::Opaque),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.sight {
            Sight::Opaque => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

macro_rules! nothing_within {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<(), E> {
            Ok(())
        })*
    };
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    nothing_within! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let sight = self.in_list();
        let mut index = 0;
        loop {
            let at = self.at.index(index);
            at.check_depth().map_err(A::Error::custom)?;
            if items.next_element_seed(Walk { sight, at: &at, found: self.found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let within = self.in_object();
        let opaque = matches!(within, Within::Each(Sight::Opaque));
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let at = self.at.field(&name);
            at.check_depth().map_err(A::Error::custom)?;
            let sight = match within {
                Within::Each(sight) => sight,
                Within::Members(message) => match message.field(&name) {
                    Some(field) => Sight::Field(field),
                    None if is_type_meta(message, &name) => Sight::Opaque,
                    None => {
                        self.found.borrow_mut().note("unknown", &at);
                        members.next_value::<IgnoredAny>()?;
                        continue;
                    }
                },
            };
            if !opaque && !seen.insert(name.clone()) {
                self.found.borrow_mut().note("duplicate", &at);
            }
            members.next_value_seed(Walk { sight, at: &at, found: self.found })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use serde_json::json;

    #[test]
    fn what_is_unknown_or_twice_is_found_in_the_order_of_the_text() {
        let pod = schema::table().kind("", "v1", "Pod").unwrap();
        let text = r#"{"kind": "Pod", "b": {"c": 1, "c": 2}, "metadata": {"labels": {"a": "1", "a": "2"}, "name": "x"},
            "spec": {"containers": [{"name": "c", "name": "d", "x": 1, "env": [{"y": 1}]}, {"x": 1}]}, "b": 1, "kind": "Pod"}"#;
        let expected = [
            "unknown field \"b\"",
            "duplicate field \"metadata.labels.a\"",
            "duplicate field \"spec.containers[0].name\"",
            "unknown field \"spec.containers[0].x\"",
            "unknown field \"spec.containers[0].env[0].y\"",
            "unknown field \"spec.containers[1].x\"",
            "duplicate field \"kind\"",
        ];
        assert_eq!(strict_errors(Some(pod), text.as_bytes()), expected);
    }

    #[test]
    fn without_a_kind_only_what_is_there_twice_is_found() {
        let text = br#"{"a": [{"b": 1, "b": 2}], "c": {"d": {}, "d": 1}}"#;
        assert_eq!(strict_errors(None, text), ["duplicate field \"a[0].b\"", "duplicate field \"c.d\""]);
        assert!(strict_errors(None, br#"{"a": {"a": 1}}"#).is_empty());
    }

    #[test]
    fn a_value_shows_whether_its_text_had_more() {
        for (text, expected) in [
            (r#"{"a": 1, "a": 2}"#, true),
            (r#"{"a": 1, "b": {"a": ":\":", "c\\": []}}"#, false),
            (r#"[{"a": {"b": 1}, "a": 1}]"#, true),
            ("[]", false),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(has_duplicates(&value, text.as_bytes()), expected, "{text}");
        }
        assert!(!has_duplicates(&json!("a:b"), b"\"a:b\""));
    }

    #[test]
    fn no_more_is_told_than_anybody_reads() {
        let members: Vec<String> = (0..500).map(|at| format!("\"a{at}\": 1")).collect();
        let text = format!("{{{}}}", members.join(","));
        let pod = schema::table().kind("", "v1", "Pod").unwrap();
        assert_eq!(strict_errors(Some(pod), text.as_bytes()).len(), MOST);
    }
}
