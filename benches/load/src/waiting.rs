//! Waits for objects to reach a state.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use kube_runtime::{WatchStreamExt, watcher};

use crate::Error;

/// Waits until `done` holds for each of the named objects, which are `namespace/name`.
pub(crate) async fn until(
    client: &Client,
    resource: &ApiResource,
    mut names: BTreeSet<String>,
    done: impl Fn(&DynamicObject) -> bool,
) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let all = Api::<DynamicObject>::all_with(client.clone(), resource);
    let objects = watcher(all, watcher::Config::default()).default_backoff().touched_objects();
    let mut objects = std::pin::pin!(objects);
    while let Some(object) = objects.try_next().await? {
        if done(&object) {
            names.remove(&name(&object));
        }
        if names.is_empty() {
            break;
        }
    }
    Ok(())
}

/// The object's namespace and name.
pub(crate) fn name(object: &DynamicObject) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
