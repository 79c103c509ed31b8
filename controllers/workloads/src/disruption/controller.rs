//! Syncs of budgets: where observations come from, and how steps are carried out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, StatusChange, StatusWriter, Wrote, event_reference};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_controller::registry::{BoxError, Construction};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};
use steersman_informer::wire::Object;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Informer, Lister, View};
use steersman_kinds::pod;
use steersman_kinds::pod_disruption_budget::PodDisruptionBudget;

use super::budget::Budget;
use super::foreign::Scales;
use super::notice::{Notice, several_budgets};
use super::observed::{Done, Observed};
use super::owners::{Owner, Owners};
use super::plan::{Outcome, Step, plan};
use super::pods::{Pod, matters};
use super::selecting::Guarded;
use super::stale::StaleMarks;
use super::status::Status;
use super::{GuardedPod, SyncedBudget};

/// The name of the controller's client.
const COMPONENT: &str = "disruption-controller";
/// The source of the controller's events, which upstream names after the whole program.
const EVENT_SOURCE: &str = "controllermanager";
/// How long a sync waits for the cache to show the controller's own write, before it asks the API server.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a sync is put off at a time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How often a sync reads a budget again after a conflict. Then the key's back-off makes way for the other writers.
const REREADS: u32 = 3;

/// Keeps the statuses of budgets.
struct Disruption {
    budgets: Lister<SyncedBudget>,
    pods: Lister<GuardedPod>,
    guarded: Guarded,
    owners: Owners,
    scales: Scales,
    client: Client<PodDisruptionBudget>,
    status: StatusWriter<PodDisruptionBudget>,
    own_writes: OwnWrites,
    /// The budgets with disrupted pods that the controller itself wrote last.
    agreements: Mutex<HashMap<ObjectKey, Agreement>>,
    recorder: Recorder,
    rechecks: WorkQueue<ObjectKey>,
}

/// An own write of a status with disrupted pods. It added none, so that the entries are older than the write.
#[derive(Clone, Copy)]
struct Agreement {
    /// The version that the write gave the budget.
    written: ResourceVersion,
    /// The [version](Observed::agreed_at) at which the budget had all entries.
    agreed_at: ResourceVersion,
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads.
pub(super) fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let sender = context.client_for(COMPONENT);
    let budgets = context.informers.informer::<SyncedBudget>()?;
    let pods = context.informers.informer::<GuardedPod>()?;
    let owners = Owners::new(&context.informers)?;
    let guarded = Guarded::new(&budgets, &pods);
    let queue = context.queue("disruption");
    let rechecks = context.queue("disruption_recheck");
    let stale_marks = context.queue("stale_pod_disruption");
    let recorder = context.recorder(EVENT_SOURCE);
    map(&budgets, &pods, &guarded, &queue, &recorder);
    super::stale::map(&pods, &stale_marks, &context.clock);

    let caches = [budgets.any(), pods.any()].into_iter().chain(owners.caches());
    let client = Client::keeping::<SyncedBudget>(sender.clone());
    let controller = Disruption {
        budgets: budgets.lister(),
        pods: pods.lister(),
        guarded,
        owners,
        scales: Scales::new(sender.clone(), Arc::clone(&context.rest_mapper)),
        status: StatusWriter::new(client.clone()),
        client,
        own_writes: OwnWrites::new(PATIENCE).over(&budgets.any()),
        agreements: Mutex::default(),
        recorder,
        rechecks: rechecks.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue.clone()).give_up(GiveUp::Never);
    let marks = StaleMarks::new(pods.lister(), Client::new(sender));
    let unmarks = QueueLoop::new(Arc::new(marks), stale_marks).give_up(GiveUp::Never);
    let due = TaskLoop::new("rechecks", move |stop| {
        let (rechecks, queue) = (rechecks.clone(), queue.clone());
        async move {
            while let Some(Some(due)) = stop.run_until_cancelled(rechecks.get()).await {
                queue.add_rate_limited(due.key().clone());
                due.finish();
            }
        }
    });
    Ok(Construction::new([syncs.into(), due.into(), unmarks.into()], caches))
}

/// Enqueues each budget that changes, and the budgets of each pod that changes.
fn map(
    budgets: &Informer<SyncedBudget>,
    pods: &Informer<GuardedPod>,
    guarded: &Guarded,
    queue: &WorkQueue<ObjectKey>,
    recorder: &Recorder,
) {
    let changed = queue.clone();
    budgets.map(move |change| {
        changed.wake(change.key());
        changed.add(change.key().clone());
    });
    let (guarded, queue, recorder) = (guarded.clone(), queue.clone(), recorder.clone());
    pods.map(move |change| {
        if let Change::Updated { old, new } = change {
            if !matters(old, new) {
                return;
            }
            // Unlike upstream's, budgets that no longer select the pod notice that, too.
            if old.meta().labels != new.meta().labels {
                let left = guarded.budgets_of(&old.meta().key.namespace, &old.meta().labels);
                left.into_iter().for_each(|budget| queue.add(budget));
            }
        }
        let pod = change.newest().meta();
        let found = guarded.budgets_of(&pod.key.namespace, &pod.labels);
        if let (Some(first), 2.., Some(_)) = (found.first(), found.len(), change.new()) {
            let message = several_budgets(&pod.key, first);
            let involved = event_reference::<pod::Pod>(pod);
            recorder.event(&involved, EventType::Warning, "MultiplePodDisruptionBudgets", message);
        }
        // Unlike upstream, which syncs only one of several budgets.
        found.into_iter().for_each(|budget| queue.add(budget));
    });
}

impl Disruption {
    fn observed(&self, budget: Budget) -> Observed {
        // Pods that are read later are no older than this version.
        let pods_version = self.pods.last_sync_resource_version();
        let key = &budget.meta.key;
        let mut owners = HashMap::new();
        let pods = self.guarded.pods_of(&key.namespace, budget.selector.as_ref());
        let pods = pods.map(|pods| pods.iter().map(|pod| self.pod(pod, &budget, &mut owners)).collect());
        let version = budget.meta.resource_version;
        let agreement = self.agreements.lock().get(key).copied();
        let agreed_at = agreement.filter(|own| own.written == version).map_or(version, |own| own.agreed_at);
        Observed { pods, pods_version, agreed_at, foreign: HashMap::new(), done: Done::default(), budget }
    }

    fn pod(&self, pod: &View<GuardedPod>, budget: &Budget, owners: &mut HashMap<Uid, Owner>) -> Pod {
        let meta = pod.meta();
        let owner = match meta.controller().filter(|_| budget.bound.needs_scale()) {
            None => Owner::Unmanaged,
            Some(reference) => {
                let find = || self.owners.of(reference, &meta.key.namespace);
                owners.entry(reference.uid.clone()).or_insert_with(find).clone()
            }
        };
        Pod { meta: meta.clone(), ready: pod.get::<pod::Readiness>().ready.is_true(), owner }
    }

    /// Reads a budget from the API server. From now on syncs wait for the cache to show that state.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Budget>, SyncError> {
        let Some(found) = self.client.get(key).await? else { return Ok(None) };
        let budget = Budget::of(&found);
        let version = Wrote::of::<PodDisruptionBudget>(budget.meta.resource_version);
        self.own_writes.reread(key, [version], |_| false);
        Ok(Some(budget))
    }

    fn record(&self, budget: &Budget, notice: &Notice) {
        let involved = match notice {
            Notice::NotDeleted(pod) => event_reference::<pod::Pod>(pod),
            _ => event_reference::<PodDisruptionBudget>(&budget.meta),
        };
        let (kind, reason, message) = notice.event(&budget.meta.key);
        self.recorder.event(&involved, kind, reason, message);
    }

    async fn write_status(&self, observed: &Observed, status: &Status) -> Result<Outcome, SyncError> {
        let meta = &observed.budget.meta;
        let Some(change) = StatusChange::between(meta, &observed.budget.status, status) else {
            return Ok(Outcome::Written(meta.resource_version));
        };
        let write = self.status.write(&meta.key, &change);
        let version = match self.own_writes.write(&meta.key, write).await? {
            Changed::Now(written) => written.meta().resource_version,
            Changed::Gone => return Ok(Outcome::Gone),
            Changed::Conflict(_) if observed.done.conflicts < REREADS => return Ok(Outcome::Outdated),
            Changed::Conflict(status) => {
                let what = format!("writing the status of PodDisruptionBudget {}", meta.key);
                return Err(SyncError::Refused { what, status });
            }
        };
        let agreement = Agreement { written: version, agreed_at: observed.agreed_at };
        let mut agreements = self.agreements.lock();
        if status.disrupted_pods.is_empty() {
            agreements.remove(&meta.key);
        } else {
            agreements.insert(meta.key.clone(), agreement);
        }
        Ok(Outcome::Written(version))
    }
}

impl Controller for Disruption {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.own_writes.clear();
        self.agreements.lock().clear();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let unreadable = |error: steersman_informer::Unreadable| {
            SyncError::Unreadable(format!("PodDisruptionBudget {error}"))
        };
        let budget = match self.own_writes.check(key) {
            Freshness::Behind { .. } => return Ok(Observation::Behind(LOOK_AGAIN)),
            Freshness::Doubtful => self.read(key).await?,
            Freshness::Current => {
                self.budgets.get(key).map_err(unreadable)?.map(|budget| Budget::of(budget.object()))
            }
        };
        let Some(budget) = budget else {
            self.own_writes.forget(key);
            self.agreements.lock().remove(key);
            return Ok(Observation::Nothing);
        };
        Ok(Observation::Ready(self.observed(budget)))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::ReadScale(owner) => Ok(Outcome::Scale(self.scales.read(&key.namespace, owner).await?)),
            Step::Record(notice) => {
                self.record(&observed.budget, notice);
                Ok(Outcome::Done)
            }
            Step::WriteStatus(status) => self.write_status(observed, status).await,
            Step::Reread => {
                let budget = self.read(key).await?;
                Ok(budget.map_or(Outcome::Gone, |budget| Outcome::Reread(Box::new(budget))))
            }
            Step::Recheck(after) => {
                self.rechecks.add_after(key.clone(), *after);
                Ok(Outcome::Done)
            }
        }
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Outdated | Outcome::Gone)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}
