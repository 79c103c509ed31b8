//! Patches.

use serde_json::Value;
use steersman_api::schema::{self, Kind};

use crate::refusal::{Refusal, Result};

/// The kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Upstream's own: lists are merged by key.
    Strategic,
}

/// More operations than this are refused. From upstream.
const OPERATIONS_LIMIT: usize = 10_000;

/// A patch that was read.
pub(crate) enum Patch {
    /// Operations in order.
    Json(json_patch::Patch),
    /// What to change, null for what to remove.
    Merge(Value),
    /// What to change, with directives.
    Strategic(Value),
}

impl Patch {
    /// From a body.
    pub(crate) fn parse(patch_type: PatchType, body: &[u8]) -> Result<Self> {
        let bad = |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
        match patch_type {
            PatchType::Json => {
                let operations: Vec<Value> = serde_json::from_slice(body).map_err(bad)?;
                // Operations that nobody knows are refused when they are applied, as upstream.
                let patch: json_patch::Patch =
                    serde_json::from_value(Value::Array(operations)).map_err(|_| Refusal::patch_fails())?;
                if patch.0.len() > OPERATIONS_LIMIT {
                    return Err(Refusal::too_many_operations(patch.0.len(), OPERATIONS_LIMIT));
                }
                Ok(Self::Json(patch))
            }
            PatchType::Merge => Ok(Self::Merge(object(serde_json::from_slice(body).map_err(bad)?)?)),
            PatchType::Strategic => Ok(Self::Strategic(object(serde_json::from_slice(body).map_err(bad)?)?)),
        }
    }

    /// What the patch makes of an object. The result need not fit the kind.
    pub(crate) fn apply(&self, kind: Option<&Kind>, object: &Value) -> Result<Value> {
        let mut patched = object.clone();
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut patched, patch).map_err(|error| {
                    tracing::debug!(%error, "a JSON patch does not apply");
                    Refusal::patch_fails()
                })?;
            }
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Strategic(patch) => {
                let kind = kind.ok_or_else(|| Refusal::internal("a strategic patch needs a schema"))?;
                schema::strategic_merge(kind, &mut patched, patch.clone())
                    .map_err(|error| Refusal::bad_request(error.to_string()))?;
            }
        }
        Ok(patched)
    }
}

fn object(patch: Value) -> Result<Value> {
    if patch.is_object() {
        return Ok(patch);
    }
    Err(Refusal::bad_request("error decoding patch: the patch is no JSON object"))
}
