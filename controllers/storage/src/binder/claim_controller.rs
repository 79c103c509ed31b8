//! Syncs of claims.

use std::sync::Arc;

use steersman_api::{ObjectKey, Time};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;

use super::claim::Claim;
use super::claim_plan::{Class, Observed, Progress, plan};
use super::controller::{Binder, Outcome, Subject};
use super::step::Step;
use super::volumes::Scope;

/// Binds claims.
pub(super) struct ClaimController(pub Arc<Binder>);

impl ClaimController {
    fn observed(&self, claim: Claim) -> Result<Observed, SyncError> {
        let binder = &self.0;
        let key = &claim.meta().key;
        let class = binder.class(claim.class())?;
        let volume = if !claim.volume_name().is_empty() {
            binder.state.volume(claim.volume_name())?
        } else if claim.is_bind_completed() {
            None
        } else {
            let scope = scope_of(&claim, class.as_ref())?;
            let found = binder.state.best_match(&claim, scope);
            let found = found
                .map_err(|error| SyncError::Failed(format!("error finding PV for claim {key:?}: {error}")))?;
            // The volume may have become unreadable since its known state.
            found.map(|volume| binder.state.volume(volume.name())).transpose()?.flatten()
        };
        let is_unmatched = volume.is_none() && !claim.is_bind_completed();
        let default_class = if is_unmatched && !claim.has_class() { binder.default_class()? } else { None };
        let waiting_pods = if is_unmatched { binder.waiting_pods(key)? } else { Vec::new() };
        let settings = binder.settings;
        Ok(Observed {
            volume,
            class,
            default_class,
            waiting_pods,
            settings,
            progress: Progress::default(),
            claim,
        })
    }
}

/// Among which volumes a claim that names none gets one.
fn scope_of(claim: &Claim, class: Option<&Class>) -> Result<Scope, SyncError> {
    match class.map(|class| class.waits_for_first_consumer) {
        None | Some(Some(false)) => Ok(Scope::All),
        Some(Some(true)) => Ok(Scope::Reserved),
        Some(None) => {
            let why = format!("VolumeBindingMode not set for StorageClass {:?}", claim.class());
            Err(SyncError::Failed(why))
        }
    }
}

impl Controller for ClaimController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.0.state.forget_writes();
        self.0.operations.clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        match self.0.state.claim(key)? {
            Some(claim) => self.observed(claim).map(Observation::Ready),
            None => {
                self.0.operations.forget(key);
                Ok(Observation::Nothing)
            }
        }
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let subject = Subject { claim: Some(&observed.claim), volume: observed.volume.as_ref(), key };
        self.0.act(subject, step).await
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Outcome>) {
        let StepResult::Done(outcome) = result else { return };
        match outcome {
            Outcome::Volume(volume) => observed.volume = Some(volume),
            Outcome::Claim(claim) => observed.claim = claim,
            Outcome::Said => observed.progress.said = true,
            Outcome::Begun => observed.progress.begun = true,
            Outcome::ClassAssigned | Outcome::Gone => observed.progress.over = true,
            Outcome::ReadVolume(volume) => (observed.volume, observed.progress.read) = (volume, true),
            Outcome::Read(_) => {}
        }
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        let Some(observed) = sync.observed else { return };
        match sync.result {
            Ok(()) if observed.claim.is_settled() => self.0.operations.succeeded(key, &self.0.metrics),
            Err(error) if !error.is_end_of_leadership() => self.0.operations.failed(key, &self.0.metrics),
            _ => {}
        }
    }
}
