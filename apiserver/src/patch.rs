//! Patches.

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value};
use steersman_api::schema::{self, Kind, PatchError};

use crate::depth;
use crate::refusal::{Refusal, Result};
use crate::values;

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
/// More bytes of JSON than this are not copied within one patch: copies of copies double. From upstream.
const COPIES_LIMIT: usize = 3 * 1024 * 1024;

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
    /// Reads a body.
    pub(crate) fn parse(patch_type: PatchType, body: &[u8]) -> Result<Self> {
        let bad = |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
        if values::are_too_many_in(body) {
            return Err(Refusal::too_many_values());
        }
        match patch_type {
            PatchType::Json => {
                let operations: Vec<Value> = serde_json::from_slice(body).map_err(bad)?;
                // The server refuses unknown operations when it applies them, as upstream.
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
            Self::Json(patch) => operate(&mut patched, &patch.0)?,
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Strategic(patch) => {
                let kind = kind.ok_or_else(|| Refusal::internal("a strategic patch needs a schema"))?;
                schema::strategic_merge(kind, &mut patched, patch.clone()).map_err(|error| match error {
                    PatchError::NotAnObject { .. }
                    | PatchError::PrimitiveListFormat
                    | PatchError::RetainKeysFormat
                    | PatchError::SetElementOrderFormat => Refusal::bad_request(error.to_string()),
                    PatchError::ListOfLists => Refusal::patch_fails(),
                    // Upstream has no answer of its own for these.
                    error => Refusal::unforeseen(error.to_string()),
                })?;
            }
        }
        Ok(patched)
    }
}

/// Carries out the operations of a JSON patch, one after the other.
fn operate(object: &mut Value, operations: &[PatchOperation]) -> Result<()> {
    let (mut copied, mut values) = (0, 0);
    for operation in operations {
        let operation = &resolved(object, operation);
        if let PatchOperation::Copy(copy) = operation {
            let original = copy.from.resolve(object).ok();
            copied += original.map_or(0, size_of);
            if copied > COPIES_LIMIT {
                return Err(Refusal::patch_fails());
            }
            values += original.map_or(0, values::of);
            if values > values::LIMIT {
                return Err(Refusal::too_many_values());
            }
        }
        if depth_after(object, operation) > depth::LIMIT {
            return Err(Refusal::bad_request(depth::message()));
        }
        json_patch::patch_unsafe(object, std::slice::from_ref(operation)).map_err(|error| {
            tracing::debug!(%error, "a JSON patch does not apply");
            Refusal::patch_fails()
        })?;
    }
    Ok(())
}

/// How deep what an operation adds will lie, with all that is in it.
fn depth_after(object: &Value, operation: &PatchOperation) -> usize {
    let of = |from: &Pointer| from.resolve(object).map_or(0, depth::of);
    let added = match operation {
        PatchOperation::Add(add) => depth::of(&add.value),
        PatchOperation::Replace(replace) => depth::of(&replace.value),
        PatchOperation::Copy(copy) => of(&copy.from),
        PatchOperation::Move(change) => of(&change.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    operation.path().count() + added
}

/// How many bytes of JSON a value is.
fn size_of(value: &Value) -> usize {
    #[derive(Default)]
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count::default();
    serde_json::to_writer(&mut count, value).expect("a JSON value must have a text");
    count.0
}

/// As upstream, an index may be counted from the end.
fn from_the_start(object: &Value, pointer: &Pointer) -> Option<PointerBuf> {
    let negative = |token: &str| token.strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok());
    pointer.tokens().find(|token| negative(&token.decoded()).is_some())?;
    let mut at = Some(object);
    let tokens = pointer.tokens().map(|token| {
        let token = token.decoded().into_owned();
        let index = match (at, negative(&token)) {
            (Some(Value::Array(items)), Some(back)) => items.len().checked_sub(back),
            _ => None,
        };
        let token = index.map_or(token, |index| index.to_string());
        at = at.and_then(|value| match value {
            Value::Array(items) => items.get(token.parse::<usize>().ok()?),
            value => value.get(&token),
        });
        token
    });
    Some(PointerBuf::from_tokens(tokens.collect::<Vec<_>>()))
}

/// Translates an operation for `json_patch`: counts every index from the start, and adds a member that `replace` finds absent.
fn resolved(object: &Value, operation: &PatchOperation) -> PatchOperation {
    let mut operation = operation.clone();
    let fix = |pointer: &mut PointerBuf| {
        if let Some(fixed) = from_the_start(object, pointer) {
            *pointer = fixed;
        }
    };
    match &mut operation {
        PatchOperation::Add(add) => fix(&mut add.path),
        PatchOperation::Remove(remove) => fix(&mut remove.path),
        PatchOperation::Replace(replace) => fix(&mut replace.path),
        PatchOperation::Move(change) => {
            fix(&mut change.from);
            fix(&mut change.path);
        }
        PatchOperation::Copy(copy) => {
            fix(&mut copy.from);
            fix(&mut copy.path);
        }
        PatchOperation::Test(test) => fix(&mut test.path),
    }
    match operation {
        PatchOperation::Replace(ReplaceOperation { path, value }) if is_absent_member(object, &path) => {
            PatchOperation::Add(AddOperation { path, value })
        }
        operation => operation,
    }
}

/// Whether the path names a member that its parent object lacks. Upstream handles `replace` of such a member as `add`.
fn is_absent_member(object: &Value, path: &Pointer) -> bool {
    let parent = path.parent().and_then(|parent| parent.resolve(object).ok());
    parent.is_some_and(Value::is_object) && path.resolve(object).is_err()
}

/// What strict decoding finds in the operations of a JSON patch.
pub(crate) fn strict_errors(body: &[u8]) -> Vec<String> {
    let duplicates = schema::strict_errors(None, body);
    let operations: Vec<Map<String, Value>> = serde_json::from_slice(body).unwrap_or_default();
    let unknown = operations.iter().enumerate().flat_map(|(at, operation)| {
        let known = |name: &&String| !matches!(name.as_str(), "op" | "path" | "from" | "value");
        operation.keys().filter(known).map(move |name| format!("unknown field \"[{at}].{name}\""))
    });
    duplicates.into_iter().chain(unknown).collect()
}

fn object(patch: Value) -> Result<Value> {
    if patch.is_object() {
        return Ok(patch);
    }
    Err(Refusal::bad_request("error decoding patch: the patch is no JSON object"))
}
