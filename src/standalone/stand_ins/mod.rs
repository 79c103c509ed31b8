//! Stands in for controllers that this program does not have yet, as far as users of a cluster need them:
//!
//! | upstream's controller | what the stand-in does |
//! |---|---|
//! | `garbage-collector-controller` | deletes or releases what belongs to deleted workloads: their pods, ReplicaSets, ControllerRevisions and claims |
//!
//! The stand-ins cache metadata alone, plan anew after every change, and retry what failed.

mod garbage;

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, Preconditions,
};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, Meta};
use steersman_client::fault::told;
use steersman_controller::client::Propagation;
use steersman_informer::factory::Options;
use steersman_informer::{AnyInformer, SharedInformerFactory};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use garbage::{Deletion, FOREGROUND, Id, Kind, ORPHAN, Object, Step};

/// The least time between two plans, so that one plan serves many changes.
const REST: Duration = Duration::from_millis(20);
/// The delay until a failed step is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Does the work of the missing controllers.
pub(super) struct StandIns {
    /// The client for watches, without limits and retries.
    pub(super) watch: kube::Client,
    /// The client for all other calls.
    pub(super) client: kube::Client,
}

/// The caches.
struct Seen {
    /// The objects of each kind, dependents before their owners.
    objects: [(Kind, Arc<dyn AnyInformer>); Kind::ALL.len()],
}

impl Seen {
    fn new(factory: &SharedInformerFactory) -> Self {
        Self { objects: Kind::ALL.map(|kind| (kind, factory.dynamic(&kind.resource()))) }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
        self.objects.iter().map(|(_, informer)| informer)
    }

    fn observe(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        // Dependents are read before their owners: the owner of an object in this read was created before the object, so
        // that the later read has it too.
        for (kind, informer) in &self.objects {
            informer.for_each_meta(&mut |meta| {
                let id = Id { kind: *kind, key: meta.key.clone(), uid: meta.uid.clone() };
                let (owners, deletion) = (meta.owners.to_vec(), deletion(meta));
                objects.push(Object { id, owners, deletion });
            });
        }
        objects
    }
}

fn deletion(owner: &Meta) -> Option<Deletion> {
    owner.is_deleting().then(|| match owner {
        owner if owner.has_finalizer(ORPHAN) => Deletion::Orphan,
        owner if owner.has_finalizer(FOREGROUND) => Deletion::Foreground,
        _ => Deletion::Other,
    })
}

impl StandIns {
    /// Runs until `stop` is cancelled.
    pub(super) async fn run(self, stop: CancellationToken) {
        let factory = SharedInformerFactory::new(self.watch.clone(), Options::default());
        let (seen, changed) = (Seen::new(&factory), Arc::new(Notify::new()));
        for informer in seen.all() {
            let changed = Arc::clone(&changed);
            informer.map_meta(Box::new(move |_| changed.notify_one()));
        }
        factory.start();
        stop.run_until_cancelled(self.work(&seen, &changed)).await;
        factory.shutdown().await;
    }

    async fn work(&self, seen: &Seen, changed: &Notify) {
        for informer in seen.all() {
            // It fails only during shutdown, when the informer is gone.
            let _ = informer.watch_synced().wait_for(|synced| *synced).await;
        }
        loop {
            let mut failed = false;
            for step in garbage::plan(&seen.observe()) {
                if let Err(error) = self.carry_out(&step).await {
                    let error = told(&error);
                    tracing::warn!(?step, %error, "Step of a stand-in controller failed, will retry");
                    failed = true;
                }
            }
            tokio::select! {
                () = changed.notified() => sleep(REST).await,
                () = sleep(RETRY), if failed => {}
            }
        }
    }

    async fn carry_out(&self, step: &Step) -> Result<(), kube::Error> {
        match self.collect(step).await {
            // The object exists already, is gone, is another one by now, or its namespace is being deleted. If a step is
            // still due, the next plan has it.
            Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => Ok(()),
            done => done,
        }
    }

    async fn collect(&self, step: &Step) -> Result<(), kube::Error> {
        match step {
            // If the owner exists, its cache is behind.
            Step::Collect { object, owner } => match self.is_there(owner).await? {
                false => self.delete(object, Propagation::Background).await,
                true => Ok(()),
            },
            Step::Delete { object, propagation } => self.delete(object, *propagation).await,
            Step::Release { object, owner_uid } => {
                let owners = json!([{"$patch": "delete", "uid": owner_uid.to_string()}]);
                self.patch(object, json!({"ownerReferences": owners})).await
            }
            Step::Finish { owner, finalizer } => {
                // A merge patch would replace finalizers that another party has added meanwhile.
                self.patch(owner, json!({"$deleteFromPrimitiveList/finalizers": [finalizer]})).await
            }
        }
    }

    /// Whether the owner exists, according to the API server.
    async fn is_there(&self, owner: &Id) -> Result<bool, kube::Error> {
        let found = self.api(owner).get_metadata_opt(&owner.key.name).await?;
        Ok(found.and_then(|found| found.metadata.uid).is_some_and(|uid| uid == owner.uid.to_string()))
    }

    async fn delete(&self, object: &Id, propagation: Propagation) -> Result<(), kube::Error> {
        let params = match propagation {
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Background => DeleteParams::background(),
            Propagation::Orphan => DeleteParams::orphan(),
        };
        let uid = Some(object.uid.to_string());
        let params = params.preconditions(Preconditions { uid, resource_version: None });
        self.api(object).delete(&object.key.name, &params).await.map(drop)
    }

    /// Applies a strategic merge patch to the object's metadata.
    async fn patch(&self, object: &Id, mut metadata: Value) -> Result<(), kube::Error> {
        metadata["uid"] = object.uid.to_string().into();
        let patch: Patch<Value> = Patch::Strategic(json!({"metadata": metadata}));
        self.api(object).patch_metadata(&object.key.name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn api(&self, object: &Id) -> Api<DynamicObject> {
        let GroupVersionResource { group, version, resource } = object.kind.resource();
        let kind = GroupVersionKind::gvk(&group, &version, object.kind.name());
        let resource = ApiResource::from_gvk_with_plural(&kind, &resource);
        Api::namespaced_with(self.client.clone(), &object.key.namespace, &resource)
    }
}
