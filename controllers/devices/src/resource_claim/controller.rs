//! Syncs of pods, PodGroups and claims: where observations come from, and how steps are carried out.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::Time;
use steersman_client::events::Recorder;
use steersman_controller::children::FirstLooks;
use steersman_controller::client::{Client, StatusWriter};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::{Batch, Plan};
use steersman_informer::{AnyInformer, Index, Informer, Lister};
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_group::PodGroup;
use steersman_kinds::resource_claim::ResourceClaim;

use super::claim_plan::{self, ClaimObserved, ClaimStep};
use super::claim_syncs::ClaimOutcome;
use super::deleted_pods::DeletedPods;
use super::key::Key;
use super::metrics::Metrics;
use super::pod_plan::{self, PodObserved, PodStep};
use super::pod_syncs::PodOutcome;
use super::{ALTERNATIVES, CachedTemplate, ClaimingGroup, ClaimingPod, NAME, SyncedClaim, WithGroups};

/// How long a sync waits for the caches to show the controller's own writes, before it reads from the API server.
const PATIENCE: Duration = Duration::from_secs(5);

/// The indexes of the caches.
#[derive(Clone, Copy)]
pub(super) struct Indexes {
    /// Pods by the namespace and the name of a claim that they use.
    pub pods_by_claim: Index<ClaimingPod>,
    /// Pods by the namespace and the name of a template that they name.
    pub pods_by_template: Index<ClaimingPod>,
    /// Claims by the uid of the pod or the PodGroup that owns them.
    pub claims_by_owner: Index<SyncedClaim>,
}

/// Makes, reserves and releases claims.
pub(super) struct ClaimController {
    pub(super) pods: Lister<ClaimingPod>,
    pub(super) claims: Lister<SyncedClaim>,
    pub(super) templates: Lister<CachedTemplate>,
    /// `None` without the gate of claims of PodGroups.
    pub(super) groups: Option<Lister<ClaimingGroup>>,
    pub(super) indexes: Indexes,
    pub(super) deleted: Arc<DeletedPods>,
    pub(super) pod_client: Client<Pod>,
    pub(super) group_client: Client<PodGroup>,
    pub(super) claim_client: Client<ResourceClaim>,
    pub(super) statuses: StatusWriter<ResourceClaim>,
    pub(super) own_writes: OwnWrites<Key>,
    pub(super) first_looks: FirstLooks,
    pub(super) claim_cache: Arc<dyn AnyInformer>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) allows_alternatives: bool,
}

/// What a sync decides on.
#[derive(Debug)]
pub(super) enum Observed {
    /// A pod or a PodGroup.
    Pod(PodObserved),
    Claim(ClaimObserved),
}

/// A step of a sync.
#[derive(Debug)]
pub(super) enum Step {
    Pod(PodStep),
    Claim(ClaimStep),
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Pod(PodOutcome),
    Claim(ClaimOutcome),
}

impl ClaimController {
    pub(super) fn new(
        context: &ControllerContext,
        (pods, claims, templates): (
            &Informer<ClaimingPod>,
            &Informer<SyncedClaim>,
            &Informer<CachedTemplate>,
        ),
        groups: Option<&Informer<ClaimingGroup>>,
        indexes: Indexes,
        deleted: Arc<DeletedPods>,
        metrics: Metrics,
    ) -> Self {
        let sender = context.client_for("resource-claim-controller");
        let claim_client = Client::keeping::<SyncedClaim>(sender.clone());
        let own_writes = OwnWrites::new(PATIENCE).over(&pods.any()).over(&claims.any());
        if let Some(groups) = groups {
            own_writes.watch(&groups.any());
        }
        Self {
            pods: pods.lister(),
            claims: claims.lister(),
            templates: templates.lister(),
            groups: groups.map(Informer::lister),
            indexes,
            deleted,
            pod_client: Client::keeping::<ClaimingPod>(sender.clone()),
            group_client: Client::keeping::<ClaimingGroup>(sender),
            statuses: StatusWriter::new(claim_client.clone()),
            claim_client,
            own_writes,
            first_looks: context.first_looks.clone(),
            claim_cache: claims.any(),
            recorder: context.recorder(NAME),
            metrics,
            allows_alternatives: context.gates.enabled(ALTERNATIVES),
        }
    }

    /// Whether PodGroups may have claims.
    pub(super) fn with_groups(&self) -> WithGroups {
        if self.groups.is_some() { WithGroups::Yes } else { WithGroups::No }
    }
}

impl Controller for ClaimController {
    type Key = Key;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.own_writes.clear();
    }

    fn awaited(&self, key: &Key) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &Key) -> Result<Observation<Observed>, SyncError> {
        let is_doubtful = match self.own_writes.check(key) {
            Freshness::Behind { .. } => return Ok(Observation::Behind(PATIENCE)),
            Freshness::Current => false,
            Freshness::Doubtful => true,
        };
        let observed = match key {
            Key::Pod(pod) if is_doubtful => self.read_pod(key, pod).await?.map(Observed::Pod),
            Key::Pod(pod) => self.cached_pod(pod)?.map(Observed::Pod),
            Key::Group(group) if is_doubtful => self.read_group(key, group).await?.map(Observed::Pod),
            Key::Group(group) => self.cached_group(group)?.map(Observed::Pod),
            Key::Claim(claim) if is_doubtful => self.read_claim(key, claim).await?.map(Observed::Claim),
            Key::Claim(claim) => self.cached_claim(claim)?.map(Observed::Claim),
        };
        if observed.is_none() {
            self.own_writes.forget(key);
        }
        Ok(observed.map_or(Observation::Nothing, Observation::Ready))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        match observed {
            Observed::Pod(pod) => map(pod_plan::plan(pod), Step::Pod),
            Observed::Claim(claim) => map(claim_plan::plan(claim), Step::Claim),
        }
    }

    async fn act(&self, key: &Key, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match (observed, step) {
            (Observed::Pod(observed), Step::Pod(step)) => {
                self.act_on_pod(key, observed, step).await.map(Outcome::Pod)
            }
            (Observed::Claim(observed), Step::Claim(step)) => {
                self.act_on_claim(key, observed, step).await.map(Outcome::Claim)
            }
            _ => unreachable!("a step must be of the kind of its observation"),
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        match (observed, step, result) {
            (Observed::Pod(observed), Step::Pod(step), StepResult::Done(Outcome::Pod(outcome))) => {
                observed.absorb(step, outcome);
            }
            (Observed::Claim(observed), Step::Claim(step), StepResult::Done(Outcome::Claim(outcome))) => {
                observed.absorb(&step, outcome);
            }
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
