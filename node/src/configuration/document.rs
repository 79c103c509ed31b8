//! A configuration before its fields are known: an object of JSON, and paths into it.

use serde_json::{Map, Value};

use super::error::{Error, Fault, Origin};

/// The only version there is.
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The only kind that is read.
const KIND: &str = "KubeletConfiguration";
/// More characters of a value are not shown.
const SHOWN: usize = 80;

/// Reads YAML or JSON; of several YAML documents the first counts. `apiVersion` and `kind` are checked and left out.
pub(super) fn read(text: &str, origin: &Origin) -> Result<Map<String, Value>, Error> {
    if text.trim().is_empty() {
        return Err(Error::Empty(origin.clone()));
    }
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
    };
    let parse = |reason: &dyn std::fmt::Display| Error::Parse {
        origin: origin.clone(),
        // The rest draws the place.
        reason: reason.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| parse(&error))?;
    let Some(Value::Object(mut document)) = documents.into_iter().next() else {
        return Err(parse(&"it is not an object"));
    };
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match document.remove(field) {
            Some(Value::String(found)) if found == wanted => {}
            Some(found) => return Err(fault(origin, field, &found, format!("must be {wanted}"))),
            None => {
                return Err(Error::Field {
                    origin: origin.clone(),
                    fault: Fault::new(field, format!("is missing: it must be {wanted}")),
                });
            }
        }
    }
    Ok(document)
}

/// Something is wrong with the value of a field.
pub(super) fn fault(origin: &Origin, path: &str, value: &Value, why: impl std::fmt::Display) -> Error {
    Error::Field { origin: origin.clone(), fault: Fault::new(path, format!("{}: {why}", shown(path, value))) }
}

/// A value as a line can hold it. Headers may be secret.
pub(super) fn shown(path: &str, value: &Value) -> String {
    if path.starts_with("staticPodURLHeader") {
        return "<masked>".to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// What stands at a path of names with dots between.
pub(super) fn get<'a>(document: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => get(document.get(first)?.as_object()?, rest),
    }
}

/// Takes out what stands at a path.
pub(super) fn remove(document: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => document.remove(path),
        Some((first, rest)) => remove(document.get_mut(first)?.as_object_mut()?, rest),
    }
}

/// Puts `value` at a path; what stands in the way and is no object gives way.
pub(super) fn set(document: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((first, rest)) = path.split_once('.') else {
        document.insert(path.to_owned(), value);
        return;
    };
    let inner = document.entry(first).or_insert(Value::Null);
    let mut object = match inner.take() {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    set(&mut object, rest, value);
    *inner = Value::Object(object);
}

/// Changes `base` as a JSON merge patch says (RFC 7386).
pub(super) fn merge(base: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                base.remove(&key);
            }
            Value::Object(patch) => {
                let old = base.entry(key).or_insert(Value::Null);
                let mut inner = match old.take() {
                    Value::Object(inner) => inner,
                    _ => Map::new(),
                };
                merge(&mut inner, patch);
                *old = Value::Object(inner);
            }
            value => {
                base.insert(key, value);
            }
        }
    }
}
