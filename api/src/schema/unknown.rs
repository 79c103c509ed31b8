//! Finds and removes unknown fields of an object.

use serde_json::{Map, Value};

use super::kind::Kind;
use super::message::{Field, Message, Shape, Type};
use super::path::Path;
use super::table::table;

/// Returns the paths of all members that the kind does not have, such as `spec.containers[0].imagee`, in the object's
/// order.
///
/// Does not look into members of another type than their field, which [`super::to_protobuf`] refuses.
pub fn unknown_fields(kind: &Kind, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    look(Type::Message(kind.message), object, &Path::ROOT, &mut unknown);
    unknown
}

/// Removes the members that [`unknown_fields`] returns, and returns their paths.
pub fn prune_unknown_fields(kind: &Kind, object: &mut Value) -> Vec<String> {
    let unknown = unknown_fields(kind, object);
    if !unknown.is_empty() {
        prune(Type::Message(kind.message), object, 0);
    }
    unknown
}

/// Maximum depth of the search. The conversions refuse objects long before that.
const MAX_DEPTH: u16 = 256;

pub(super) fn is_type_meta(message: &Message, name: &str) -> bool {
    (name == "apiVersion" || name == "kind") && message.has_type_meta()
}

/// The type of the schemas within `JSONSchemaPropsOr...`.
pub(super) fn schema_props() -> Type {
    let props = table().message("apiextensions.v1.JSONSchemaProps");
    Type::Message(props.expect("the schema table must have JSONSchemaProps"))
}

/// The parts of a value in which unknown fields may be.
enum Part {
    Members(&'static Message),
    Items(Type),
    Nothing,
}

fn part(ty: Type, value: &Value) -> Part {
    match (ty, value) {
        (Type::Message(message), Value::Array(_)) if message.is_list() => {
            message.fields().first().map_or(Part::Nothing, |field| Part::Items(field.ty))
        }
        (Type::Message(message), Value::Object(_)) => Part::Members(message),
        (Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings, Value::Object(_)) => {
            match schema_props() {
                Type::Message(message) => Part::Members(message),
                _ => Part::Nothing,
            }
        }
        (Type::SchemaOrArray, Value::Array(_)) => Part::Items(schema_props()),
        _ => Part::Nothing,
    }
}

fn look(ty: Type, value: &Value, at: &Path<'_>, unknown: &mut Vec<String>) {
    if at.check_depth().is_err() {
        return;
    }
    match (part(ty, value), value) {
        (Part::Members(message), Value::Object(object)) => look_at_members(message, object, at, unknown),
        (Part::Items(ty), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                look(ty, item, &at.index(index), unknown);
            }
        }
        _ => {}
    }
}

fn look_at_members(
    message: &'static Message,
    object: &Map<String, Value>,
    at: &Path<'_>,
    unknown: &mut Vec<String>,
) {
    for (name, value) in object {
        let at = at.field(name);
        let Some(field) = message.field(name) else {
            if !is_type_meta(message, name) {
                unknown.push(at.to_string());
            }
            continue;
        };
        match (field.shape, value) {
            (Shape::Single, value) => look(field.ty, value, &at, unknown),
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    look(field.ty, item, &at.index(index), unknown);
                }
            }
            (Shape::Map, Value::Object(entries)) => {
                for (key, entry) in entries {
                    look(field.ty, entry, &at.field(key), unknown);
                }
            }
            _ => {}
        }
    }
}

fn prune(ty: Type, value: &mut Value, depth: u16) {
    if depth > MAX_DEPTH {
        return;
    }
    match (part(ty, value), value) {
        (Part::Members(message), Value::Object(object)) => {
            object.retain(|name, value| match message.field(name) {
                Some(field) => {
                    prune_field(field, value, depth + 1);
                    true
                }
                None => is_type_meta(message, name),
            });
        }
        (Part::Items(ty), Value::Array(items)) => {
            items.iter_mut().for_each(|item| prune(ty, item, depth + 1))
        }
        _ => {}
    }
}

fn prune_field(field: &Field, value: &mut Value, depth: u16) {
    match (field.shape, value) {
        (Shape::Single, value) => prune(field.ty, value, depth),
        (Shape::List, Value::Array(items)) => {
            items.iter_mut().for_each(|item| prune(field.ty, item, depth + 1))
        }
        (Shape::Map, Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| prune(field.ty, entry, depth + 1));
        }
        _ => {}
    }
}
