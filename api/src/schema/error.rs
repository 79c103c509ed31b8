//! Why an object could not be transcoded.

use serde_json::Value;

use crate::wire::WireError;

/// Why an object could not be transcoded. Trying again is of no use: the object is at fault, and the path says where;
/// an empty path is the object itself. A server answers 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscodeError {
    /// No built-in kind, or an object that does not say which it is.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// What the object says.
        api_version: String,
        /// What the object says.
        kind: String,
    },
    /// Bytes that are not the message they should be.
    #[error("{path}: {source}")]
    Wire {
        /// The message.
        path: String,
        /// What is wrong with it.
        source: WireError,
    },
    /// A JSON value of another type than the field's.
    #[error("{path}: cannot unmarshal {found} into a field of type {expected}")]
    Type {
        /// The field.
        path: String,
        /// The type of the field.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// A value of the right type that means nothing there.
    #[error("{path}: {reason}")]
    Value {
        /// The field.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nested deeper than any object in earnest.
    #[error("{path}: exceeded max depth")]
    TooDeep {
        /// The first value that lies too deep.
        path: String,
    },
    /// More values than the caller allows, those counted that defaults would add. A server answers 413.
    #[error("{path}: too many values")]
    TooManyValues {
        /// The first value too many.
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

/// As encoding/json calls it.
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
