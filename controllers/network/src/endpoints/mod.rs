//! The endpoints controller: writes the addresses and ports of each service's pods into an Endpoints object.
//!
//! ```text
//! pod ─> services that select it (membership) ──────────────────────────┐
//! service ─────────────────────────────────────────────────────────────┼─> queue `endpoint` ─> sync
//! Endpoints deleted, or without service at the start ──────────────────┘
//!
//! sync: service, pods it selects, Endpoints ─> offers of the pods ─> repack ─> truncate ─> compare ─> write
//! ```
//!
//! The controller writes byte for byte what the Go controller writes for the same services and pods. So neither rewrites
//! anything when it takes over from the other.

pub mod capacity;
pub mod manifest;
pub mod offers;
pub mod plan;
pub mod repack;

pub(crate) mod canonical;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{Meta, ObjectKey, ResourceVersion, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::Lister;
use steersman_informer::shared_informer::Change;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Object, keep};

use self::manifest::Manifest;
use self::plan::{CONTROLLER_NAME, Observed, Step, plan};
use crate::membership::{Membership, RoutedService, ServedPod, Triggers, is_served, unreadable};
use steersman_controller::call::{Content, PROTOBUF};
use steersman_controller::client::{Changed, Client, Created, Delete, Wrote, event_reference};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{QueueLoop, TaskLoop};
use steersman_kinds::endpoints::{self, Endpoints};

/// The registry's entry of the endpoints controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("endpoints-controller", &["endpoint", "endpoints"], construct)
        .options::<EndpointsOptions>()
        .rules(RULES);

options! {
    /// Settings of the endpoints controller.
    pub struct EndpointsOptions("EndpointController") {
        /// Maximum number of services whose Endpoints are synced concurrently
        pub concurrent_syncs: Workers = Workers(5), "concurrent-endpoint-syncs", "ConcurrentEndpointSyncs";
        /// How long a sync is delayed after a change of a pod, so that it handles several changes at once
        pub updates_batch_period: Duration = Duration::ZERO,
            "endpoint-updates-batch-period", "EndpointUpdatesBatchPeriod";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["services", "pods"], &["list", "watch"]),
    Rule::new(&[""], &["endpoints"], &["get", "list", "watch", "create", "update", "delete"]),
    Rule::new(&[""], &["endpoints/restricted"], &["create"])
        .because("Addresses of the cluster's own ranges may be written into Endpoints."),
];

keep! {
    /// The fields of Endpoints that the controller compares, and those that an update must send back.
    pub struct WrittenEndpoints: Endpoints => endpoints::Annotations, endpoints::Content
}

/// The annotation of Endpoints that an old component uses as a lock for leader election. They have no service, and the
/// controller must not delete them.
pub(crate) const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// How long a sync waits for the cache to show this controller's last write of the object, before it reads the object from
/// the API server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Constructs the controller for the registry.
///
/// # Errors
/// If the informer of one of its kinds runs already, without the fields that this controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: EndpointsOptions = context.options();
    let pods = context.informers.informer::<ServedPod>()?;
    let services = context.informers.informer::<RoutedService>()?;
    let endpoints = context.informers.informer::<WrittenEndpoints>()?;
    let queue: WorkQueue<ObjectKey> = context.queue("endpoint");
    let controller = Arc::new(EndpointsController {
        client: Client::keeping::<WrittenEndpoints>(context.client_for(CONTROLLER_NAME)),
        recorder: context.recorder(CONTROLLER_NAME),
        membership: Membership::new(&services, &pods),
        services: services.lister(),
        endpoints: endpoints.lister(),
        own_writes: OwnWrites::new(PATIENCE).over(&endpoints.any()),
        triggers: Mutex::default(),
    });

    services.map({
        let queue = queue.clone();
        move |change| queue.add(change.key().clone())
    });
    pods.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        let batch_period = options.updates_batch_period;
        move |change| {
            let concerned = controller.membership.services_to_sync(change);
            concerned.into_iter().for_each(|service| queue.add_after(service, batch_period));
        }
    });
    endpoints.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        move |change| match change {
            Change::Deleted { .. } if !matches!(controller.services.get(change.key()), Ok(None)) => {
                queue.add(change.key().clone());
            }
            // The service is gone, so no sync of it follows. A new service of this name queues its key when it appears.
            Change::Deleted { .. } => {
                controller.own_writes.forget(change.key());
                queue.wake(change.key());
            }
            _ => queue.wake(change.key()),
        }
    });

    let sweep = TaskLoop::new("leftover-endpoints", {
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        move |_stop| {
            controller.leftovers().into_iter().for_each(|key| queue.add(key));
            std::future::ready(())
        }
    });
    let workers = options.concurrent_syncs.0;
    let syncs = QueueLoop::new(controller, queue).workers(workers);
    Ok(Construction::new([syncs.into(), sweep.into()], [pods.any(), services.any(), endpoints.any()]))
}

/// Keeps Endpoints up to date with services and pods. Its keys are those of services.
pub struct EndpointsController {
    client: Client<Endpoints>,
    recorder: Recorder,
    membership: Membership,
    services: Lister<RoutedService>,
    endpoints: Lister<WrittenEndpoints>,
    own_writes: OwnWrites,
    /// The times of changes that the last successful sync of each service saw.
    triggers: Mutex<HashMap<ObjectKey, Triggers>>,
}

impl EndpointsController {
    /// The keys of all Endpoints except those that serve as locks. The syncs of these keys delete the Endpoints whose
    /// service was deleted while no controller ran.
    fn leftovers(&self) -> Vec<ObjectKey> {
        let (all, unreadable) = self.endpoints.list_readable();
        for error in unreadable {
            tracing::error!(%error, "Unreadable Endpoints will not be cleaned up");
        }
        let swept = all.iter().filter(|one| one.object().annotations().get(LEADER_ANNOTATION).is_none());
        swept.map(|one| one.meta().key.clone()).collect()
    }

    /// The object as the cache has it. `None` also if this controller has deleted it.
    fn cached(&self, key: &ObjectKey) -> Result<Option<Arc<Endpoints>>, SyncError> {
        let current = self.endpoints.get(key).map_err(unreadable)?.map(|view| Arc::clone(view.object()));
        let shown = |uid: &Uid| {
            current.as_ref().is_some_and(|now| now.meta().uid == *uid && !now.meta().is_deleting())
        };
        let gone = self.own_writes.gone::<Endpoints>(key, shown);
        Ok(current.filter(|now| !gone.is_condemned(&now.meta().uid)))
    }

    /// The object as the API server has it.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Arc<Endpoints>>, SyncError> {
        let current = self.client.get(key).await?;
        let version = current.as_ref().map_or(ResourceVersion::ANY, |now| now.meta().resource_version);
        let spared = |uid: &Uid| current.as_ref().is_some_and(|now| now.meta().uid == *uid);
        self.own_writes.reread(key, [Wrote::of::<Endpoints>(version)], spared);
        Ok(current)
    }

    async fn create(&self, key: &ObjectKey, manifest: &Manifest) -> Result<(), SyncError> {
        let create = self.client.create(&key.namespace, content(manifest));
        let created = match self.own_writes.write(key, create).await {
            Ok(Created::Exists(status)) => {
                Err(SyncError::Refused { what: format!("creating endpoints {key}"), status })
            }
            // The API server creates nothing in a namespace that is being deleted. Upstream records no event for that
            // either.
            Ok(Created::Now(_) | Created::NamespaceTerminating) => Ok(()),
            Err(error) => Err(error),
        };
        created.inspect_err(|error| {
            let what = format!("Failed to create endpoint for service {key}");
            self.record_failure(manifest, "FailedToCreateEndpoint", &what, error);
        })
    }

    async fn update(&self, key: &ObjectKey, manifest: &Manifest) -> Result<(), SyncError> {
        let what = || format!("updating endpoints {key}");
        let updated = match self.own_writes.write(key, self.client.update(key, content(manifest))).await {
            Ok(Changed::Gone) => Err(SyncError::Failed(format!("{}: the object no longer exists", what()))),
            Ok(changed) => changed.or_conflict(what).map(drop),
            Err(error) => Err(error),
        };
        updated.inspect_err(|error| {
            let what = format!("Failed to update endpoint {key}");
            self.record_failure(manifest, "FailedToUpdateEndpoint", &what, error);
        })
    }

    /// Deletes the object. Ignores that it does not exist or has another uid: the cache will show that.
    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), SyncError> {
        let delete = Delete::of(uid);
        let delete = self.client.delete(key, &delete);
        self.own_writes.remove::<Endpoints, _>(key, uid, delete).await.map(drop)
    }

    fn record_failure(&self, manifest: &Manifest, reason: &'static str, what: &str, error: &SyncError) {
        if error.is_end_of_leadership() {
            return;
        }
        // The event has the API server's message, as upstream's, if the server sent one.
        let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
        let of = &manifest.metadata;
        let meta = Meta {
            key: ObjectKey::new(of.namespace.clone(), of.name.clone()),
            uid: of.uid.clone(),
            resource_version: of.resource_version,
            ..Meta::default()
        };
        let involved = event_reference::<Endpoints>(&meta);
        self.recorder.event(&involved, EventType::Warning, reason, format!("{what}: {why}"));
    }
}

impl Controller for EndpointsController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = ();

    /// Forgets the times of changes, since another leader may have written them meanwhile. Keeps `own_writes`, which stay
    /// valid.
    fn term_begins(&self) {
        self.triggers.lock().clear();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let current = match self.own_writes.check(key) {
            Freshness::Current => match self.cached(key)? {
                // Another leader may have written the object just before the service was deleted, and no later event would
                // queue this key. (Upstream deletes the object without reading it.)
                None if self.services.get(key).map_err(unreadable)?.is_none() => self.read(key).await?,
                cached => cached,
            },
            Freshness::Behind { .. } => return Ok(Observation::Behind(PATIENCE)),
            Freshness::Doubtful => self.read(key).await?,
        };
        // Read the service after the object: a service that was created meanwhile keeps its Endpoints.
        let service = self.services.get(key).map_err(unreadable)?;
        let (mut pods, mut trigger, mut triggers) = (Vec::new(), None, None);
        match &service {
            Some(service) if is_served(service) => {
                pods = self.membership.selected(service)?;
                let seen = Triggers::of(service, &pods);
                trigger = seen.since(self.triggers.lock().get(key));
                triggers = Some(seen);
            }
            Some(_) => {}
            None => {
                self.triggers.lock().remove(key);
                if current.is_none() {
                    self.own_writes.forget(key);
                    return Ok(Observation::Nothing);
                }
            }
        }
        Ok(Observation::Ready(Observed { service, pods, current, trigger, triggers, written: false }))
    }

    fn plan(&self, observed: &Observed, _now: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, _observed: &Observed, step: &Step) -> Result<(), SyncError> {
        match step {
            Step::Create(manifest) => self.create(key, manifest).await,
            Step::Update(manifest) => self.update(key, manifest).await,
            Step::Delete { uid } => self.delete(key, uid).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, _step: Step, result: StepResult<()>) {
        observed.written = matches!(result, StepResult::Done(()));
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        let seen = sync.observed.and_then(|observed| observed.triggers);
        if let (Ok(()), Some(seen)) = (sync.result, seen) {
            self.triggers.lock().insert(key.clone(), seen);
        }
    }
}

fn content(manifest: &Manifest) -> Content {
    Content { media_type: PROTOBUF, bytes: manifest.to_protobuf().into() }
}
