//! Syncs of claims.

use serde_json::json;
use steersman_api::{ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, Patch, event_reference};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::wire::Group;
use steersman_kinds::persistent_volume::{PersistentVolume, VolumeClaimRef};
use steersman_kinds::persistent_volume_claim::{
    ClaimAnnotations, ClaimedVolume, PersistentVolumeClaim, STORAGE_RESIZER,
};
use steersman_kinds::volume_source::VolumeSource;

use super::plan::{Expander, Observed, Outcome, Step, Volume, plan};
use super::{GrowingClaim, capacity, request};

/// Tells the users of claims who expands their volumes.
pub(super) struct VolumeExpander {
    pub claims: Lister<GrowingClaim>,
    pub claim_client: Client<PersistentVolumeClaim>,
    pub volume_client: Client<PersistentVolume>,
    pub recorder: Recorder,
}

impl VolumeExpander {
    async fn read_volume(&self, claim: &ObjectKey) -> Result<Outcome, SyncError> {
        let unreadable = |claim: steersman_informer::Unreadable| {
            SyncError::Unreadable(format!("PersistentVolumeClaim {}", claim.key))
        };
        let name = self
            .claims
            .get(claim)
            .map_err(unreadable)?
            .map(|claim| claim.get::<ClaimedVolume>().name.clone());
        let name = name.unwrap_or_default();
        let volume = self.volume_client.get(&ObjectKey::new("", name.clone())).await?;
        let volume = volume.ok_or_else(|| {
            SyncError::Failed(format!("failed to get PV {name:?}: persistentvolumes {name:?} not found"))
        })?;
        let groups = VolumeClaimRef::of(&volume).zip(VolumeSource::of(&volume));
        let (claim, source) = groups.expect("the client must decode what it keeps");
        let claim = claim.claim.as_ref().map(|claim| (claim.namespace.as_arc().clone(), claim.uid.clone()));
        Ok(Outcome::Read(Volume { claim, source: source.clone() }))
    }

    fn tell(&self, observed: &Observed, expander: Expander) {
        let (kind, message) = match expander {
            Expander::Migrated(plugin) => (
                EventType::Normal,
                format!("CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"),
            ),
            Expander::External => {
                (EventType::Normal, "waiting for an external controller to expand this PVC".to_owned())
            }
            Expander::Declined => {
                (EventType::Warning, "this controller does not expand FlexVolumes".to_owned())
            }
        };
        let claim = event_reference::<PersistentVolumeClaim>(&observed.claim);
        self.recorder.event(&claim, kind, "ExternalExpanding", message);
    }

    async fn set_resizer(&self, key: &ObjectKey, observed: &Observed, driver: &str) -> Result<(), SyncError> {
        let patch = Patch::Strategic(json!({"metadata": {
            "uid": observed.claim.uid,
            "resourceVersion": observed.claim.resource_version,
            "annotations": {STORAGE_RESIZER: driver},
        }}));
        let written = match self.claim_client.patch_status(key, &patch).await {
            Ok(Changed::Conflict(status)) => {
                Err(SyncError::Refused { what: format!("patching PersistentVolumeClaim {key}"), status })
            }
            written => written.map(drop),
        };
        written.inspect_err(|error| {
            if !error.is_end_of_leadership() {
                let message = format!("error setting resizer annotation to pvc {key}, with error {error}");
                let claim = event_reference::<PersistentVolumeClaim>(&observed.claim);
                self.recorder.event(&claim, EventType::Warning, "ExternalExpanding", message);
            }
        })
    }
}

impl Controller for VolumeExpander {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let claim = self.claims.get(key);
        let claim =
            claim.map_err(|claim| SyncError::Unreadable(format!("PersistentVolumeClaim {}", claim.key)))?;
        Ok(claim.map_or(Observation::Nothing, |claim| {
            let resizer = claim.get::<ClaimAnnotations>().selected.get(STORAGE_RESIZER);
            Observation::Ready(Observed {
                claim: claim.meta().clone(),
                request: request(&claim),
                capacity: capacity(&claim),
                volume: None,
                resizer: resizer.map(|driver| driver.as_arc().clone()).unwrap_or_default(),
                is_told: false,
            })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::ReadVolume => self.read_volume(key).await,
            Step::Fail => {
                Err(SyncError::Failed(format!("persistent Volume is not bound to PVC being updated : {key}")))
            }
            Step::Tell(expander) => {
                self.tell(observed, *expander);
                Ok(Outcome::Done)
            }
            Step::SetResizer(driver) => self.set_resizer(key, observed, driver).await.map(|()| Outcome::Done),
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}
