//! Client-side apply: kubectl notes in an annotation what it applied last.

use serde_json::Value;

use super::Subject;
use super::compare::Comparison;
use super::set::FieldSet;
use super::walk::fields_of;
use crate::meta;
use crate::object;

/// The annotation.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that kubectl set and nobody changed since; `None` if it does not say, or of another version.
pub(super) fn fields(subject: &Subject<'_>, state: &Value) -> Option<FieldSet> {
    let noted: Value = serde_json::from_str(noted(state)?).ok()?;
    if object::str_at(&noted, "apiVersion")? != subject.api_version {
        return None;
    }
    let fields = fields_of(subject.ty, &noted).ok()?;
    let change = Comparison::of(subject.ty, &noted, state).ok()?;
    Some(fields.difference(&change.set).difference(&change.removed))
}

/// Brings the annotation up to date, where there is one.
pub(super) fn renew(state: &mut Value, config: &Value) {
    if noted(state).is_none() {
        return;
    }
    let mut config = config.clone();
    let annotations = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let annotations = object::members_at(state, "metadata.annotations");
    annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    let size: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > meta::ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
}

fn noted(state: &Value) -> Option<&str> {
    let annotation = state.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    Some(annotation).filter(|text| !text.is_empty())
}
