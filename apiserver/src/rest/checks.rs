//! What is asked of every object that is written, whatever its kind.

use serde_json::Value;

use super::request::{Request, Verb};
use crate::field::FieldError;
use crate::object;
use crate::refusal::{Refusal, Result};
use crate::registry::Resource;
use crate::store::Object;
use crate::values;
use crate::weight;

/// Refuses an object that is too large to be stored: one may grow with every patch.
pub(super) fn check_weight(object: &Value) -> Result<()> {
    let weight = weight::of(object);
    if weight > weight::LIMIT {
        return Err(Refusal::too_heavy());
    }
    // Each value weighs two bytes at least, so that those of most objects need not be counted.
    if weight / 2 > values::LIMIT && values::of(object) > values::LIMIT {
        return Err(Refusal::too_many_values());
    }
    Ok(())
}

/// The body must be about the object that the path names.
pub(super) fn check_name(wanted: &str, object: &Value) -> Result<()> {
    let name = object::text_at(object, "metadata.name");
    if name.is_empty() {
        let why = format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        );
        return Err(Refusal::bad_request(why));
    }
    if name != wanted {
        let why = format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
        return Err(Refusal::bad_request(why));
    }
    Ok(())
}

/// A patch leaves what an object is.
pub(super) fn check_type(resource: &Resource, patched: &Value) -> Result<()> {
    let (kind, api_version) = (object::text_at(patched, "kind"), object::text_at(patched, "apiVersion"));
    let said = |said: &str, expected: &str| said.is_empty() || said == expected;
    if said(&kind, &resource.kind) && said(&api_version, &resource.api_version) {
        return Ok(());
    }
    let why = format!("no kind {kind:?} is registered for version {api_version:?} under this path");
    Err(Refusal::patch_misfits(patched, &why))
}

/// What a client is told that means an object of another uid.
pub(super) fn other_uid(said: &str, is: &str) -> String {
    format!("Precondition failed: UID in precondition: {said}, UID in object meta: {is}")
}

/// The uid and the version that the client sends must be the object's.
pub(super) fn check_preconditions(request: &Request, seen: &Object, new: &Value) -> Result<()> {
    let resource = &request.call.resource;
    let name = &seen.key.name;
    let uid = object::text_at(new, "metadata.uid");
    if !uid.is_empty() && uid != seen.uid() {
        // A patch is made of what is there: it does not ask for that uid, it would change it.
        if request.call.verb == Verb::Patch {
            let error = FieldError::immutable("metadata.uid", &seen.uid().into());
            return Err(Refusal::invalid(resource, name, &[error]));
        }
        let why = other_uid(&uid, seen.uid());
        return Err(Refusal::precondition(resource, &seen.key.namespace, name, why));
    }
    let version = object::text_at(new, "metadata.resourceVersion");
    match version.as_str() {
        "" | "0" if resource.traits.unconditional_update => Ok(()),
        "" | "0" => {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            Err(Refusal::invalid_kind(&resource.group, &resource.plural, name, &[error]))
        }
        version if version == seen.version.to_string() => Ok(()),
        version if version.parse::<u64>().is_err() => Err(Refusal::no_version(version)),
        _ => Err(Refusal::modified(resource, name)),
    }
}
