//! The collector's reads and writes of the objects that it collects.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_api::{Meta, OwnerReference, ResourceVersion, Uid};
use steersman_client::Sender;
use steersman_controller::client::{Changed, Delete, Deleted, Patch, Propagation, ResourceClient};
use steersman_controller::controller::SyncError;

use super::kinds::Kind;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// The API server did it.
    Done,
    /// The object is gone.
    Gone,
    /// The object has another uid or version than the caller thought. The caller must read it.
    Conflict,
}

/// The calls about objects of one kind.
pub(super) struct Calls<'a> {
    kind: &'a Kind,
    client: ResourceClient,
}

/// The status code of an API server that does not know the type of a patch.
const UNSUPPORTED_MEDIA_TYPE: i32 = 415;

impl<'a> Calls<'a> {
    pub(super) fn of(kind: &'a Kind, sender: &Sender) -> Self {
        let client = ResourceClient::new(sender.clone(), kind.resource.clone(), kind.gvk.kind.clone());
        Self { kind, client }
    }

    /// The newest state of an object. `None` if it is gone, or another object has its name.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn read(&self, object: &Meta) -> Result<Option<Meta>, SyncError> {
        let found = self.client.get_meta(&object.key).await?;
        Ok(found.filter(|found| found.uid == object.uid))
    }

    /// Calls `look` with the metadata of each object of the kind in a namespace, by a quorum list. An empty namespace stands
    /// for all.
    ///
    /// # Errors
    /// The call failed, or the metadata of an object can't be decoded.
    pub(super) async fn for_each(&self, namespace: &str, look: impl FnMut(&Meta)) -> Result<(), SyncError> {
        self.client.for_each_meta(namespace, look).await
    }

    /// Removes an object's references to these owners.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn release(&self, object: &Meta, owners: &[Uid]) -> Result<Wrote, SyncError> {
        let strategic: Vec<_> = owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        let lost: HashSet<_> = owners.iter().collect();
        let rest = object.owners.iter().filter(|reference| !lost.contains(&reference.uid));
        let changed = self.patch_owners(object, json!(strategic), json!(rest.collect::<Vec<_>>())).await?;
        Ok(wrote(&changed))
    }

    /// Changes an object's references so that none of them blocks the deletion of its owner. Returns the object's new state.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn unblock(&self, object: &Meta) -> Result<Result<Meta, Wrote>, SyncError> {
        let unblocking =
            |one: &OwnerReference| OwnerReference { block_owner_deletion: Some(false), ..one.clone() };
        let blocking = object.owners.iter().filter(|one| one.block_owner_deletion == Some(true));
        let strategic: Vec<_> = blocking.map(unblocking).collect();
        let all: Vec<_> = object.owners.iter().map(unblocking).collect();
        let changed = self.patch_owners(object, json!(strategic), json!(all)).await?;
        Ok(match &changed {
            Changed::Now(newest) => Ok(Meta::clone(newest)),
            other => Err(wrote(other)),
        })
    }

    /// Removes a finalizer from an object.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn remove_finalizer(&self, object: &Meta, finalizer: &str) -> Result<Wrote, SyncError> {
        let rest: Vec<_> = object.finalizers.iter().filter(|one| *one != finalizer).collect();
        let version = object.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": rest}});
        Ok(wrote(&self.client.patch_meta(&object.key, &Patch::Merge(patch)).await?))
    }

    /// Deletes an object, in this version only if there is one.
    ///
    /// # Errors
    /// The call failed.
    pub(super) async fn delete(
        &self,
        object: &Meta,
        resource_version: Option<ResourceVersion>,
        propagation: Propagation,
    ) -> Result<Wrote, SyncError> {
        let delete = Delete { resource_version, propagation: Some(propagation), ..Delete::of(&object.uid) };
        Ok(match self.client.delete_meta(&object.key, &delete).await? {
            Deleted::Now(..) => Wrote::Done,
            Deleted::Gone => Wrote::Gone,
            Deleted::Conflict(_) => Wrote::Conflict,
        })
    }

    /// Patches the owner references of an object: with a strategic merge patch, which changes only the references that it
    /// names, or with a merge patch of the whole list where the API server takes no other, as for custom resources.
    async fn patch_owners(
        &self,
        object: &Meta,
        strategic: Value,
        all: Value,
    ) -> Result<Changed<Meta>, SyncError> {
        if self.kind.takes_strategic_patches() {
            let patch = json!({"metadata": {"uid": object.uid, "ownerReferences": strategic}});
            match self.client.patch_meta(&object.key, &Patch::Strategic(patch)).await {
                Ok(changed) => return Ok(changed),
                Err(error) if error.status().is_some_and(|status| status.code == UNSUPPORTED_MEDIA_TYPE) => {
                    self.kind.refused_strategic_patch();
                }
                Err(error) => return Err(error),
            }
        }
        let version = object.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": all}});
        self.client.patch_meta(&object.key, &Patch::Merge(patch)).await
    }
}

fn wrote(changed: &Changed<Meta>) -> Wrote {
    match changed {
        Changed::Now(_) => Wrote::Done,
        Changed::Gone => Wrote::Gone,
        Changed::Conflict(_) => Wrote::Conflict,
    }
}
