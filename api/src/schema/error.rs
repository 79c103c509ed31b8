//! Errors of conversions between JSON and protobuf.

use serde_json::Value;

use crate::wire::WireError;

/// The error for an object that can't be converted between JSON and protobuf.
///
/// The object is invalid, so the caller should not retry; a server answers 400. `path` is the place of the error within
/// the object, and empty for the object itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscodeError {
    /// The kind is not built in, or the object lacks `apiVersion` or `kind`.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The object's own value; empty if it is missing.
        api_version: String,
        /// The object's own value; empty if it is missing.
        kind: String,
    },
    /// The bytes are not a valid message.
    #[error("{path}: {source}")]
    Wire {
        /// The path of the message.
        path: String,
        /// The cause.
        source: WireError,
    },
    /// A JSON value has another type than its field.
    #[error("{path}: cannot unmarshal {found} into a field of type {expected}")]
    Type {
        /// The path of the field.
        path: String,
        /// The Go type of the field.
        expected: &'static str,
        /// The JSON type of the value, as Go's `encoding/json` calls it.
        found: &'static str,
    },
    /// A value of the right type is not valid, such as a text that is not a quantity.
    #[error("{path}: {reason}")]
    Value {
        /// The path of the field.
        path: String,
        /// The cause.
        reason: String,
    },
    /// The object is nested more deeply than the limit of 127 levels.
    #[error("{path}: exceeded max depth")]
    TooDeep {
        /// The path of the first value below the limit.
        path: String,
    },
    /// The object has more values than the caller allows, members that JSON adds included. A server answers 413.
    #[error("{path}: too many values")]
    TooManyValues {
        /// The path of the first value beyond the limit.
        path: String,
    },
}

impl TranscodeError {
    pub(super) fn wire(path: impl std::fmt::Display) -> impl Fn(WireError) -> Self {
        move |source| Self::Wire { path: path.to_string(), source }
    }

    pub(super) fn expected(path: impl std::fmt::Display, expected: &'static str, found: &Value) -> Self {
        Self::Type { path: path.to_string(), expected, found: json_type(found) }
    }

    pub(super) fn value(path: impl std::fmt::Display, reason: impl std::fmt::Display) -> Self {
        Self::Value { path: path.to_string(), reason: reason.to_string() }
    }
}

/// The name of a value's JSON type in Go's `encoding/json`.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
