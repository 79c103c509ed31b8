//! Merges objects.

use serde_json::{Map, Value};

use super::error::{self, PatchError, go_text};
use super::scope::Scope;
use super::{
    DELETE_FROM_PRIMITIVE_LIST, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER, discard_nulls, list,
    without_directives,
};

type Object = Map<String, Value>;

/// Merges a patch into an object.
pub(super) fn merge(original: &mut Object, mut patch: Object, scope: Scope) -> Result<(), PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                *original = patch;
            }
            Some("delete") => original.clear(),
            _ => {
                let directive = go_text(directive);
                return Err(PatchError::UnknownDirective {
                    directive,
                    object: go_text(&Value::Object(patch)),
                });
            }
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    list::set_element_orders(original, &mut patch, scope)?;
    for (name, value) in patch {
        match name.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            Some(name) => {
                delete_from_list(
                    original,
                    name.strip_prefix('/').ok_or(PatchError::PrimitiveListFormat)?,
                    value,
                )?;
            }
            None => merge_member(original, name, value, scope)?,
        }
    }
    Ok(())
}

fn merge_member(original: &mut Object, name: String, value: Value, scope: Scope) -> Result<(), PatchError> {
    match (original.get_mut(&name), value) {
        (_, Value::Null) => {
            original.remove(&name);
        }
        (Some(Value::Object(before)), Value::Object(patch)) => {
            let (scope, strategy) = scope.member(&name)?;
            if strategy.replace {
                original.insert(name, Value::Object(patch));
            } else {
                merge(before, patch, scope)?;
            }
        }
        (Some(Value::Array(before)), Value::Array(patch)) => {
            let (scope, strategy) = scope.member(&name)?;
            if strategy.merge {
                *before = list::merge(std::mem::take(before), patch, scope, strategy.merge_key)?;
            } else {
                *before = patch;
            }
        }
        (_, mut value) => {
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.insert(name, value),
                None => original.remove(&name),
            };
        }
    }
    Ok(())
}

fn delete_from_list(original: &mut Object, name: &str, values: Value) -> Result<(), PatchError> {
    match (original.get_mut(name), values) {
        (_, Value::Null) => {
            original.remove(name);
        }
        (Some(Value::Array(before)), Value::Array(values)) => {
            if list::element_type(&[before, &values])? == Some(error::OBJECT) {
                return Err(PatchError::KeylessList);
            }
            before.retain(|value| !values.contains(value));
        }
        _ => {}
    }
    Ok(())
}

/// Carries out `$retainKeys`: drops the members that it does not name. To be called before the merge.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(PatchError::RetainKeysFormat) };
    let is_retained = |name: &str| retained.iter().any(|retained| retained.as_str() == Some(name));
    for (name, value) in patch.iter() {
        let is_directive =
            name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if !value.is_null() && !is_directive && !is_retained(name) {
            return Err(PatchError::RetainKeysFormat);
        }
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}
