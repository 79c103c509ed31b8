//! Changes of objects outside their status.

use http::StatusCode;
use serde_json::{Value, json};
use steersman_api::{Meta, ObjectKey, ResourceVersion, Status, Uid};
use steersman_informer::wire::Kind;

use super::status::{RememberedWay, Way, is};
use super::{Changed, Client, Patch, Subresource};
use crate::call::{Content, JSON};
use crate::controller::SyncError;

/// A change of an object: a merge patch that was decided on one version of the object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    uid: Uid,
    resource_version: ResourceVersion,
    patch: Value,
}

impl ObjectChange {
    /// The change of the object with this metadata by a merge patch. Removed members are null; a list is replaced as a whole.
    pub fn new(meta: &Meta, patch: Value) -> Self {
        Self { uid: meta.uid.clone(), resource_version: meta.resource_version, patch }
    }

    /// The merge patch, with the object's uid and version as preconditions.
    pub fn patch(&self) -> Value {
        let mut patch = self.patch.clone();
        json_patch::merge(
            &mut patch,
            &json!({"metadata": {"uid": self.uid, "resourceVersion": self.resource_version}}),
        );
        patch
    }
}

/// Writes objects of kind `K` but for their status, with as few rights as kube-controller-manager needs.
///
/// Kubernetes's own roles (`system:controller:*`) grant `get` and `update` on most objects and not `patch`. So the writer
/// asks the API server which of the two this process may do, as [`StatusWriter`](super::StatusWriter) does. Without `patch`,
/// it reads the object in JSON, changes it and puts it back, so that fields which this program does not know survive.
pub struct ObjectWriter<K> {
    client: Client<K>,
    way: RememberedWay,
}

impl<K: Kind> ObjectWriter<K> {
    /// Writes through `client`.
    pub fn new(client: Client<K>) -> Self {
        Self { client, way: RememberedWay::default() }
    }

    /// Writes a change.
    ///
    /// # Errors
    /// The call failed. If the object changed since the change was decided on, the outcome is [`Changed::Conflict`].
    pub async fn write(&self, key: &ObjectKey, change: &ObjectChange) -> Result<Changed<K>, SyncError> {
        let written = match self.way.or_ask(&self.client, Subresource::None, key).await? {
            Way::Patch => self.client.patch(key, &Patch::Merge(change.patch())).await,
            Way::Update | Way::UpdateListed => self.update(key, change).await,
        };
        let refusal = written.as_ref().err().and_then(SyncError::status);
        if refusal.is_some_and(|status| is(status, StatusCode::FORBIDDEN)) {
            self.way.set(None);
        }
        written
    }

    async fn update(&self, key: &ObjectKey, change: &ObjectChange) -> Result<Changed<K>, SyncError> {
        let Some(mut object) = self.client.resource().get_json(key).await? else { return Ok(Changed::Gone) };
        let meta = &object["metadata"];
        let version = change.resource_version.to_string();
        if meta["uid"] != change.uid.to_string() || meta["resourceVersion"] != version {
            let found = meta["resourceVersion"].as_str().unwrap_or_default();
            let message = format!("the object has been modified: it has version {found}, not {version}");
            return Ok(Changed::Conflict(Status::failure(409, "Conflict", message).into()));
        }
        json_patch::merge(&mut object, &change.patch);
        self.client.update(key, Content::json(JSON, &object)).await
    }
}
