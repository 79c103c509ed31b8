//! Strategic merge patches: merge patches that know which lists to merge, and by which key.
//!
//! Directives within a patch: `$patch: replace|delete` in an object, and `delete|replace` in an item of a merged list;
//! `$retainKeys: [..]` in an object; `$deleteFromPrimitiveList/FIELD: [..]` and `$setElementOrder/FIELD: [..]` beside a
//! list.

mod error;
mod list;
mod object;
mod scope;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use error::PatchError;

use super::error::json_type;
use super::kind::Kind;
use scope::Scope;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch, as the API server does to objects of built-in kinds. (It refuses such patches of
/// custom resources with 415.)
///
/// Where the kind does not know a field, its value is merged as by a merge patch. Nothing is checked but the patch's form:
/// the result may have unknown fields, nulls (within what a patch replaces or adds as a whole) or values of the wrong
/// type, which [`super::normalize`] removes or refuses.
///
/// # Errors
/// A patch that is malformed, or does not fit the kind. `original` may then be half patched and must be dropped.
pub fn strategic_merge(kind: &Kind, original: &mut Value, patch: Value) -> Result<(), PatchError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            object::merge(original, patch, Scope::Message(kind.message))
        }
        (Value::Object(_), other) => Err(PatchError::NotAnObject { found: json_type(&other) }),
        (other, _) => Err(PatchError::NotAnObject { found: json_type(other) }),
    }
}

/// What remains of a value that is taken over from a patch: items and members that are directives are dropped. None if
/// it is a directive itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => {
            let kept =
                object.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// Removes members that are null, at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}
