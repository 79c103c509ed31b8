//! Empties and finalizes namespaces that are being deleted.

use http::Request;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::client::Client;
use serde_json::Value;
use steersman_client::discovery::{Discovered, Scope};

use super::{Error, Outcome};

/// The finalizer that keeps a namespace until it is empty.
const KUBERNETES: &str = "kubernetes";

/// Deletes the objects of all kinds in the namespace, and removes the finalizer once none is left.
///
/// # Errors
/// A kind can't be listed or deleted, or the namespace can't be read or written. Calls that were made have taken effect.
pub(super) async fn empty(client: &Client, name: &str) -> Result<Outcome, Error> {
    let path = format!("/api/v1/namespaces/{name}");
    let namespace: Value = match client.request(Request::get(&path).body(Vec::new())?).await {
        Ok(namespace) => namespace,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Outcome::Done),
        Err(error) => return Err(error.into()),
    };
    let is_ours = |finalizer: &Value| finalizer == KUBERNETES;
    let held = namespace["spec"]["finalizers"].as_array().is_some_and(|all| all.iter().any(is_ours));
    if !held || namespace["metadata"]["deletionTimestamp"].is_null() {
        // Another party's finalizer keeps it, or it is a new namespace of the same name.
        return Ok(Outcome::Done);
    }
    let mut left = false;
    let discovered = Discovered::ask(client, &Discovered::default()).await?;
    let kinds = discovered.preferred_resources().filter(|kind| {
        let verbs = ["list", "deletecollection"];
        kind.scope == Scope::Namespaced && verbs.iter().all(|verb| kind.supports(verb))
    });
    for kind in kinds {
        let objects = Api::<DynamicObject>::namespaced_with(client.clone(), name, &kind.api_resource());
        let first = ListParams::default().limit(1);
        if objects.list_metadata(&first).await?.items.is_empty() {
            continue;
        }
        objects.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        left |= !objects.list_metadata(&first).await?.items.is_empty();
    }
    if left {
        return Ok(Outcome::Waits);
    }
    let mut finalized = namespace;
    if let Some(finalizers) = finalized["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| !is_ours(finalizer));
    }
    let request = Request::put(format!("{path}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(finalized.to_string().into_bytes())?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(Outcome::Done),
        // The namespace has changed since the read, or is gone.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(Outcome::Waits),
        Err(error) => Err(error.into()),
    }
}
