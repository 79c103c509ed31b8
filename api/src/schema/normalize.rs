//! Normalizes objects to the form in which upstream's API server returns them.

use serde_json::Value;

use super::decode::{to_json, to_json_within};
use super::encode::to_protobuf;
use super::error::TranscodeError;
use super::kind::Kind;

/// Returns the object in the form in which upstream's API server would return it, except that no defaults are filled
/// in.
///
/// Removes nulls, empty lists and zeros where the Go type omits them, and unknown fields. Writes quantities and times
/// in their canonical form. Sets `apiVersion` and `kind` to those of `kind`.
///
/// # Errors
/// Upstream could not decode the object either; for instance, a value has the wrong type.
pub fn normalize(kind: &Kind, object: &Value) -> Result<Value, TranscodeError> {
    to_json(kind, &to_protobuf(kind, object)?)
}

/// Like [`normalize`], for untrusted objects: fails if the result has more than `most` values; see [`to_json_within`].
///
/// # Errors
/// As [`normalize`], and [`TranscodeError::TooManyValues`].
pub fn normalize_within(kind: &Kind, object: &Value, most: usize) -> Result<Value, TranscodeError> {
    to_json_within(kind, &to_protobuf(kind, object)?, most)
}
