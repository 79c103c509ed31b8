//! Syncs of Endpoints: where observations come from, and how steps are carried out.

use steersman_api::{ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Client, event_reference};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_informer::{Lister, Object, View};
use steersman_kinds::endpoints::Endpoints;
use steersman_kinds::service::Routing;

use super::metrics::Metrics;
use super::plan::{Observed, Step, plan};
use super::should_mirror;
use crate::endpoints::WrittenEndpoints;
use crate::membership::{RoutedService, unreadable};
use crate::slices::{Outcome, Sight, SliceStore};

/// Mirrors Endpoints without selector. Its keys are those of Endpoints, which are those of their services.
pub(super) struct MirroringController {
    pub(super) slices: SliceStore,
    pub(super) endpoints: Lister<WrittenEndpoints>,
    /// Reads the subsets, which the cache does not hold.
    pub(super) reader: Client<Endpoints>,
    pub(super) services: Lister<RoutedService>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) max: usize,
}

impl MirroringController {
    /// Whether a service exists, and selects no pods.
    pub(super) fn has_no_selector(&self, service: &ObjectKey) -> Result<bool, SyncError> {
        let service = self.services.get(service).map_err(unreadable)?;
        Ok(service.is_some_and(|service| service.get::<Routing>().selector.is_empty()))
    }

    /// Whether an Endpoints object must be mirrored, as far as the caches know.
    fn is_mirrored(&self, key: &ObjectKey) -> Result<bool, SyncError> {
        let endpoints = self.endpoints.get(key).map_err(unreadable)?;
        let should = |endpoints: &View<WrittenEndpoints>| should_mirror(endpoints.object());
        Ok(endpoints.as_ref().is_some_and(should) && self.has_no_selector(key)?)
    }

    fn warn(&self, endpoints: &Endpoints, reason: &'static str, message: String) {
        let involved = event_reference::<Endpoints>(endpoints.meta());
        self.recorder.event(&involved, EventType::Warning, reason, message);
    }
}

impl Controller for MirroringController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    /// Discards what was learnt in an earlier term.
    fn term_begins(&self) {
        self.slices.term_begins();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.slices.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let (slices, grounds) = match self.slices.observe(key).await? {
            Sight::Slices(slices, grounds) => (slices, grounds),
            Sight::Behind { at_most, .. } => return Ok(Observation::Behind(at_most)),
        };
        let endpoints = if self.is_mirrored(key)? { self.reader.get(key).await? } else { None };
        let endpoints = endpoints.filter(|endpoints| should_mirror(endpoints));
        if endpoints.is_none() {
            self.metrics.gauges.remove(key);
            if slices.is_empty() {
                self.slices.forget(key);
                return Ok(Observation::Nothing);
            }
        }
        Ok(Observation::Ready(Observed { endpoints, slices, grounds, max: self.max, begun: None }))
    }

    fn plan(&self, observed: &Observed, _now: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let operation = match step {
            Step::Confirm => return self.slices.confirm(key).await,
            Step::Begin(_) => return Ok(Outcome::Done),
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
        // As upstream, the deletion of all slices of an object is not counted.
        if observed.endpoints.is_some() {
            self.metrics.changes.with_label_values(&[operation]).inc();
        }
        Ok(Outcome::Done)
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::NamespaceTerminating)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        self.metrics.duration.observe(sync.took.as_secs_f64());
        let Some(Observed { endpoints: Some(endpoints), begun: Some(note), .. }) = sync.observed else {
            return;
        };
        for (histogram, count) in [
            (&self.metrics.added, note.added),
            (&self.metrics.updated, note.updated),
            (&self.metrics.removed, note.removed),
            (&self.metrics.skipped, note.skipped),
        ] {
            histogram.observe(number(count));
        }
        self.metrics.gauges.set(key, note.counts);
        if note.invalid > 0 {
            let message =
                format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", note.invalid);
            self.warn(&endpoints, "InvalidIPAddress", message);
        }
        if note.skipped > note.invalid {
            let message = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                self.max, note.skipped
            );
            self.warn(&endpoints, "TooManyAddressesToMirror", message);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a service has fewer than 2^52 endpoints")]
fn number(count: usize) -> f64 {
    count as f64
}
