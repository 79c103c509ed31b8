//! Objects from the bytes that the store has of them.
//!
//! In these, as in what clients get, the fields of each entry of `managedFields` are objects; what the server works on has
//! them as text. So they are never read as the trees that they are, which would be most of the work.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The members of an object.
///
/// # Errors
/// The bytes are no JSON object whose metadata is one too.
pub(crate) fn read_members(json: &[u8]) -> serde_json::Result<Map<String, Value>> {
    Ok(serde_json::from_slice::<Folded<OfObject>>(json)?.members)
}

/// The members of metadata.
///
/// # Errors
/// The bytes are no JSON object.
pub(crate) fn read_metadata(json: &[u8]) -> serde_json::Result<Map<String, Value>> {
    Ok(serde_json::from_slice::<Folded<OfMetadata>>(json)?.members)
}

/// Sees that a text is JSON which can be read, without keeping anything of it.
///
/// # Errors
/// It is not.
pub(crate) fn check(json: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<Checked>(json).map(drop)
}

/// Any JSON value. Other than of what is skipped, its texts are looked into.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// A JSON object some members of which are read in a way of their own.
struct Folded<F> {
    members: Map<String, Value>,
    way: PhantomData<F>,
}

/// How the members of an object are read.
trait Way {
    fn read<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Value, A::Error>;
}

struct OfObject;
struct OfMetadata;
struct OfEntry;

impl Way for OfObject {
    fn read<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Value, A::Error> {
        match name {
            "metadata" => Ok(Value::Object(map.next_value::<Folded<OfMetadata>>()?.members)),
            _ => map.next_value(),
        }
    }
}

impl Way for OfMetadata {
    fn read<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Value, A::Error> {
        if name != "managedFields" {
            return map.next_value();
        }
        let text = map.next_value::<&RawValue>()?.get();
        match serde_json::from_str::<Vec<Folded<OfEntry>>>(text) {
            Ok(entries) => Ok(entries.into_iter().map(|entry| Value::Object(entry.members)).collect()),
            // No list of entries: it is what it is.
            Err(_) => plain(text),
        }
    }
}

impl Way for OfEntry {
    fn read<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Value, A::Error> {
        if name != "fieldsV1" {
            return map.next_value();
        }
        let text = map.next_value::<&RawValue>()?.get();
        if text.starts_with('{') { Ok(text.into()) } else { plain(text) }
    }
}

fn plain<E: serde::de::Error>(text: &str) -> Result<Value, E> {
    serde_json::from_str(text).map_err(E::custom)
}

impl<'de, F: Way> Deserialize<'de> for Folded<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<F>(PhantomData<F>);

impl<'de, F: Way> Visitor<'de> for Members<F> {
    type Value = Folded<F>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Folded<F>, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = F::read(&name, &mut map)?;
            members.insert(name, value);
        }
        Ok(Folded { members, way: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::codec;

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        for managed in [
            json!([{"manager": "a", "fieldsV1": "{\"f:metadata\":{\"f:labels\":{\".\":{}}}}"}, {"manager": "b"}]),
            json!([{"manager": "a", "fieldsV1": "no fields"}, {"fieldsV1": null}]),
            json!([]),
            json!("odd"),
            Value::Null,
        ] {
            let metadata = json!({"name": "a\"b", "managedFields": managed, "generation": 3});
            let object = json!({"metadata": metadata, "spec": {"metadata": {"managedFields": [1.5, null]}}});
            let bytes = codec::json_without_type(&object);
            assert_eq!(Value::Object(read_members(&bytes).unwrap()), object);
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for bytes in ["", "[]", "{\"metadata\":[]}", "{\"metadata\":{}", "{} {}"] {
            assert!(read_members(bytes.as_bytes()).is_err(), "{bytes}");
        }
    }

    #[test]
    fn what_is_checked_can_be_read() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for (json, good) in [
            (r#"{"a": [1, -2, 3.5, true, null, "\u00e4\n", {}], "": {}}"#.to_owned(), true),
            (r#"{"a": "\ud800"}"#.to_owned(), false),
            ("{\"a\": \"\n\"}".to_owned(), false),
            ("{\"a\": 1".to_owned(), false),
            (format!("{{\"a\":{}}}", deep(120)), true),
            (format!("{{\"a\":{}}}", deep(130)), false),
        ] {
            assert_eq!(check(json.as_bytes()).is_ok(), good, "{json}");
            assert_eq!(read_members(json.as_bytes()).is_ok(), good, "{json}");
        }
    }
}
