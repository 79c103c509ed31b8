//! Why a strategic merge patch was refused.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Why a strategic merge patch was refused. The patch is at fault, and trying it again is of no use; [`Self::status`]
/// says how the API server answers. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A patch, or what it shall patch, that is no object.
    #[error("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")]
    NotAnObject {
        /// Its JSON type.
        found: &'static str,
    },
    /// `$deleteFromPrimitiveList` without the name of a field.
    #[error("invalid patch format of primitive list")]
    PrimitiveListFormat,
    /// `$retainKeys` that is no list, or a member of the patch that it does not name.
    #[error("invalid patch format of retainKeys")]
    RetainKeysFormat,
    /// `$setElementOrder` without the name of a field.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrderFormat,
    /// The patch has its items in another order than its own `$setElementOrder`, or some that are missing there.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The patch's list.
        patch: String,
        /// The `$setElementOrder` list.
        order: String,
    },
    /// A list within a merged list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// Lists whose items have several types.
    #[error("list element types are not identical: {lists}")]
    MixedList {
        /// Both lists.
        lists: String,
    },
    /// Nothing to order.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// An item without the field that identifies it.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The field.
        key: String,
    },
    /// A list of objects that have no field to identify them.
    #[error("cannot merge lists without merge key for struct")]
    KeylessList,
    /// `$patch` that says nothing known.
    #[error("unknown patch type: {directive} in map: {object}")]
    UnknownDirective {
        /// What it says.
        directive: String,
        /// The object in which it stands.
        object: String,
    },
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A value of another type than the directive or field needs.
    #[error("expected a {expected}, but received a {found}")]
    WrongType {
        /// The Go type that is needed.
        expected: &'static str,
        /// The Go type that is there.
        found: &'static str,
    },
    /// `$setElementOrder` for a field that the message does not have.
    #[error("unable to find api field in struct {message} for the json field {field:?}")]
    UnknownField {
        /// The message.
        message: &'static str,
        /// The field.
        field: String,
    },
    /// A patch that reaches into values of which the schema does not know the parts.
    #[error("merging an object in json but data type is not struct, instead is: map")]
    NotAStruct,
    /// A list where the kind has none.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
}

impl PatchError {
    /// The HTTP status with which the API server answers.
    pub fn status(&self) -> u16 {
        match self {
            Self::NotAnObject { .. }
            | Self::PrimitiveListFormat
            | Self::RetainKeysFormat
            | Self::SetElementOrderFormat => 400,
            Self::ListOfLists => 422,
            _ => 500,
        }
    }

    pub(super) fn wrong_type(expected: &'static str, found: &Value) -> Self {
        Self::WrongType { expected, found: go_type(found) }
    }

    pub(super) fn no_merge_key(item: &Map<String, Value>, key: &str) -> Self {
        let mut text = String::new();
        go_object(item, &mut text);
        Self::NoMergeKey { item: text, key: key.to_owned() }
    }
}

/// Go's type of a list of anything.
pub(super) const LIST: &str = "[]interface {}";
/// Go's type of an object.
pub(super) const OBJECT: &str = "map[string]interface {}";

pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => LIST,
        Value::Object(_) => OBJECT,
    }
}

/// A value as Go's `%v` prints it.
pub(super) fn go_text(value: &Value) -> String {
    let mut out = String::new();
    go_value(value, &mut out);
    out
}

fn go_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                go_value(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => go_object(object, out),
        plain => write!(out, "{plain}").expect("a String must take what is written to it"),
    }
}

fn go_object(object: &Map<String, Value>, out: &mut String) {
    out.push_str("map[");
    for (index, (name, value)) in object.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(name);
        out.push(':');
        go_value(value, out);
    }
    out.push(']');
}
