//! Typed reads and writes of objects at the API server.
//!
//! [`Client`] serves one kind that is known at compile time, [`ResourceClient`] a resource that is known only at run time.
//! Both build paths, bodies and preconditions, and tell the outcomes apart that a controller decides on:
//!
//! | outcome | returned as |
//! |---|---|
//! | done | [`Created::Now`], [`Changed::Now`], [`Deleted::Now`] |
//! | the object is gone | [`Changed::Gone`], [`Deleted::Gone`] |
//! | a precondition does not hold, or another write came first | [`Changed::Conflict`], [`Deleted::Conflict`] |
//! | the object exists already | [`Created::Exists`] |
//! | the namespace is being deleted | [`Created::NamespaceTerminating`] |
//! | this process does not lead | [`SyncError::Fenced`], [`SyncError::Abandoned`] |
//! | the outcome is unknown | [`SyncError::Unknown`] |
//! | another refusal | [`SyncError::Refused`] |

use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::{GroupVersionKind, GroupVersionResource, LabelSelector, Meta, ObjectKey, OwnerReference};
use steersman_client::Sender;
use steersman_informer::wire::{Kind, Selection};

use crate::call::{Accept, Answer, Content};
use crate::controller::SyncError;

mod access_review;
mod list;
mod object_writer;
mod outcome;
mod put_back;
mod resource;
mod scale;
mod status;
#[cfg(test)]
mod tests;

pub use access_review::AccessReview;
pub use list::Listed;
pub(crate) use list::for_each;
pub use object_writer::{ObjectChange, ObjectWriter};
pub use outcome::{Changed, Created, Deleted, WriteOutcome, Wrote};
pub use put_back::LastAnswers;
pub use resource::{Delete, Patch, Propagation, ResourceClient, Subresource, path_segment};
pub use scale::Scale;
pub use status::{StatusChange, StatusWriter};

/// Reads and writes objects of kind `K`. Cheap to clone.
pub struct Client<K> {
    resource: ResourceClient,
    /// The groups of fields to decode from answers.
    groups: u64,
    /// The form of the answers to creates and patches.
    answers: Accept,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Client<K> {
    fn clone(&self) -> Self {
        let Self { groups, answers, .. } = *self;
        Self { resource: self.resource.clone(), groups, answers, kind: PhantomData }
    }
}

impl<K: Kind> Client<K> {
    /// Makes a client that decodes only the metadata of objects in answers.
    pub fn new(sender: Sender) -> Self {
        let resource = ResourceClient::new(sender, resource::<K>(), K::KIND);
        Self { resource, groups: 0, answers: Accept::Object, kind: PhantomData }
    }

    /// Makes a client that decodes the groups of `S` from answers, as a cache of that selection does.
    pub fn keeping<S: Selection<Kind = K>>(sender: Sender) -> Self {
        Self { groups: S::GROUPS, ..Self::new(sender) }
    }

    /// The same client, but the API server answers creates and patches with the object's metadata only, so that less has to be
    /// received and decoded. The other fields of such an object have their defaults.
    #[must_use]
    pub fn answered_with_metadata(self) -> Self {
        Self { answers: Accept::Metadata, ..self }
    }

    /// The same resource without a type.
    pub fn resource(&self) -> &ResourceClient {
        &self.resource
    }

    /// Reads an object with a quorum read. `None` if there is no object of that name.
    ///
    /// # Errors
    /// The call failed, or the answer can't be decoded.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, SyncError> {
        let answer = self.resource.get(key).await?;
        answer.map(|answer| self.decode(&answer)).transpose()
    }

    /// Lists the objects of a namespace that a selector selects, with a quorum read. An empty namespace stands for all.
    ///
    /// # Errors
    /// The call failed, or one of the objects can't be decoded.
    pub async fn list(&self, namespace: &str, selector: &LabelSelector) -> Result<Listed<K>, SyncError> {
        list::list(&self.resource, self.groups, namespace, selector).await
    }

    /// Calls `look` with each object of a namespace, by a quorum list. An empty namespace stands for all. Holds one object at
    /// a time.
    ///
    /// # Errors
    /// The call failed, or one of the objects can't be decoded.
    pub async fn for_each(&self, namespace: &str, look: impl FnMut(K)) -> Result<(), SyncError> {
        let all = LabelSelector::everything();
        list::walk(&self.resource, self.groups, namespace, &all, look).await.map(drop)
    }

    /// Creates an object in a namespace.
    ///
    /// # Errors
    /// See [`ResourceClient::create`].
    pub async fn create(&self, namespace: &str, object: Content) -> Result<Created<K>, SyncError> {
        Created::of(self.resource.create_as(namespace, object, self.answers).await, |answer| {
            self.decode(answer)
        })
    }

    /// Replaces an object. The object's `resourceVersion`, if it has one, is a precondition.
    ///
    /// # Errors
    /// See [`ResourceClient::update`].
    pub async fn update(&self, key: &ObjectKey, object: Content) -> Result<Changed<K>, SyncError> {
        self.update_part(key, Subresource::None, object).await
    }

    /// Replaces an object or a subresource. The object's `resourceVersion`, if it has one, is a precondition.
    ///
    /// # Errors
    /// See [`ResourceClient::update`].
    pub async fn update_part(
        &self,
        key: &ObjectKey,
        part: Subresource,
        object: Content,
    ) -> Result<Changed<K>, SyncError> {
        self.changed(self.resource.update(key, part, object).await)
    }

    /// Patches an object. A uid or `resourceVersion` in the patch is a precondition.
    ///
    /// # Errors
    /// See [`ResourceClient::patch`].
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<Changed<K>, SyncError> {
        self.changed(self.resource.patch_as(key, Subresource::None, patch, self.answers).await)
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// See [`ResourceClient::patch`].
    pub async fn patch_status(&self, key: &ObjectKey, patch: &Patch) -> Result<Changed<K>, SyncError> {
        self.changed(self.resource.patch_as(key, Subresource::Status, patch, self.answers).await)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// See [`ResourceClient::delete`].
    pub async fn delete(&self, key: &ObjectKey, delete: &Delete) -> Result<Deleted<K>, SyncError> {
        Deleted::of(self.resource.delete(key, delete).await)
    }

    fn changed(&self, answer: Result<Answer, SyncError>) -> Result<Changed<K>, SyncError> {
        Changed::of(answer, |answer| self.decode(answer))
    }

    fn decode(&self, answer: &Answer) -> Result<Arc<K>, SyncError> {
        answer.object(self.groups).map(Arc::new)
    }
}

/// Where objects of a kind are served.
pub fn resource<K: Kind>() -> GroupVersionResource {
    GroupVersionResource::new(K::GROUP, K::VERSION, K::RESOURCE)
}

/// The kind's names, as objects and owner references spell them.
pub fn group_version_kind<K: Kind>() -> GroupVersionKind {
    GroupVersionKind::new(K::GROUP, K::VERSION, K::KIND)
}

/// Names an object of kind `K` as the involved object of an event.
pub fn event_reference<K: Kind>(meta: &Meta) -> ObjectReference {
    steersman_client::events::reference(&group_version_kind::<K>(), meta)
}

/// Names an object of kind `K` as the managing owner of another object, as upstream's `NewControllerRef`.
pub fn controller_reference<K: Kind>(meta: &Meta) -> OwnerReference {
    let api_version = group_version_kind::<K>().api_version();
    OwnerReference::controller(&api_version, K::KIND, meta.key.name.clone(), meta.uid.clone())
}
