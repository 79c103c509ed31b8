//! Errors of strategic merge patches.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The error for an invalid strategic merge patch. The caller should not retry; [`Self::status`] is the HTTP status of
/// the API server's answer. The messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch, or the value that it applies to, is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")]
    NotAnObject {
        /// The value's JSON type.
        found: &'static str,
    },
    /// `$deleteFromPrimitiveList` without the name of a field.
    #[error("invalid patch format of primitive list")]
    PrimitiveListFormat,
    /// `$retainKeys` is not a list, or the patch has a member that it does not name.
    #[error("invalid patch format of retainKeys")]
    RetainKeysFormat,
    /// `$setElementOrder` without the name of a field.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrderFormat,
    /// The items of the patch are in another order than in its `$setElementOrder`, or some are missing there.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The patch's list.
        patch: String,
        /// The `$setElementOrder` list.
        order: String,
    },
    /// A merged list has a list as its item.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The items of the lists have several types.
    #[error("list element types are not identical: {lists}")]
    MixedList {
        /// Both lists.
        lists: String,
    },
    /// The lists have no items to order.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// An item lacks the field that identifies it.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The field.
        key: String,
    },
    /// The kind has no field that identifies the objects of this list.
    #[error("cannot merge lists without merge key for struct")]
    KeylessList,
    /// `$patch` has an unknown value.
    #[error("unknown patch type: {directive} in map: {object}")]
    UnknownDirective {
        /// The value of `$patch`.
        directive: String,
        /// The object that has the directive.
        object: String,
    },
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A value has another type than the directive or field needs.
    #[error("expected a {expected}, but received a {found}")]
    WrongType {
        /// The expected Go type.
        expected: &'static str,
        /// The Go type of the value.
        found: &'static str,
    },
    /// `$setElementOrder` names a field that the message does not have.
    #[error("unable to find api field in struct {message} for the json field {field:?}")]
    UnknownField {
        /// The message.
        message: &'static str,
        /// The field.
        field: String,
    },
    /// The patch merges into a value whose parts the schema does not describe.
    #[error("merging an object in json but data type is not struct, instead is: map")]
    NotAStruct,
    /// The patch has a list for a field that is not a list.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
}

impl PatchError {
    /// The HTTP status of the API server's answer.
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

/// The Go type of a list of values of any type.
pub(super) const LIST: &str = "[]interface {}";
/// The Go type of an object.
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

/// Formats a value as Go's `%v` does.
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
