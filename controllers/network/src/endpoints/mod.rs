//! The endpoints controller: says in Endpoints objects where services lead.
//!
//! ```text
//! pod ─> services that select it (index by one label of the selector) ─┐
//! service ─────────────────────────────────────────────────────────────┼─> queue `endpoint` ─> sync
//! Endpoints deleted, or left over at the start ────────────────────────┘
//!
//! sync: service, pods it selects, Endpoints ─> offers of the pods ─> repack ─> truncate ─> the same? ─> write
//! ```
//!
//! What is written is byte for byte what the Go controller writes for the same services and pods, so that taking over from
//! it or handing back to it rewrites nothing.

pub mod capacity;
pub mod manifest;
pub mod membership;
pub mod offers;
pub mod plan;
pub mod repack;
pub mod trigger_time;

mod canonical;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::meta::Labels;
use steersman_api::{ArcStr, Meta, ObjectKey, ResourceVersion, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::Lister;
use steersman_informer::Unreadable;
use steersman_informer::index::{BY_NAMESPACE, Index, by_namespace};
use steersman_informer::shared_informer::Change;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Object, View, keep};

use self::manifest::Manifest;
use self::membership::{BY_SELECTOR, by_selector, entries, services_to_sync};
use self::plan::{CONTROLLER_NAME, Observed, Step, is_served, plan};
use self::trigger_time::Triggers;
use steersman_controller::call::{Content, PROTOBUF};
use steersman_controller::client::{Changed, Client, Created, Delete, Wrote, event_reference};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::own_writes::{Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{QueueLoop, TaskLoop};
use steersman_kinds::endpoints::{self, Endpoints};
use steersman_kinds::pod::{Addresses, Offer, Phase, Placement, Pod, Readiness};
use steersman_kinds::service::{Routing, Service};

/// The row of the endpoints controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("endpoints-controller", &["endpoint", "endpoints"], construct)
        .options::<EndpointsOptions>()
        .rules(RULES);

options! {
    /// Settings of the endpoints controller.
    pub struct EndpointsOptions("EndpointController") {
        /// How many services have their endpoints synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-endpoint-syncs", "ConcurrentEndpointSyncs";
        /// How long the controller gathers changes of pods before it writes endpoints
        pub updates_batch_period: Duration = Duration::ZERO,
            "endpoint-updates-batch-period", "EndpointUpdatesBatchPeriod";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["services"], &["get", "list", "watch"]),
    Rule::new(&[""], &["pods"], &["list", "watch"]),
    Rule::new(&[""], &["endpoints"], &["get", "list", "watch", "create", "update", "delete"]),
    Rule::new(&[""], &["endpoints/restricted"], &["create"])
        .because("Addresses of the cluster's own ranges may be written into Endpoints."),
];

keep! {
    /// What endpoints tell of a pod.
    pub struct ServedPod: Pod => Placement, Phase, Readiness, Addresses, Offer
}
keep! {
    /// What endpoints depend on of a service.
    pub struct RoutedService: Service => Routing
}
keep! {
    /// What is compared of Endpoints, and what must be written back.
    pub struct WrittenEndpoints: Endpoints => endpoints::Annotations, endpoints::Content
}

/// Endpoints that some old component uses as a lock carry this annotation: they have no service, and must stay.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// How long a sync waits for the cache to show this controller's last write of the object, before it reads the object itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the controller, as the registry has it.
///
/// # Errors
/// One of its caches runs already, without what it needs.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: EndpointsOptions = context.options();
    let pods = context.informers.informer::<ServedPod>()?;
    let services = context.informers.informer::<RoutedService>()?;
    let endpoints = context.informers.informer::<WrittenEndpoints>()?;
    let queue: WorkQueue<ObjectKey> = context.queue("endpoint");
    let controller = Arc::new(EndpointsController {
        client: Client::keeping::<WrittenEndpoints>(context.client_for(CONTROLLER_NAME)),
        recorder: context.recorder(CONTROLLER_NAME),
        pods: pods.lister(),
        pods_by_namespace: pods.add_index(BY_NAMESPACE, by_namespace),
        services: services.lister(),
        services_by_selector: services.add_index(BY_SELECTOR, by_selector),
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
            // Services of the first pods are queued by their own first sight.
            if !matches!(change, Change::Added { initial: true, .. }) {
                let namespace = &change.key().namespace;
                let concerned = services_to_sync(change, |labels| controller.selecting(namespace, labels));
                concerned.into_iter().for_each(|service| queue.add_after(service, batch_period));
            }
        }
    });
    endpoints.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        move |change| match change {
            Change::Deleted { .. } if !matches!(controller.services.get(change.key()), Ok(None)) => {
                queue.add(change.key().clone());
            }
            // No sync comes for a service that is gone, and the first sight of a new one queues its key.
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

/// Keeps Endpoints in step with services and pods. Its keys are those of services.
pub struct EndpointsController {
    client: Client<Endpoints>,
    recorder: Recorder,
    pods: Lister<ServedPod>,
    pods_by_namespace: Index<ServedPod>,
    services: Lister<RoutedService>,
    services_by_selector: Index<RoutedService>,
    endpoints: Lister<WrittenEndpoints>,
    own_writes: OwnWrites,
    /// What the last successful sync of each served service saw.
    triggers: Mutex<HashMap<ObjectKey, Triggers>>,
}

impl EndpointsController {
    /// The services of a namespace that select pods with these labels.
    fn selecting(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        let mut found = BTreeSet::new();
        for entry in entries(namespace, labels) {
            match self.services.by_index(&self.services_by_selector, &entry) {
                Ok(services) => {
                    let selecting =
                        services.iter().filter(|service| service.get::<Routing>().selects(labels));
                    found.extend(selecting.map(|service| service.meta().key.clone()));
                }
                // One of them can't be read, and the others must not suffer for it: all of the namespace are synced.
                Err(_) => self.services.for_each_meta(|meta| {
                    if meta.key.namespace == *namespace {
                        found.insert(meta.key.clone());
                    }
                }),
            }
        }
        found
    }

    /// The pods that a service selects. One of them that can't be read is an error; what becomes of others is no matter.
    fn selected(&self, service: &View<RoutedService>) -> Result<Vec<View<ServedPod>>, SyncError> {
        let (routing, namespace) = (service.get::<Routing>(), &service.meta().key.namespace);
        let selects = |pod: &Meta| routing.selects(&pod.labels);
        self.pods
            .by_index_where(&self.pods_by_namespace, &namespace.clone().into(), selects)
            .map_err(unreadable)
    }

    /// All Endpoints, to see whether they still have a service: it may have gone while no controller ran. Those that are
    /// somebody's lock never had one.
    fn leftovers(&self) -> Vec<ObjectKey> {
        let (all, unreadable) = self.endpoints.list_readable();
        for error in unreadable {
            tracing::error!(%error, "Endpoints that can't be read will not be cleaned up");
        }
        let swept = all.iter().filter(|one| one.object().annotations().get(LEADER_ANNOTATION).is_none());
        swept.map(|one| one.meta().key.clone()).collect()
    }

    /// The object as the cache has it, `None` also for one that this controller has deleted already.
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
            // In a namespace that is being deleted nothing can be created, and no event tells of it.
            Ok(Created::Now(_) | Created::NamespaceTerminating) => Ok(()),
            Err(error) => Err(error),
        };
        created.inspect_err(|error| {
            let what = format!("Failed to create endpoint for service {key}");
            self.say_failed(manifest, "FailedToCreateEndpoint", &what, error);
        })
    }

    async fn update(&self, key: &ObjectKey, manifest: &Manifest) -> Result<(), SyncError> {
        let what = || format!("updating endpoints {key}");
        let updated = match self.own_writes.write(key, self.client.update(key, content(manifest))).await {
            Ok(Changed::Gone) => Err(SyncError::Failed(format!("{}: they are gone", what()))),
            Ok(changed) => changed.or_conflict(what).map(drop),
            Err(error) => Err(error),
        };
        updated.inspect_err(|error| {
            let what = format!("Failed to update endpoint {key}");
            self.say_failed(manifest, "FailedToUpdateEndpoint", &what, error);
        })
    }

    /// If the object is gone already, or another has its name, the cache will tell.
    async fn delete(&self, key: &ObjectKey, uid: &Uid) -> Result<(), SyncError> {
        let delete = Delete::of(uid);
        let delete = self.client.delete(key, &delete);
        self.own_writes.remove::<Endpoints, _>(key, uid, delete).await.map(drop)
    }

    fn say_failed(&self, manifest: &Manifest, reason: &'static str, what: &str, error: &SyncError) {
        if error.is_end_of_leadership() {
            return;
        }
        // As upstream the server's own words, where it said something.
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

    /// What this process has written holds for ever; what it has seen was meanwhile somebody else's to act on.
    fn term_begins(&self) {
        self.triggers.lock().clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let current = match self.own_writes.check(key) {
            Freshness::Current => match self.cached(key)? {
                // Another leader may have written them just before the service went, and no later event would bring this
                // key back. (Upstream deletes them without looking.)
                None if self.services.get(key).map_err(unreadable)?.is_none() => self.read(key).await?,
                cached => cached,
            },
            Freshness::Behind { .. } => return Ok(Observation::Behind(PATIENCE)),
            Freshness::Doubtful => self.read(key).await?,
        };
        // After the read: a service that was made meanwhile keeps its endpoints.
        let service = self.services.get(key).map_err(unreadable)?;
        let (mut pods, mut trigger, mut triggers) = (Vec::new(), None, None);
        match &service {
            Some(service) if is_served(service) => {
                pods = self.selected(service)?;
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

fn unreadable(error: Unreadable) -> SyncError {
    SyncError::Unreadable(error.to_string())
}
