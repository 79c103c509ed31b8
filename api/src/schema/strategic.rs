//! Strategic merge patches.

use serde_json::Value;

use super::kind::Kind;

/// Why a patch was refused. The patch is at fault: a server answers 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A patch, or what it shall patch, that is no object.
    #[error("cannot unmarshal {found} into an object")]
    NotAnObject {
        /// Its JSON type.
        found: &'static str,
    },
}

/// Applies a strategic merge patch.
///
/// # Errors
/// A patch that can't be applied; `original` is then as it was.
pub fn strategic_merge(_kind: &Kind, original: &mut Value, patch: Value) -> Result<(), PatchError> {
    if !patch.is_object() {
        return Err(PatchError::NotAnObject { found: super::error::json_type(&patch) });
    }
    merge(original, patch);
    Ok(())
}

fn merge(original: &mut Value, patch: Value) {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    original.remove(&name);
                } else {
                    merge(original.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (original, patch) => *original = patch,
    }
}
