//! Writes of an object's status.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use steersman_api::{ArcStr, Meta, ObjectKey, ResourceVersion, Status, Uid, merge_patch};
use steersman_informer::wire::Kind;

use super::put_back::{Base, LastAnswers, PutBack};
use super::{AccessReview, Changed, Client, Patch, Subresource};
use crate::controller::SyncError;

/// A change of an object's status.
///
/// It holds the fields that change and no others. A projection lacks fields that other components, or newer versions, keep
/// in the status: these survive.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    uid: Uid,
    /// The version of the object that the change was decided on.
    resource_version: ResourceVersion,
    /// The merge patch from the old status to the new one. Removed members are null; a list is replaced as a whole.
    difference: Value,
    /// An annotation that is set in the same write.
    annotation: Option<(&'static str, ArcStr)>,
}

impl StatusChange {
    /// The change of the status of the object with this metadata. `None` if the two are equal: then nothing must be
    /// written.
    ///
    /// # Panics
    /// If a status can't be serialized as JSON.
    pub fn between<S: Serialize>(meta: &Meta, was: &S, is: &S) -> Option<Self> {
        let json = |status: &S| serde_json::to_value(status).expect("a status must be serializable as JSON");
        let difference = merge_patch::diff(&json(was), &json(is))?;
        Some(Self { difference, ..Self::nothing(meta) })
    }

    /// The change of the status, and of one annotation beside it. The API server takes metadata that comes with a status,
    /// without a new generation, for the kinds whose controllers need it: Deployments keep their revision so.
    ///
    /// # Panics
    /// If a status can't be serialized as JSON.
    pub fn with_annotation<S: Serialize>(
        meta: &Meta,
        was: &S,
        is: &S,
        key: &'static str,
        value: ArcStr,
    ) -> Self {
        let change = Self::between(meta, was, is).unwrap_or_else(|| Self::nothing(meta));
        Self { annotation: Some((key, value)), ..change }
    }

    fn nothing(meta: &Meta) -> Self {
        let (uid, resource_version) = (meta.uid.clone(), meta.resource_version);
        Self { uid, resource_version, difference: json!({}), annotation: None }
    }

    /// The merge patch of the subresource `status`, with the object's uid and version as preconditions. So it is no less
    /// strict than an update: the API server refuses a patch that was decided on an old state.
    pub fn patch(&self) -> Value {
        let mut patch = json!({
            "metadata": {"uid": self.uid, "resourceVersion": self.resource_version},
            "status": self.difference,
        });
        if let Some((key, value)) = &self.annotation {
            patch["metadata"]["annotations"] = json!({*key: value.as_str()});
        }
        patch
    }
}

/// Writes the status of objects of kind `K`, with as few rights as kube-controller-manager needs.
///
/// Kubernetes's own roles (`system:controller:*`) grant `update` on most statuses and not `patch`. So the writer asks the
/// API server, by a SelfSubjectAccessReview, which of the two this process may do:
/// - `patch`: a write is one merge patch;
/// - only `update`: the writer reads the object in JSON, changes the members of its status, and puts it back, so that
///   fields which this program does not know survive. The writer also does this where the API server does not serve such
///   reviews to this process. Where another review says that the role lacks `get`, as for ResourceQuotas, the writer lists
///   the one object.
///
/// The writer remembers the answer until the API server forbids a write. The next write then asks anew.
pub struct StatusWriter<K> {
    client: Client<K>,
    put_back: PutBack<K>,
    pub(super) way: RememberedWay,
}

/// How a status is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Patch,
    Update,
    /// As `Update`, without the right to get the object.
    UpdateListed,
}

/// The way that the API server's last review named, if that is still thought to be true.
#[derive(Default)]
pub(super) struct RememberedWay(Mutex<Option<Way>>);

impl RememberedWay {
    pub(super) fn get(&self) -> Option<Way> {
        *self.0.lock()
    }

    pub(super) fn set(&self, way: Option<Way>) {
        *self.0.lock() = way;
    }

    /// The remembered way. If there is none, asks the API server whether this process may patch that part of objects.
    pub(super) async fn or_ask<K: Kind>(
        &self,
        client: &Client<K>,
        part: Subresource,
        key: &ObjectKey,
    ) -> Result<Way, SyncError> {
        if let Some(way) = self.get() {
            return Ok(way);
        }
        let part = part.path().trim_start_matches('/');
        let way = match is_allowed(client, key, "patch", part).await? {
            Some(true) => Way::Patch,
            Some(false) if is_allowed(client, key, "get", "").await? == Some(false) => Way::UpdateListed,
            Some(false) | None => Way::Update,
        };
        self.set(Some(way));
        Ok(way)
    }
}

impl<K: Kind> StatusWriter<K> {
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
    pub async fn write(&self, key: &ObjectKey, change: &StatusChange) -> Result<Changed<K>, SyncError> {
        let written = match self.way(key).await? {
            Way::Patch => self.client.patch_status(key, &Patch::Merge(change.patch())).await,
            Way::Update => match self.put_back.base(key, &change.uid, change.resource_version).await {
                Ok(base) => self.update(base, key, change).await,
                Err(error) if error.status().is_some_and(|status| is(status, StatusCode::FORBIDDEN)) => {
                    self.way.set(Some(Way::UpdateListed));
                    self.update_listed(key, change).await
                }
                Err(error) => Err(error),
            },
            Way::UpdateListed => self.update_listed(key, change).await,
        };
        let refusal = written.as_ref().err().and_then(SyncError::status);
        if refusal.is_some_and(|status| is(status, StatusCode::FORBIDDEN)) {
            self.way.set(None);
        }
        written
    }

    async fn update_listed(&self, key: &ObjectKey, change: &StatusChange) -> Result<Changed<K>, SyncError> {
        let object = self.client.resource().find_json(key).await?;
        self.update(Base::of(object, &change.uid, change.resource_version), key, change).await
    }

    async fn update(
        &self,
        base: Base,
        key: &ObjectKey,
        change: &StatusChange,
    ) -> Result<Changed<K>, SyncError> {
        let mut object = match base {
            Base::Object(object) => object,
            Base::Gone => return Ok(Changed::Gone),
            Base::Conflict(status) => return Ok(Changed::Conflict(status)),
        };
        json_patch::merge(&mut object["status"], &change.difference);
        if let Some((key, value)) = &change.annotation {
            object["metadata"]["annotations"][*key] = value.as_str().into();
        }
        self.put_back.put(key, Subresource::Status, &object).await
    }

    async fn way(&self, key: &ObjectKey) -> Result<Way, SyncError> {
        self.way.or_ask(&self.client, Subresource::Status, key).await
    }
}

/// Whether this process may do that, or `None` if the API server serves it no reviews.
///
/// The review asks about all namespaces, as Kubernetes's roles grant them. kube-controller-manager does not support roles
/// for single namespaces.
async fn is_allowed<K: Kind>(
    client: &Client<K>,
    key: &ObjectKey,
    verb: &str,
    subresource: &str,
) -> Result<Option<bool>, SyncError> {
    let review = AccessReview::of_caller(&json!({"resourceAttributes": {
        "group": K::GROUP, "version": K::VERSION, "resource": K::RESOURCE,
        "subresource": subresource, "verb": verb,
    }}));
    let what = format!("asking whether this process may {verb} {} {key} {subresource}", K::KIND);
    match review.is_allowed(client.resource().sender(), what).await {
        Ok(is_allowed) => Ok(Some(is_allowed)),
        Err(error) if error.status().is_some_and(serves_no_reviews) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the API server answered that this process can't have a review: it lacks the right, or the API is switched off.
fn serves_no_reviews(status: &Status) -> bool {
    [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED]
        .into_iter()
        .any(|code| is(status, code))
}

pub(super) fn is(status: &Status, code: StatusCode) -> bool {
    status.code == i32::from(code.as_u16())
}
