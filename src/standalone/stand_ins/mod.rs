//! Stands in for controllers that this program does not have yet, as far as users of a cluster need them:
//!
//! | upstream's controller | what the stand-in does |
//! |---|---|
//! | `namespace-controller` | deletes what is in a deleted namespace, and finalizes it |
//! | `clusterrole-aggregation-controller` | writes the rules of aggregated roles |
//! | `garbage-collector-controller` | deletes or releases what belongs to deleted workloads: their pods, ReplicaSets, ControllerRevisions and claims |
//!
//! The stand-ins cache metadata alone (except for roles), plan anew after every change, and retry what failed.

mod garbage;
mod namespace;
mod plan;
mod roles;

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, Preconditions,
};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, Meta};
use steersman_client::discovery;
use steersman_client::fault::told;
use steersman_controller::client::Propagation;
use steersman_informer::factory::Options;
use steersman_informer::{AnyInformer, SharedInformerFactory};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use garbage::{Deletion, FOREGROUND, Id, Kind, ORPHAN};
use plan::{Namespace, Observed, Step, plan};

const RBAC: &str = "rbac.authorization.k8s.io";
/// The least time between two plans, so that one plan serves many changes.
const REST: Duration = Duration::from_millis(20);
/// The delay until a namespace that is not empty yet is looked at again.
const RECHECK: Duration = Duration::from_millis(200);
/// The delay until a failed step is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Does the work of the missing controllers.
pub(super) struct StandIns {
    /// The client for watches, without limits and retries.
    pub(super) watch: kube::Client,
    /// The client for all other calls.
    pub(super) client: kube::Client,
}

/// Why a step failed. The caller retries it.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The API server refused a call, or did not answer.
    #[error("{}", told(.0))]
    Call(#[from] kube::Error),
    /// Discovery of the API server's kinds failed.
    #[error(transparent)]
    Discover(#[from] discovery::Error),
    /// A request could not be built.
    #[error(transparent)]
    Request(#[from] http::Error),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing is left to do for it.
    Done,
    /// Another party must finish first. The caller must repeat the step.
    Waits,
}

/// The caches.
struct Seen {
    namespaces: Arc<dyn AnyInformer>,
    /// The objects of each kind, dependents before their owners.
    objects: [(Kind, Arc<dyn AnyInformer>); Kind::ALL.len()],
}

impl Seen {
    fn new(factory: &SharedInformerFactory) -> Self {
        Self {
            namespaces: factory.dynamic(&GroupVersionResource::new("", "v1", "namespaces")),
            objects: Kind::ALL.map(|kind| (kind, factory.dynamic(&kind.resource()))),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
        std::iter::once(&self.namespaces).chain(self.objects.iter().map(|(_, informer)| informer))
    }

    fn observe(&self) -> Observed {
        let mut observed = Observed::default();
        self.namespaces.for_each_meta(&mut |meta| {
            let state = if meta.is_deleting() { Namespace::Terminating } else { Namespace::Active };
            observed.namespaces.insert(meta.key.name.to_string(), state);
        });
        // Dependents are read before their owners: the owner of an object in this read was created before the object, so
        // that the later read has it too.
        for (kind, informer) in &self.objects {
            informer.for_each_meta(&mut |meta| {
                let id = Id { kind: *kind, key: meta.key.clone(), uid: meta.uid.clone() };
                let (owners, deletion) = (meta.owners.to_vec(), deletion(meta));
                observed.objects.push(garbage::Object { id, owners, deletion });
            });
        }
        observed
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
        let roles = factory.dynamic(&GroupVersionResource::new(RBAC, "v1", "clusterroles"));
        let roles_changed = Arc::new(Notify::new());
        let changes = Arc::clone(&roles_changed);
        roles.map_meta(Box::new(move |_| changes.notify_one()));
        factory.start();
        let work =
            async { tokio::join!(self.work(&seen, &changed), self.gather_roles(&roles, &roles_changed)) };
        stop.run_until_cancelled(work).await;
        factory.shutdown().await;
    }

    /// Keeps the rules of aggregated roles up to date.
    async fn gather_roles(&self, roles: &Arc<dyn AnyInformer>, changed: &Notify) {
        let _ = roles.watch_synced().wait_for(|synced| *synced).await;
        loop {
            while let Err(error) = roles::gather(&self.client).await {
                tracing::warn!(%error, "Gathering the rules of roles failed, will retry");
                sleep(RETRY).await;
            }
            changed.notified().await;
            sleep(REST).await;
        }
    }

    async fn work(&self, seen: &Seen, changed: &Notify) {
        for informer in seen.all() {
            // It fails only during shutdown, when the informer is gone.
            let _ = informer.watch_synced().wait_for(|synced| *synced).await;
        }
        loop {
            let mut again = None;
            for step in plan(&seen.observe()) {
                let wait = match self.carry_out(&step).await {
                    Ok(Outcome::Done) => continue,
                    Ok(Outcome::Waits) => RECHECK,
                    Err(error) => {
                        tracing::warn!(?step, %error, "Step of a stand-in controller failed, will retry");
                        RETRY
                    }
                };
                again = Some(again.map_or(wait, |other: Duration| other.min(wait)));
            }
            tokio::select! {
                () = changed.notified() => sleep(REST).await,
                () = sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
        }
    }

    async fn carry_out(&self, step: &Step) -> Result<Outcome, Error> {
        let done = match step {
            Step::Empty(name) => return namespace::empty(&self.client, name).await,
            Step::Garbage(step) => self.collect(step).await,
        };
        match done {
            Ok(()) => Ok(Outcome::Done),
            // The object exists already, is gone, is another one by now, or its namespace is being deleted. If a step is
            // still due, the next plan has it.
            Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    async fn collect(&self, step: &garbage::Step) -> Result<(), kube::Error> {
        match step {
            // If the owner exists, its cache is behind.
            garbage::Step::Collect { object, owner } => match self.is_there(owner).await? {
                false => self.delete(object, Propagation::Background).await,
                true => Ok(()),
            },
            garbage::Step::Delete { object, propagation } => self.delete(object, *propagation).await,
            garbage::Step::Release { object, owner_uid } => {
                let owners = json!([{"$patch": "delete", "uid": owner_uid.to_string()}]);
                self.patch(object, json!({"ownerReferences": owners})).await
            }
            garbage::Step::Finish { owner, finalizer } => {
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
