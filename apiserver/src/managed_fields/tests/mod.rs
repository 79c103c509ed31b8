//! Tables and properties of field management. How the real server answers is in `tests/managed_fields.rs`.

mod algebra;
mod applying;
mod properties;

use serde_json::{Value, json};
use steersman_api::schema;

use super::*;

/// A subject of a kind without other versions.
struct Fixture {
    api_version: &'static str,
    kind: &'static str,
    ty: Type<'static>,
    empty: Value,
}

struct NoOthers;

impl Views for NoOthers {
    fn view<'v>(&'v self, _: &str, _: &Value) -> Option<View<'v>> {
        None
    }
}

impl Fixture {
    fn of(api_version: &'static str, kind: &'static str) -> Self {
        let of = schema::table().kind_of(api_version, kind).unwrap();
        let empty = schema::normalize(of, &json!({})).unwrap();
        Self { api_version, kind, ty: Type::Kind(of), empty }
    }

    fn custom(schema: Value) -> Self {
        let empty = json!({"apiVersion": "example.com/v1", "kind": "Foo"});
        let ty = Type::Custom(if schema.is_null() { None } else { Some(Box::leak(Box::new(schema))) });
        Self { api_version: "example.com/v1", kind: "Foo", ty, empty }
    }

    fn at(&self, now: &str) -> Subject<'_> {
        Subject {
            api_version: self.api_version,
            kind: self.kind,
            subresource: "",
            ty: self.ty,
            empty: &self.empty,
            reset: Reset::default(),
            now: now.to_owned(),
            others: &NoOthers,
        }
    }

    /// An object of the kind, as a configuration has it.
    fn object(&self, rest: Value) -> Value {
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    }
}

/// As if stored: whatever has a uid exists.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = "1".into();
    object
}

/// Manager, operation and fields of each entry.
fn entries(object: &Value) -> Vec<(String, String, Value)> {
    let mut list = object["metadata"]["managedFields"].clone();
    expand(&mut list);
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let entries = list.as_array().cloned().unwrap_or_default();
    entries
        .iter()
        .map(|entry| (text(entry, "manager"), text(entry, "operation"), entry["fieldsV1"].clone()))
        .collect()
}

fn times(object: &Value) -> Vec<String> {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    list.iter().map(|entry| entry["time"].as_str().unwrap_or_default().to_owned()).collect()
}
