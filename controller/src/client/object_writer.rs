//! Changes of objects outside their status.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};
use steersman_informer::wire::Kind;

use super::put_back::{Base, LastAnswers, PutBack};
use super::status::{RememberedWay, Way, is};
use super::{Changed, Client, Patch, Subresource};
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
    put_back: PutBack<K>,
    way: RememberedWay,
}

impl<K: Kind> ObjectWriter<K> {
    /// Writes through `client`.
    pub fn new(client: Client<K>) -> Self {
        Self { put_back: PutBack::new(client.clone()), client, way: RememberedWay::default() }
    }

    /// Shares the answers to updates with other writers of the same kind, so that a write that follows another one needs no
    /// read.
    #[must_use]
    pub fn remembering(mut self, answers: &Arc<LastAnswers>) -> Self {
        self.put_back.remember(answers);
        self
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
        let mut object = match self.put_back.base(key, &change.uid, change.resource_version).await? {
            Base::Object(object) => object,
            Base::Gone => return Ok(Changed::Gone),
            Base::Conflict(status) => return Ok(Changed::Conflict(status)),
        };
        json_patch::merge(&mut object, &change.patch);
        self.put_back.put(key, Subresource::None, &object).await
    }
}
