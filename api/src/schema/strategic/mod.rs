//! Strategic merge patches: merge patches that merge lists too, where the schema names a key of the items.
//!
//! A patch may have these directives: `$patch: replace|delete` in an object or in an item of a merged list,
//! `$retainKeys: [..]` in an object, and `$deleteFromPrimitiveList/FIELD: [..]` and `$setElementOrder/FIELD: [..]`
//! beside the list `FIELD`.

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

/// Applies a strategic merge patch to an object of a built-in kind. (For custom resources, the API server answers 415.)
///
/// Merges fields that the kind does not have as a merge patch would. Validates only the patch itself: the result may
/// have unknown fields, nulls (in values that the patch adds or replaces as a whole) and values of the wrong type. Call
/// [`super::normalize`] next, which removes or refuses those.
///
/// # Errors
/// The patch is malformed, or does not fit the kind. `original` may then be partly patched, and the caller must drop
/// it.
pub fn strategic_merge(kind: &Kind, original: &mut Value, patch: Value) -> Result<(), PatchError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            object::merge(original, patch, Scope::Message(kind.message))
        }
        (Value::Object(_), other) => Err(PatchError::NotAnObject { found: json_type(&other) }),
        (other, _) => Err(PatchError::NotAnObject { found: json_type(other) }),
    }
}

/// Removes the items and members that are directives from a value of a patch. Returns `None` if the value is a
/// directive itself.
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
