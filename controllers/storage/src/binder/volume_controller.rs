//! Syncs of volumes.

use std::sync::Arc;

use steersman_api::{ObjectKey, Time};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;

use super::claim_plan::Progress;
use super::controller::{Binder, Outcome, Subject};
use super::plugins::{Deletion, deletion};
use super::step::Step;
use super::volume::Volume;
use super::volume_plan::{Observed, Sight, plan};

/// Keeps the phases of volumes, and reclaims those whose claims are gone.
pub(super) struct VolumeController(pub Arc<Binder>);

impl VolumeController {
    fn observed(&self, volume: Volume) -> Result<Observed, SyncError> {
        let claim = match volume.claim_key() {
            Some(key) => self.0.state.claim(&key)?,
            None => None,
        };
        let provisioner = self.0.class(volume.class())?.map(|class| class.provisioner);
        Ok(Observed { claim: Sight::Cached(claim), provisioner, progress: Progress::default(), volume })
    }
}

impl Controller for VolumeController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        match self.0.state.volume(&key.name)? {
            Some(volume) => self.observed(volume).map(Observation::Ready),
            None => {
                self.0.operations.succeeded(key, &self.0.metrics);
                Ok(Observation::Nothing)
            }
        }
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let claim = match &observed.claim {
            Sight::Cached(claim) | Sight::Live(claim) => claim.as_ref(),
        };
        self.0.act(Subject { claim, volume: Some(&observed.volume), key }, step).await
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        let StepResult::Done(outcome) = result else { return };
        match outcome {
            Outcome::Volume(volume) => {
                // Upstream counts failures of plugins, and not volumes that no plugin deletes.
                if matches!(step, Step::WritePhase { phase, .. } if phase == super::volume::FAILED)
                    && volume.policy() == "Delete"
                    && matches!(deletion(&volume), Deletion::HostPath(_))
                {
                    self.0.operations.failed(&volume.meta().key, &self.0.metrics);
                }
                observed.volume = volume;
            }
            Outcome::Read(claim) => observed.claim = Sight::Live(claim),
            Outcome::Said => observed.progress.said = true,
            Outcome::Begun => observed.progress.begun = true,
            Outcome::Gone => observed.progress.over = true,
            Outcome::Claim(_) | Outcome::ClassAssigned | Outcome::ReadVolume(_) => {}
        }
    }
}
