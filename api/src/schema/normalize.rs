//! The form in which upstream would give an object back.

use serde_json::Value;

use super::decode::{to_json, to_json_within};
use super::encode::to_protobuf;
use super::error::TranscodeError;
use super::kind::Kind;

/// The object as upstream's server would give it back after it was stored, defaulting apart: without nulls, empty lists
/// and zeros where the Go type omits them, with quantities and times in canonical form, without unknown fields, with
/// `apiVersion` and `kind` of the kind.
///
/// # Errors
/// Values of the wrong type, and so on: what upstream could not decode.
pub fn normalize(kind: &Kind, object: &Value) -> Result<Value, TranscodeError> {
    to_json(kind, &to_protobuf(kind, object)?)
}

/// As [`normalize`], for objects of strangers: nothing of more than `most` values is made, see [`to_json_within`].
///
/// # Errors
/// As [`normalize`], and [`TranscodeError::TooManyValues`].
pub fn normalize_within(kind: &Kind, object: &Value, most: usize) -> Result<Value, TranscodeError> {
    to_json_within(kind, &to_protobuf(kind, object)?, most)
}
