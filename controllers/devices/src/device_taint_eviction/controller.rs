//! The controller's state, and which sync a key needs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, Time, Uid};
use steersman_client::events::Recorder;
use steersman_controller::client::Client;
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, Plan};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Index, Lister};
use steersman_kinds::device_taint_rule::DeviceTaintRule;
use steersman_kinds::pod::Pod;

use super::eviction::RuleName;
use super::key::Key;
use super::metrics::Metrics;
use super::plan::{Live, Planned, plan};
use super::pod_syncs;
use super::rule_syncs::{self, RuleObserved, Tell};
use super::rules::Rules;
use super::{AllocatedClaim, ClaimingPod, EvictedPod, NAME, PublishedSlice, TaintedSlice};

/// The indexes of the caches.
#[derive(Clone, Copy)]
pub(super) struct Indexes {
    /// Claims by the driver and the pool of their devices.
    pub claims_by_pool: Index<AllocatedClaim>,
    /// Slices by driver and pool.
    pub slices_by_pool: Index<TaintedSlice>,
    /// Pods by the namespace and the name of their PodGroup. `None` without the gate of claims of PodGroups.
    pub pods_by_group: Option<Index<ClaimingPod>>,
}

/// The caches that the controller reads.
pub(super) struct Caches {
    pub pods: Lister<ClaimingPod>,
    pub claims: Lister<AllocatedClaim>,
    pub slices: Lister<TaintedSlice>,
    /// `None` without the gate of DeviceTaintRules.
    pub published: Option<Lister<PublishedSlice>>,
    /// `None` without the gate of DeviceTaintRules.
    pub rules: Option<Arc<Rules>>,
}

/// Evicts pods, and tells the status of DeviceTaintRules about it.
pub(super) struct EvictionController {
    pub(super) pods: Lister<ClaimingPod>,
    pub(super) claims: Lister<AllocatedClaim>,
    pub(super) slices: Lister<TaintedSlice>,
    pub(super) published: Option<Lister<PublishedSlice>>,
    pub(super) rules: Option<Arc<Rules>>,
    pub(super) indexes: Indexes,
    pub(super) queue: WorkQueue<Key>,
    pub(super) client: Client<Pod>,
    pub(super) rule_client: Client<DeviceTaintRule>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    /// The pods whose eviction is planned, for the events about cancelled evictions and for the status of rules. A sync of a pod
    /// that is gone removes it.
    pub(super) planned: Mutex<HashMap<ObjectKey, PlannedEviction>>,
}

/// An eviction that this process has planned.
#[derive(Clone, Debug)]
pub(super) struct PlannedEviction {
    /// The pod's uid.
    pub uid: Uid,
    /// The rules whose status tells of the eviction, or is about to.
    pub rules: BTreeSet<RuleName>,
}

/// What a sync decides on.
#[derive(Debug)]
pub(super) enum Observed {
    Pod(super::plan::Observed),
    Rule(RuleObserved),
}

/// A step of a sync.
#[derive(Debug)]
pub(super) enum Step {
    Pod(super::plan::Step),
    Rule(Tell),
}

impl EvictionController {
    pub(super) fn new(
        context: &ControllerContext,
        caches: Caches,
        indexes: Indexes,
        queue: WorkQueue<Key>,
        metrics: Metrics,
    ) -> Self {
        let Caches { pods, claims, slices, published, rules } = caches;
        let sender = context.client_for(NAME);
        Self {
            pods,
            claims,
            slices,
            published,
            rules,
            indexes,
            queue,
            client: Client::keeping::<EvictedPod>(sender.clone()),
            rule_client: Client::new(sender),
            recorder: context.recorder(NAME),
            metrics,
            clock: context.clock.clone(),
            planned: Mutex::default(),
        }
    }
}

impl Controller for EvictionController {
    type Key = Key;
    type Observed = Observed;
    type Step = Step;
    type Outcome = pod_syncs::Outcome;

    fn term_begins(&self) {
        self.planned.lock().clear();
        if let Some(rules) = &self.rules {
            rules.evicted.lock().clear();
        }
    }

    async fn observe(&self, key: &Key) -> Result<Observation<Observed>, SyncError> {
        let observed = match key {
            Key::Pod(pod) => self.observe_pod(pod)?.map(Observed::Pod),
            Key::Rule(rule) => self.observe_rule(rule)?.map(Observed::Rule),
        };
        Ok(observed.map_or(Observation::Nothing, Observation::Ready))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        match observed {
            // The rest of a toleration goes by fractions of a second.
            Observed::Pod(pod) => map(plan(pod, self.clock.timestamp()), Step::Pod),
            Observed::Rule(rule) => map(rule_syncs::plan(rule), Step::Rule),
        }
    }

    async fn act(
        &self,
        key: &Key,
        observed: &Observed,
        step: &Step,
    ) -> Result<pod_syncs::Outcome, SyncError> {
        match (key, observed, step) {
            (Key::Pod(key), Observed::Pod(pod), Step::Pod(step)) => self.act_on_pod(key, pod, step).await,
            (Key::Rule(_), Observed::Rule(rule), Step::Rule(Tell(condition))) => {
                self.tell(&rule.meta, condition).await.map(|()| pod_syncs::Outcome::Done)
            }
            _ => unreachable!("a step must be of the kind of its key"),
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<pod_syncs::Outcome>) {
        use super::plan::Step as OfPod;
        match (observed, step, result) {
            (Observed::Pod(pod), Step::Pod(step), StepResult::Done(outcome)) => match (step, outcome) {
                (OfPod::Remember, _) => pod.planned = Planned::Yes,
                (OfPod::Cancel | OfPod::Forget, _) => pod.planned = Planned::No,
                (OfPod::Read, pod_syncs::Outcome::Read(live)) => pod.live = Some(live),
                (OfPod::Evict { .. }, _) => pod.live = Some(Live::Gone),
                (OfPod::Read, pod_syncs::Outcome::Done) => {}
            },
            (Observed::Rule(rule), Step::Rule(_), _) => rule.condition = None,
            _ => {}
        }
    }
}

fn map<S, T>(plan: Plan<S>, step: fn(S) -> T) -> Plan<T> {
    match plan {
        Plan::Done { requeue_after } => Plan::Done { requeue_after },
        Plan::Act(Batch { steps, pace, on_failure }) => {
            Plan::Act(Batch { steps: steps.into_iter().map(step).collect(), pace, on_failure })
        }
    }
}
