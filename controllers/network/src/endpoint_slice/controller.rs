//! Syncs of services: where observations come from, and how steps are carried out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::event_reference;
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_informer::{Lister, View};
use steersman_kinds::pod::Placement;
use steersman_kinds::service::{Routing, Service};

use super::metrics::Metrics;
use super::mode::Mode;
use super::nodes::Topology;
use super::observed::{Observed, Zones};
use super::pace::WritePace;
use super::plan::plan;
use super::step::{Note, Part, Step};
use crate::membership::{Membership, RoutedService, ServedPod, Triggers, is_served, unreadable};
use crate::slices::{Outcome, Sight, SliceStore};

/// Keeps the slices of services up to date. Its keys are those of services.
pub(super) struct SliceController {
    pub(super) slices: SliceStore,
    pub(super) membership: Membership,
    pub(super) services: Lister<RoutedService>,
    pub(super) topology: Arc<Topology>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) max_endpoints: usize,
    /// The times of changes that the last sync of each service saw.
    pub(super) triggers: Mutex<HashMap<ObjectKey, Triggers>>,
    pub(super) pace: WritePace,
}

impl SliceController {
    fn forget(&self, service: &ObjectKey) {
        self.triggers.lock().remove(service);
        self.slices.forget(service);
        self.pace.forget(service);
        self.topology.forget(service);
        self.metrics.forget(service);
    }

    fn warn(&self, service: &View<RoutedService>, reason: &'static str, message: String) {
        self.recorder.event(&event_reference::<Service>(service.meta()), EventType::Warning, reason, message);
    }

    fn warn_of_list(&self, service: &View<RoutedService>, error: &SyncError) {
        if !error.is_end_of_leadership() {
            let key = &service.meta().key;
            let message = format!("Error listing Endpoint Slices for Service {key}: {error}");
            self.warn(service, "FailedToListEndpointSlices", message);
        }
    }

    fn zones(&self, pods: &[View<ServedPod>]) -> Zones {
        let nodes: BTreeSet<&ArcStr> = pods.iter().map(|pod| pod.get::<Placement>().node.as_arc()).collect();
        nodes.into_iter().filter_map(|node| Some((node.clone(), self.topology.zone(node)?))).collect()
    }

    /// Counts a part of a sync, remembers its hints, and records its events.
    fn part_done(&self, observed: &Observed, at: usize, note: &Note) {
        let (service, complete) = (&observed.service, !observed.incomplete.contains(&at));
        let key = &service.meta().key;
        let Part::Of(address_type) = note.part else {
            let left = observed.slices.iter().map(|slice| slice.address_type());
            let types: Vec<_> = observed.begun.iter().map(|note| note.part).collect();
            left.filter(|left| !types.contains(&Part::Of(*left)))
                .for_each(|left| self.topology.set_hints(key, left, None));
            return;
        };
        self.metrics.added.observe(number(note.added));
        self.metrics.removed.observe(number(note.removed));
        self.metrics.gauges.set(key, note.counts);
        self.topology.set_hints(key, address_type, note.hints.clone());
        let distribution = match Mode::of(service) {
            Mode::Distribution(_) => service.get::<Routing>().traffic_distribution.as_deref(),
            Mode::Topology | Mode::None => None,
        };
        self.metrics.distribution(key, distribution);
        if complete {
            let topology = if Mode::of(service) == Mode::Topology { "Auto" } else { "Disabled" };
            let labels = [topology, distribution.unwrap_or_default()];
            self.metrics.changed_per_sync.with_label_values(&labels).observe(number(note.changes));
        }
        let involved = event_reference::<Service>(service.meta());
        for event in &note.events {
            self.recorder.event(&involved, event.kind, event.reason, event.message.clone());
        }
    }
}

impl Controller for SliceController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    /// Forgets the times of changes, since another leader may have written them meanwhile.
    fn term_begins(&self) {
        self.triggers.lock().clear();
        self.slices.term_begins();
        self.topology.refresh();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.slices.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let (slices, grounds) = match self.slices.observe(key).await {
            Ok(Sight::Slices(slices, grounds)) => (slices, grounds),
            Ok(Sight::Behind { at_most, newly }) => {
                if newly {
                    self.metrics.syncs.with_label_values(&["stale"]).inc();
                }
                return Ok(Observation::Behind(at_most));
            }
            Err(error) => {
                if let Ok(Some(service)) = self.services.get(key) {
                    self.warn_of_list(&service, &error);
                }
                return Err(error);
            }
        };
        let Some(service) = self.services.get(key).map_err(unreadable)? else {
            // The garbage collector deletes the slices.
            self.forget(key);
            return Ok(Observation::Nothing);
        };
        if !is_served(&service) {
            return Ok(Observation::Nothing);
        }
        if let Some(wait) = self.pace.wait(key) {
            return Ok(Observation::Behind(wait));
        }
        let pods = self.membership.selected(&service).inspect_err(|error| {
            let message = format!("Error listing Pods for Service {key}: {error}");
            self.warn(&service, "FailedToListPods", message);
        })?;
        let triggers = Triggers::of(&service, &pods);
        Ok(Observation::Ready(Observed {
            trigger: triggers.since(self.triggers.lock().get(key)),
            triggers,
            zones: self.zones(&pods),
            slices,
            grounds,
            max_endpoints: self.max_endpoints,
            ratios: self.topology.ratios(),
            had_hints: self.topology.has_hints(key),
            service,
            pods,
            begun: Vec::new(),
            incomplete: Vec::new(),
            failures: Vec::new(),
        }))
    }

    fn plan(&self, observed: &Observed, _now: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let operation = match step {
            Step::Confirm => {
                let confirmed = self.slices.confirm(key).await;
                return confirmed.inspect_err(|error| self.warn_of_list(&observed.service, error));
            }
            Step::Begin(_) => return Ok(Outcome::Done),
            Step::Fail(why) => return Err(SyncError::Failed(why.clone())),
            Step::Create(manifest) => {
                let created = self.slices.create(key, manifest).await?;
                if matches!(created, Outcome::NamespaceTerminating) {
                    return Ok(created);
                }
                "create"
            }
            Step::Update(manifest) => {
                self.slices.update(key, manifest).await?;
                "update"
            }
            Step::Delete(slice) => {
                self.slices.delete(key, slice).await?;
                "delete"
            }
        };
        self.metrics.changes.with_label_values(&[operation]).inc();
        Ok(Outcome::Done)
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::NamespaceTerminating)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        let result = if sync.result.is_ok() { "success" } else { "error" };
        self.metrics.syncs.with_label_values(&[result]).inc();
        let Some(observed) = sync.observed else { return };
        // One change of a pod changes a slice of each address family.
        self.pace.wrote(key, observed.begun.iter().map(|note| note.changes).max().unwrap_or(0));
        for (at, note) in observed.begun.iter().enumerate() {
            self.part_done(&observed, at, note);
        }
        if let Err(error) = sync.result
            && !error.is_end_of_leadership()
            && !observed.failures.is_empty()
        {
            let message = format!("Error updating Endpoint Slices for Service {key}: {}", observed.failure());
            self.warn(&observed.service, "FailedToUpdateEndpointSlices", message);
        }
        // As upstream, also after a failure: the next write then has no trigger time.
        self.triggers.lock().insert(key.clone(), observed.triggers);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a service has fewer than 2^52 endpoints")]
fn number(count: usize) -> f64 {
    count as f64
}
