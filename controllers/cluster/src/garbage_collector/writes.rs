//! The collector's reads and writes of the objects that it collects.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_api::{Meta, OwnerReference, ResourceVersion, Status, Uid};
use steersman_client::Sender;
use steersman_controller::client::{Changed, Delete, Deleted, Patch, Propagation, ResourceClient};
use steersman_controller::controller::SyncError;

use super::kinds::Kind;

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// The API server did it.
    Done,
    /// The object is gone.
    Gone,
    /// The object has another uid or version than the caller thought, or the API server refuses the write for another reason:
    /// this is its answer. The caller must read the object.
    Conflict(Box<Status>),
}

impl Wrote {
    /// Passes a sync's first conflict on, after which the sync reads the object and tries again. A further one is an error: the
    /// queue's back-off then spares the API server, as in upstream.
    ///
    /// # Errors
    /// This is a conflict, and `met_conflict` says that it is not the sync's first. `what` names the attempted action.
    pub(super) fn only_once(
        self,
        met_conflict: bool,
        what: impl FnOnce() -> String,
    ) -> Result<Self, SyncError> {
        match self {
            Self::Conflict(status) if met_conflict => Err(SyncError::Refused { what: what(), status }),
            wrote => Ok(wrote),
        }
    }
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
        let rest = |object: &Meta| {
            let rest = object.owners.iter().filter(|reference| !lost.contains(&reference.uid));
            json!(rest.collect::<Vec<_>>())
        };
        Ok(wrote(&self.patch_owners(object, json!(strategic), rest).await?))
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
        let all = |object: &Meta| json!(object.owners.iter().map(unblocking).collect::<Vec<_>>());
        let changed = self.patch_owners(object, json!(strategic), all).await?;
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
        let changed = self.patch_current(object, |object| {
            let rest: Vec<_> = object.finalizers.iter().filter(|one| *one != finalizer).collect();
            json!({"finalizers": rest})
        });
        Ok(wrote(&changed.await?))
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
            Deleted::Conflict(status) => Wrote::Conflict(status),
        })
    }

    /// Patches the owner references of an object: with a strategic merge patch, which changes only the references that it
    /// names, or with a merge patch of the whole list where the API server takes no other, as for custom resources.
    async fn patch_owners(
        &self,
        object: &Meta,
        strategic: Value,
        all: impl Fn(&Meta) -> Value,
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
        self.patch_current(object, |object| json!({"ownerReferences": all(object)})).await
    }

    /// Merges what `change` returns into the metadata of an object, if the object still has the version that `change` gets.
    ///
    /// A cache has no version of an object whose API server uses versions that are no numbers. Such an object is read first.
    async fn patch_current(
        &self,
        object: &Meta,
        change: impl Fn(&Meta) -> Value,
    ) -> Result<Changed<Meta>, SyncError> {
        let (mut metadata, version) = if object.resource_version == ResourceVersion::ANY {
            let found = self.client.get_meta_and_version(&object.key).await?;
            match found.filter(|(found, _)| found.uid == object.uid) {
                Some((newest, version)) => (change(&newest), version),
                None => return Ok(Changed::Gone),
            }
        } else {
            (change(object), object.resource_version.to_string())
        };
        metadata["resourceVersion"] = version.into();
        self.client.patch_meta(&object.key, &Patch::Merge(json!({"metadata": metadata}))).await
    }
}

fn wrote(changed: &Changed<Meta>) -> Wrote {
    match changed {
        Changed::Now(_) => Wrote::Done,
        Changed::Gone => Wrote::Gone,
        Changed::Conflict(status) => Wrote::Conflict(status.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Method, Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use steersman_client::Clients;
    use steersman_informer::SharedInformerFactory;
    use steersman_informer::wire::meta::MetaOnly;
    use steersman_informer::wire::{Encoding, Object};
    use tower::service_fn;

    use super::super::kinds::KindId;
    use super::super::testing::resource;
    use super::*;

    const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

    /// An object of an aggregated API server whose versions are no numbers.
    fn stored() -> Value {
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Set", "name": uid, "uid": uid});
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {
            "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "c7-0f",
            "finalizers": ["orphan", "example.com/new"], "ownerReferences": [owner("lost"), owner("new")],
        }})
    }

    /// Answers reads with [`stored`], refuses strategic merge patches, and keeps the bodies of merge patches.
    async fn answer(
        request: Request<Body>,
        patches: Arc<Mutex<Vec<Value>>>,
    ) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let is_strategic =
            head.headers.get("content-type").is_some_and(|found| found == STRATEGIC_MERGE_PATCH);
        if head.method == Method::PATCH && !is_strategic {
            let body = body.collect_bytes().await.unwrap();
            patches.lock().push(serde_json::from_slice(&body).unwrap());
        }
        let status = if is_strategic { 415 } else { 200 };
        let response = Response::builder().status(status).header("content-type", "application/json");
        Ok(response.body(Body::from(stored().to_string().into_bytes())).unwrap())
    }

    #[tokio::test]
    async fn a_patch_names_the_version_of_an_object_whose_versions_are_no_numbers() {
        let patches = Arc::<Mutex<Vec<Value>>>::default();
        let seen = Arc::clone(&patches);
        let clients = Clients::over(service_fn(move |request| answer(request, Arc::clone(&seen))));
        let informers = SharedInformerFactory::new(clients.watch_client(), Default::default());
        let resource = resource("widgets", "Widget");
        let lease = informers.lease(&resource.gvr);
        let kind = Kind::new(KindId(0), &resource, Arc::clone(lease.informer()));
        let calls = Calls::of(&kind, &clients.sender("test"));
        let stored = stored().to_string().into_bytes();
        let mut cached = MetaOnly::decode(&stored.into(), Encoding::Json, 0).unwrap().meta().clone();
        assert_eq!(cached.resource_version, ResourceVersion::ANY);
        // The cache is older than the API server's object.
        cached.finalizers = ["orphan".into()].into();
        cached.owners = cached.owners[..1].into();

        assert_eq!(calls.remove_finalizer(&cached, "orphan").await.unwrap(), Wrote::Done);
        assert_eq!(calls.release(&cached, &["lost".into()]).await.unwrap(), Wrote::Done);
        let sent = std::mem::take(&mut *patches.lock());
        let metadata = |at: usize| &sent[at]["metadata"];
        assert_eq!(metadata(0)["resourceVersion"], "c7-0f");
        assert_eq!(metadata(0)["finalizers"], json!(["example.com/new"]));
        assert_eq!(metadata(1)["resourceVersion"], "c7-0f");
        assert_eq!(metadata(1)["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(metadata(1)["ownerReferences"][0]["uid"], "new");

        let another = Meta { uid: "other".into(), ..cached };
        assert_eq!(calls.remove_finalizer(&another, "orphan").await.unwrap(), Wrote::Gone);
    }
}
