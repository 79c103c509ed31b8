//! Server-side apply.

use serde_json::Value;

use super::fault::faults;
use super::managers::Managers;
use super::{Error, Subject, exists, last_applied, list_of, put, take, updater, without_list};
use crate::object;

/// Whose fields are those of an object that nobody has applied yet. From upstream.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager that upstream takes for `kubectl apply --server-side`.
pub(super) const KUBECTL: &str = "kubectl";

/// Applies a configuration to the present state, or to the subject's [`empty`](Subject::empty) one. Returns the new state
/// as the configuration has it: without defaults, and not in the form of its kind.
///
/// # Errors
/// The configuration is no such object, or others have fields of it and `force` is not set.
pub(crate) fn apply(
    subject: &Subject<'_>,
    old: &Value,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, Error> {
    check_kind(subject, config)?;
    let mut config = config.clone();
    if take(&mut config).is_some_and(|list| !list.is_null()) {
        return Err(Error::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    check_type(subject, &config)?;
    let mut managers = match list_of(old) {
        None => Managers::default(),
        Some(list) => Managers::read(list)
            .ok_or_else(|| Error::Untyped("failed to decode managed fields".to_owned()))?,
    };
    let old = without_list(old);
    if managers.is_empty() && exists(&old) {
        let change = subject.change(subject.ty, subject.empty, &old)?;
        updater::update(subject, (subject.empty, &old), change, &mut managers, BEFORE_FIRST_APPLY)?;
    }
    let before = managers.clone();
    let mut applied = updater::apply(subject, &old, &config, &mut managers, manager, force);
    if let (KUBECTL, Err(Error::Conflicts(conflicts))) = (manager, &applied) {
        // Who moves from client-side apply conflicts with itself.
        if let Some(own) = last_applied::fields(subject, &old) {
            let others: Vec<_> =
                conflicts.iter().filter(|conflict| !own.has(&conflict.path)).cloned().collect();
            applied = if others.is_empty() {
                managers = before;
                updater::apply(subject, &old, &config, &mut managers, manager, true)
            } else {
                Err(Error::Conflicts(others))
            };
        }
    }
    let mut new = applied?.unwrap_or_else(|| old.clone().into_owned());
    if manager == KUBECTL {
        last_applied::renew(&mut new, &config);
    }
    put(&mut new, managers.write());
    Ok(new)
}

fn check_kind(subject: &Subject<'_>, config: &Value) -> Result<(), Error> {
    let text = |name: &str| object::str_at(config, name).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version == subject.api_version && kind == subject.kind {
        return Ok(());
    }
    Err(Error::BadRequest(format!("invalid object type: {}", shown_kind(api_version, kind))))
}

fn check_type(subject: &Subject<'_>, config: &Value) -> Result<(), Error> {
    let faults = faults(subject.ty, config);
    let all = match &faults[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let name = shown_name(config, subject.api_version, subject.kind);
    Err(Error::Untyped(format!("failed to create typed patch object ({name}): {all}")))
}

/// An object as upstream's messages name it.
pub(crate) fn shown_name(object: &Value, api_version: &str, kind: &str) -> String {
    let text = |name: &str| object::str_at(object, name).unwrap_or_default();
    format!("{}/{}; {}", text("metadata.namespace"), text("metadata.name"), shown_kind(api_version, kind))
}

fn shown_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}
