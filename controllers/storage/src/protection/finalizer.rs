//! Writes of a finalizer.

use serde_json::Value;
use steersman_api::Meta;
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Changed, Client};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::Kind;

/// What becomes of the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Add,
    Remove,
}

/// Writes a finalizer into the object in the version of `meta`, or removes it from there. Does nothing if that is so already, or
/// if the object is gone.
///
/// Kubernetes's roles grant these controllers `update` and not `patch`. So the object is read in JSON and put back: fields that
/// this program does not know survive.
///
/// # Errors
/// A call failed, or the object has changed since.
pub(super) async fn write<K: Kind>(
    client: &Client<K>,
    meta: &Meta,
    finalizer: &str,
    write: Write,
) -> Result<(), SyncError> {
    let Some(mut object) = client.resource().get_json(&meta.key).await? else { return Ok(()) };
    if object["metadata"]["uid"] != meta.uid.to_string() || !change(&mut object, finalizer, write) {
        return Ok(());
    }
    let what = || format!("updating the finalizers of {} {}", K::KIND, meta.key);
    if object["metadata"]["resourceVersion"] != meta.resource_version.to_string() {
        return Err(SyncError::Failed(format!("{}: the object has been modified", what())));
    }
    let updated = client.update(&meta.key, Content::json(JSON, &object)).await?;
    if let Changed::Now(_) = &updated {
        tracing::info!(object = %meta.key, kind = K::KIND, finalizer, ?write, "Wrote protection finalizer");
    }
    updated.or_conflict(what).map(drop)
}

/// Changes the finalizers in an object's JSON. Returns whether that made a difference.
pub(super) fn change(object: &mut Value, finalizer: &str, write: Write) -> bool {
    let finalizers = &mut object["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = Value::Array(Vec::new());
    }
    let Some(finalizers) = finalizers.as_array_mut() else { return false };
    let before = finalizers.len();
    match write {
        Write::Add if !finalizers.iter().any(|present| present == finalizer) => {
            finalizers.push(finalizer.into());
        }
        Write::Add => {}
        Write::Remove => finalizers.retain(|present| present != finalizer),
    }
    finalizers.len() != before
}
