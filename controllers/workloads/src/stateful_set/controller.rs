//! Syncs of StatefulSets: where observations come from, and which call each step is.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_api::{ArcStr, Meta, ObjectKey, Time};
use steersman_client::events::Recorder;
use steersman_controller::children::{Children, Claim, Family, Sight};
use steersman_controller::client::{Changed, Client, StatusChange, StatusWriter, event_reference};
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_controller::registry::{BoxError, Construction};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::Lister;
use steersman_informer::wire::Object;
use steersman_informer::work_queue::{QueueConfig, WorkQueue};
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::pod::Pod as CachedPod;
use steersman_kinds::stateful_set::StatefulSet;

use crate::revisions::{Comparison, History};

use super::history::{self, Look};
use super::kinds::{MaxUnavailable, set};
use super::mapping;
use super::metrics::Metrics;
use super::observed::{Done, Observed, Set};
use super::plan::{Outcome, PodRef, Step, plan};
use super::pods::Pod;
use super::revisions::Revisions;
use super::status::Status;
use super::{OwnedClaim, StatefulSetOptions, SyncedStatefulSet, identity};

/// The name of the controller's client and of the source of its events.
const COMPONENT: &str = "statefulset-controller";
/// The name of the controller's queue in metrics.
const QUEUE: &str = "statefulset";

/// Keeps the pods of StatefulSets.
pub(super) struct StatefulSetController {
    pub(super) children: Arc<Children<SyncedStatefulSet>>,
    pub(super) claims: Lister<OwnedClaim>,
    pub(super) claim_client: Client<PersistentVolumeClaim>,
    pub(super) history: History<StatefulSet>,
    pub(super) recorder: Recorder,
    status: StatusWriter<StatefulSet>,
    gate: MaxUnavailable,
    clock: Clock,
    metrics: Metrics,
}

pub(super) fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let client = context.client_for(COMPONENT);
    let children = Arc::new(Children::<SyncedStatefulSet>::new(context, &client)?);
    let claims = context.informers.informer::<OwnedClaim>()?;
    let comparison = match context.gates.enabled("StatefulSetSemanticRevisionComparison") {
        true => Comparison::Meaning,
        false => Comparison::Data,
    };
    let history = History::new(context, &client)?.comparing(comparison);
    let metrics = Metrics::register(&context.metrics)?;
    children.own_writes().watch(&claims.any());
    children.own_writes().watch(&history.cache());
    let queue = WorkQueue::new(QueueConfig::new(QUEUE).metrics(&context.queue_metrics));
    mapping::map(&children, &claims, &history, &queue);
    let gate = match context.gates.enabled("MaxUnavailableStatefulSet") {
        true => MaxUnavailable::Counts,
        false => MaxUnavailable::Ignored,
    };
    let mut caches = children.caches().to_vec();
    caches.extend([claims.any(), history.cache()]);
    let controller = StatefulSetController {
        claims: claims.lister(),
        claim_client: Client::new(client),
        history,
        recorder: context.recorder(COMPONENT),
        status: StatusWriter::new(children.owner_client().clone()),
        gate,
        clock: context.clock.clone(),
        metrics,
        children,
    };
    let workers = context.options::<StatefulSetOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], caches))
}

impl StatefulSetController {
    fn observed(&self, family: &Family<SyncedStatefulSet>, set: Set, revisions: Revisions) -> Observed {
        let name = &set.meta.key.name;
        let read = |(pod, claim): &(Arc<CachedPod>, Claim)| {
            let meta = pod.meta();
            let mut read = Pod::of(pod, name, claim_of_member(&set.meta, meta, *claim)?);
            // The cache may still show a pod that is being deleted, or gone, as it was before.
            read.deleting |=
                family.gone.is_condemned(&meta.uid) || family.gone.is_past(&meta.uid, meta.resource_version);
            Some(read)
        };
        let pods: Vec<Pod> = family.children.iter().filter_map(read).collect();
        let (claims, grounds, done) = (HashMap::new(), family.grounds, Done::default());
        let mut observed = Observed { set, pods, claims, revisions, grounds, done };
        observed.claims = self.claims_of(&observed);
        observed
    }

    /// The existing claims of the pods that the set has, and of those that this sync may create.
    fn claims_of(&self, observed: &Observed) -> HashMap<ArcStr, super::claims::Claim> {
        let set = &observed.set;
        if set.claims.is_empty() {
            return HashMap::new();
        }
        let mut ordinals = observed.ordinals();
        ordinals.extend(observed.pods.iter().filter_map(|pod| pod.ordinal));
        let names = ordinals.into_iter().flat_map(|ordinal| set.storage(ordinal).map(|(_, name)| name));
        let existing = |name: ArcStr| {
            let meta = self.claims.meta(&ObjectKey::new(set.meta.key.namespace.clone(), name.clone()))?;
            Some((name, super::claims::Claim::of(&meta)))
        };
        names.filter_map(existing).collect()
    }

    async fn revisions(&self, owner: &StatefulSet, set: &Set, look: Look) -> Result<Revisions, SyncError> {
        history::observe(&self.history, self.children.own_writes(), owner, set, look).await
    }

    /// Observes a set again once the caches show what earlier leaders have written.
    async fn confirm(&self, key: &ObjectKey) -> Result<Option<Box<Observed>>, SyncError> {
        let Some(family) = self.children.confirm(key).await? else { return Ok(None) };
        let set = set(&family.owner, self.gate);
        let revisions = self.revisions(&family.owner, &set, Look::Confirmed).await?;
        Ok(Some(Box::new(self.observed(&family, set, revisions))))
    }

    /// Whether a pod was ever ready: its condition `Ready` has changed since the kubelet started the pod. A pod that is gone
    /// counts as one that was.
    async fn was_ever_ready(&self, pod: &PodRef) -> Result<bool, SyncError> {
        let Some(found) = self.children.child_client().resource().get_json(&pod.key).await? else {
            return Ok(true);
        };
        if found["metadata"]["uid"] != pod.uid.to_string() {
            return Ok(true);
        }
        Ok(super::repair::was_ever_ready(&found["status"]))
    }

    async fn write_status(&self, observed: &Observed, status: &Status) -> Result<Outcome, SyncError> {
        let meta = &observed.set.meta;
        let Some(change) = StatusChange::between(meta, &observed.set.status, status) else {
            return Ok(Outcome::Written(meta.resource_version));
        };
        let write = self.status.write(&meta.key, &change);
        let written = self.children.own_writes().write(&meta.key, write).await?;
        let written = written.or_conflict(|| format!("writing the status of {}", meta.key))?;
        Ok(written.map_or(Outcome::Gone, |set| Outcome::Written(set.meta().resource_version)))
    }
}

/// The relation of a pod to the set. Upstream selects pods by name as well as by labels: the set does not adopt a pod whose name
/// is not `SET-NUMBER`, and releases it if it manages it. `None` if the set must leave the pod alone.
fn claim_of_member(set: &Meta, pod: &Meta, claim: Claim) -> Option<Claim> {
    match claim {
        _ if identity::is_member(&set.key.name, &pod.key.name) => Some(claim),
        Claim::Owned | Claim::Stray => (!set.is_deleting()).then_some(Claim::Stray),
        Claim::Orphan => None,
    }
}

impl Controller for StatefulSetController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.children.term_begins();
        self.history.term_begins();
        self.metrics.term_begins();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.children.own_writes().awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        Ok(match self.children.observe(key).await? {
            Sight::Family(family) => {
                let set = set(&family.owner, self.gate);
                let revisions = self.revisions(&family.owner, &set, Look::Cached).await?;
                Observation::Ready(self.observed(&family, set, revisions))
            }
            Sight::Absent => {
                self.history.forget(key);
                self.metrics.forget(key);
                Observation::Nothing
            }
            Sight::Behind { at_most, newly } => {
                newly.iter().for_each(|resource| self.metrics.stale_sync(resource));
                Observation::Behind(at_most)
            }
        })
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let set = &observed.set.meta;
        let meta = |pod: &PodRef| Meta { key: pod.key.clone(), uid: pod.uid.clone(), ..Meta::default() };
        match step {
            Step::Confirm => self.confirm(key).await.map(Outcome::Observed),
            Step::CheckAlive => self.children.check_alive(set).await.map(|()| Outcome::Done),
            Step::Adopt(pod) => changed(self.children.adopt(set, &meta(pod), &[]).await?, pod),
            Step::Release(pod) => changed(self.children.release(set, &meta(pod), &[]).await?, pod),
            Step::Revision(step) => {
                let own_writes = self.children.own_writes();
                history::write(&self.history, own_writes, observed, step).await.map(Outcome::Revision)
            }
            Step::Inspect(pod) => self.was_ever_ready(pod).await.map(Outcome::EverReady),
            Step::Pod(step) => self.change_pod(observed, step).await.map(Outcome::Pod),
            Step::WriteStatus(status) => self.write_status(observed, status).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, _key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        if let (MaxUnavailable::Counts, Some(observed)) = (self.gate, &sync.observed) {
            self.metrics.synced(observed, self.clock.now());
        }
    }
}

impl StatefulSetController {
    /// Names the set as the object of an event.
    pub(super) fn involved(observed: &Observed) -> k8s_openapi::api::core::v1::ObjectReference {
        event_reference::<StatefulSet>(&observed.set.meta)
    }
}

fn changed<K>(changed: Changed<K>, pod: &PodRef) -> Result<Outcome, SyncError> {
    let changed = changed.or_conflict(|| format!("changing the owner of pod {}", pod.key))?;
    Ok(changed.map_or(Outcome::Gone, |_| Outcome::Done))
}
