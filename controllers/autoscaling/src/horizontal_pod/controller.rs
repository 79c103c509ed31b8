//! Syncs of autoscalers: where observations come from, and how steps are carried out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ArcStr, GroupVersionResource, LabelSelector, ObjectKey, Time, Uid};
use steersman_client::events::Recorder;
use steersman_client::{RestMapper, Sender, rest_mapper};
use steersman_controller::client::{
    Changed, Client, ResourceClient, Scale, StatusChange, StatusWriter, event_reference,
};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_informer::wire::Object;
use steersman_informer::{Index, IndexValue, Lister, View};
use steersman_kinds::horizontal_pod_autoscaler::{AutoscalerSpec, AutoscalerStatus, HorizontalPodAutoscaler};
use tokio::time::{Instant, sleep};

use super::decision::{Course, Moment, Settings};
use super::history::History;
use super::metrics::Metrics;
use super::metrics_api::{MetricsApi, query};
use super::observed::{Autoscaler, Fetched, NoTarget, Notice, Observed, Target};
use super::plan::{Outcome, Report, Step, action_of, plan};
use super::pods::Pod;
use super::rivals::Rivals;
use super::status::Status;
use super::{ScaledPod, SyncedAutoscaler};

/// How long a sync is put off at a time while the cache does not show the controller's own write.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often the number of replicas is set, if the target changes at the same time. As upstream.
const ATTEMPTS: u32 = 5;
/// The wait between two of these attempts. As upstream.
const RETRY_WAIT: Duration = Duration::from_millis(10);

/// Sets the number of replicas of the targets of autoscalers.
pub(super) struct Autoscaling {
    pub autoscalers: Lister<SyncedAutoscaler>,
    pub pods: Lister<ScaledPod>,
    pub pods_by_label: Index<ScaledPod>,
    pub pods_by_namespace: Index<ScaledPod>,
    pub rivals: Arc<Mutex<Rivals>>,
    pub sender: Sender,
    pub mapper: Arc<RestMapper>,
    pub metrics_api: MetricsApi,
    pub client: Client<HorizontalPodAutoscaler>,
    pub status: StatusWriter<HorizontalPodAutoscaler>,
    pub own_writes: OwnWrites,
    pub recorder: Recorder,
    pub settings: Settings,
    pub period: Duration,
    /// What the controller remembers of each autoscaler, with the autoscaler's uid.
    pub memories: Mutex<HashMap<ObjectKey, (Uid, History)>>,
    /// The scales that syncs under way have read, with the clients of their resources.
    pub scales: Mutex<HashMap<ObjectKey, (ResourceClient, Scale)>>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

fn autoscaler(object: &HorizontalPodAutoscaler) -> Autoscaler {
    use steersman_informer::wire::Group;
    let (spec, status) = (AutoscalerSpec::of(object), AutoscalerStatus::of(object));
    let (spec, status) = spec.zip(status).expect("the groups that the controller reads must be kept");
    Autoscaler { meta: object.meta().clone(), spec: spec.clone(), status: Status::of(status) }
}

/// An error in the API server's own words.
fn words(error: &SyncError) -> String {
    error.status().map_or_else(|| error.to_string(), |status| status.message.clone())
}

impl Autoscaling {
    fn now(&self) -> Moment {
        Moment { wall: self.clock.timestamp(), instant: Instant::now() }
    }

    /// Reads the scale of the target, and looks up its pods if metrics decide about it.
    ///
    /// # Errors
    /// The cache has a pod of the target that can't be decoded.
    async fn read_target(&self, autoscaler: &Autoscaler) -> Result<Result<Target, NoTarget>, SyncError> {
        let (client, scale) = match self.read_scale(autoscaler).await {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        let key = &autoscaler.meta.key;
        let selector = scale.selector.clone();
        let course = Course::of(autoscaler, scale.wanted, self.settings);
        // Of two targets with the same labels, one may have no replicas. Unlike upstream, also if it once had some.
        if course == Course::Disabled {
            self.rivals.lock().unset(key);
        }
        let decide = course == Course::Metrics;
        let pods_selector = (decide && !selector.is_empty()).then(|| selector.parse::<LabelSelector>());
        let (mut pods, mut autoscalers) = (Vec::new(), Vec::new());
        if let Some(Ok(selector)) = &pods_selector {
            let views = self.pods_of(&key.namespace, selector)?;
            let mut rivals = self.rivals.lock();
            rivals.set(key, selector);
            let labels = views.iter().map(|pod| &pod.meta().labels);
            autoscalers.extend(rivals.selecting(&key.namespace, labels));
            drop(rivals);
            pods.extend(views.iter().map(Pod::of));
        }
        let (wanted, current) = (scale.wanted, scale.current);
        self.scales.lock().insert(key.clone(), (client, scale));
        Ok(Ok(Target { wanted, current, selector, pods_selector, pods, autoscalers }))
    }

    fn pods_of(
        &self,
        namespace: &ArcStr,
        selector: &LabelSelector,
    ) -> Result<Vec<View<ScaledPod>>, SyncError> {
        let found = match selector.demanded_label() {
            Some((key, value)) => {
                let value = IndexValue::Triple(namespace.clone(), key.into(), value.clone());
                self.pods.by_index_where(&self.pods_by_label, &value, |pod| selector.matches(&pod.labels))
            }
            None => {
                let namespace = namespace.clone().into();
                self.pods
                    .by_index_where(&self.pods_by_namespace, &namespace, |pod| selector.matches(&pod.labels))
            }
        };
        found.map_err(|unreadable| SyncError::Unreadable(format!("Pod {unreadable}")))
    }

    async fn read_scale(&self, autoscaler: &Autoscaler) -> Result<(ResourceClient, Scale), NoTarget> {
        let target = &autoscaler.spec.target;
        let version = &*target.api_version;
        let group = match version.split_once('/') {
            Some((group, rest)) if !rest.contains('/') => group,
            None => "",
            Some(_) => {
                return Err(NoTarget {
                    why: format!("unexpected GroupVersion string: {version}"),
                    doing: "invalid API version in scale target reference".to_owned(),
                    is_spec: true,
                });
            }
        };
        let mapped = self.mapper.preferred_for(group, &target.kind).await.map_err(|error| {
            let why = match error {
                rest_mapper::Error::NoMatch(_) => {
                    format!("no matches for kind {:?} in group {group:?}", &*target.kind)
                }
                other => other.to_string(),
            };
            let doing = "unable to determine resource for scale target reference".to_owned();
            NoTarget { why, doing, is_spec: false }
        })?;
        let client =
            ResourceClient::new(self.sender.clone(), mapped.gvr.clone(), target.kind.as_arc().clone());
        let key = ObjectKey::new(autoscaler.meta.key.namespace.clone(), target.name.clone());
        let scale = client.existing_scale(&key).await.map_err(|error| NoTarget {
            why: words(&error),
            doing: format!("failed to query scale subresource for {}", autoscaler.reference()),
            is_spec: false,
        })?;
        Ok((client, scale))
    }

    async fn read_metric(&self, observed: &Observed, at: usize) -> Fetched {
        let since = Instant::now();
        let selector = match &observed.target {
            // The form in which Go prints the parsed selector.
            Some(Ok(Target { pods_selector: Some(Ok(selector)), .. })) => selector.to_string().into(),
            _ => ArcStr::new(),
        };
        let autoscaler = &observed.autoscaler;
        let query = query(&autoscaler.spec.metrics[at], &autoscaler.meta.key.namespace, &selector);
        let value = match query {
            Some(query) => self.metrics_api.read(query).await,
            None => Err("the metric can't be read".to_owned()),
        };
        Fetched { value, took: since.elapsed() }
    }

    /// Sets the number of replicas, if need be several times: others may change the target at the same time.
    async fn rescale(&self, observed: &Observed, replicas: i32) -> Result<Result<(), String>, SyncError> {
        let autoscaler = &observed.autoscaler;
        let read = self.scales.lock().remove(&autoscaler.meta.key);
        let Some((client, mut scale)) = read else {
            return Err(SyncError::Failed("the scale must be read before it is set".to_owned()));
        };
        let key = ObjectKey::new(autoscaler.meta.key.namespace.clone(), autoscaler.spec.target.name.clone());
        let mut attempts = 1;
        loop {
            let refusal = match client.set_scale(&key, &scale, replicas).await {
                Ok(Changed::Now(_)) => return Ok(Ok(())),
                Ok(Changed::Conflict(status)) => status.message.clone(),
                Ok(Changed::Gone) => {
                    let resource = group_resource(client.resource());
                    return Ok(Err(format!("{resource} {:?} not found", &*key.name)));
                }
                Err(error) if error.is_end_of_leadership() => return Err(error),
                Err(error) => return Ok(Err(words(&error))),
            };
            match client.existing_scale(&key).await {
                Ok(latest) => scale = latest,
                Err(error) => tracing::warn!(%error, target = %key, "Reading the latest scale failed"),
            }
            if attempts == ATTEMPTS {
                return Ok(Err(refusal));
            }
            attempts += 1;
            sleep(RETRY_WAIT).await;
        }
    }

    fn record(&self, autoscaler: &Autoscaler, notice: &Notice) {
        let involved = event_reference::<HorizontalPodAutoscaler>(&autoscaler.meta);
        self.recorder.event(&involved, notice.kind, notice.reason, notice.message.clone());
    }

    fn remember(&self, autoscaler: &Autoscaler, history: &History) {
        let meta = &autoscaler.meta;
        self.memories.lock().insert(meta.key.clone(), (meta.uid.clone(), history.clone()));
    }

    async fn report(&self, observed: &Observed, report: &Report) -> Result<(), SyncError> {
        let autoscaler = &observed.autoscaler;
        if let Some(history) = &report.history {
            self.remember(autoscaler, history);
        }
        if let Some(replicas) = report.desired {
            self.metrics.desires(&autoscaler.meta.key, replicas);
        }
        if let Some(notice) = &report.before {
            self.record(autoscaler, notice);
        }
        let written = self.write_status(autoscaler, &report.status).await;
        if let Some(notice) = &report.after {
            self.record(autoscaler, notice);
        }
        match (&report.error, written) {
            (Some(why), Err(error)) if !error.is_end_of_leadership() => {
                tracing::warn!(%error, "Writing the status failed");
                Err(SyncError::Failed(why.clone()))
            }
            (_, Err(error)) => Err(error),
            (Some(why), Ok(())) => Err(SyncError::Failed(why.clone())),
            (None, Ok(())) => Ok(()),
        }
    }

    async fn write_status(&self, autoscaler: &Autoscaler, status: &Status) -> Result<(), SyncError> {
        // Quantities are equal whatever their notation, so this compares more than the JSON.
        if autoscaler.status == *status {
            return Ok(());
        }
        let meta = &autoscaler.meta;
        let Some(change) = StatusChange::between(meta, &autoscaler.status, status) else { return Ok(()) };
        let write = self.status.write(&meta.key, &change);
        let why = match self.own_writes.write(&meta.key, write).await {
            Ok(Changed::Now(_) | Changed::Gone) => return Ok(()),
            Ok(Changed::Conflict(status)) => status.message.clone(),
            Err(error) if error.is_end_of_leadership() => return Err(error),
            Err(error) => words(&error),
        };
        self.record(autoscaler, &Notice::warning("FailedUpdateStatus", why.clone()));
        Err(SyncError::Failed(format!("failed to update status for {}: {why}", meta.key.name)))
    }

    async fn reread(&self, key: &ObjectKey) -> Result<Option<Autoscaler>, SyncError> {
        let Some(found) = self.client.get(key).await? else { return Ok(None) };
        let found = autoscaler(&found);
        let version =
            steersman_controller::client::Wrote::of::<HorizontalPodAutoscaler>(found.meta.resource_version);
        self.own_writes.reread(key, [version], |_| false);
        Ok(Some(found))
    }
}

/// A resource as Go prints a `GroupResource`.
fn group_resource(resource: &GroupVersionResource) -> String {
    match &*resource.group {
        "" => resource.resource.to_string(),
        group => format!("{}.{group}", resource.resource),
    }
}

impl Controller for Autoscaling {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.memories.lock().clear();
        self.scales.lock().clear();
        self.own_writes.clear();
        self.metrics_api.forget();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let found = match self.own_writes.check(key) {
            Freshness::Behind { .. } => return Ok(Observation::Behind(LOOK_AGAIN)),
            Freshness::Doubtful => self.reread(key).await?,
            Freshness::Current => {
                let found = self.autoscalers.get(key).map_err(|unreadable| {
                    SyncError::Unreadable(format!("HorizontalPodAutoscaler {unreadable}"))
                })?;
                found.map(|found| autoscaler(found.object()))
            }
        };
        let Some(autoscaler) = found else {
            self.memories.lock().remove(key);
            self.scales.lock().remove(key);
            self.own_writes.forget(key);
            self.metrics.forget(key);
            return Ok(Observation::Nothing);
        };
        let memory = self.memories.lock().get(key).cloned();
        let history = memory.filter(|(uid, _)| *uid == autoscaler.meta.uid).map(|(_, history)| history);
        Ok(Observation::Ready(Observed::new(autoscaler, history.unwrap_or_default())))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        match plan(observed, self.settings, self.now()) {
            Plan::Done { .. } => Plan::Done { requeue_after: Some(self.period) },
            act @ Plan::Act(_) => act,
        }
    }

    async fn act(&self, _: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        Ok(match step {
            Step::ReadTarget => Outcome::Target(Box::new(self.read_target(&observed.autoscaler).await?)),
            Step::ReadMetric(at) => Outcome::Metric(self.read_metric(observed, *at).await),
            Step::Decide(decision) => {
                self.remember(&observed.autoscaler, &decision.history);
                decision.notices.iter().for_each(|notice| self.record(&observed.autoscaler, notice));
                decision.computations.iter().for_each(|computation| self.metrics.computed(computation));
                Outcome::Done
            }
            Step::Rescale(replicas) => Outcome::Rescaled(self.rescale(observed, *replicas).await?),
            Step::Report(report) => {
                self.report(observed, report).await?;
                Outcome::Done
            }
        })
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        self.scales.lock().remove(key);
        let Some(observed) = sync.observed else { return };
        let is_spec = matches!(&observed.target, Some(Err(why)) if why.is_spec);
        let error = match sync.result {
            Ok(()) => "none",
            Err(_) if is_spec => "spec",
            Err(_) => "internal",
        };
        self.metrics.reconciled(action_of(&observed), error, sync.took);
    }
}
