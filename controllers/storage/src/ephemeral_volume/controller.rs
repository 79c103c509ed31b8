//! Syncs of pods.

use std::time::Duration;

use steersman_api::{Meta, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::call::{Content, JSON};
use steersman_controller::client::{Client, Created, Wrote, event_reference};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Awaited, Freshness, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_informer::{Lister, View};
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::pod::Pod;
use steersman_kinds::pod_volumes::{PodVolumes, VolumeUse};

use super::MadeClaim;
use super::claim::claim;
use super::metrics::Metrics;
use super::plan::{Observed, Outcome, State, Step, Volume, plan};
use crate::claiming_pod::ClaimingPod;

/// How long a sync waits for the cache to show the controller's own writes, before it reads the claims from the API server.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Creates the claims for pods' generic ephemeral volumes.
pub(super) struct EphemeralVolumeController {
    pub pods: Lister<ClaimingPod>,
    pub claims: Lister<MadeClaim>,
    pub pod_client: Client<Pod>,
    pub claim_client: Client<PersistentVolumeClaim>,
    pub own_writes: OwnWrites,
    pub recorder: Recorder,
    pub metrics: Metrics,
}

impl EphemeralVolumeController {
    fn claim_key(pod: &Meta, volume: &Volume) -> ObjectKey {
        ObjectKey::new(pod.key.namespace.clone(), volume.claim.clone())
    }

    /// The pod's volumes. The state of their claims is unknown yet.
    fn volumes(pod: &View<ClaimingPod>) -> Vec<Volume> {
        let volumes = pod.get::<PodVolumes>();
        let volume = |volume: &VolumeUse| match volume {
            VolumeUse::Ephemeral(name) => {
                let claim = volume.claim_name(&pod.meta().key.name)?;
                Some(Volume { name: name.as_arc().clone(), claim, state: State::Missing })
            }
            _ => None,
        };
        volumes.volumes.0.iter().filter_map(volume).collect()
    }

    fn cached(&self, pod: &Meta, volume: &Volume) -> State {
        State::of(self.claims.meta(&Self::claim_key(pod, volume)).as_ref(), pod)
    }

    async fn read(&self, pod: &Meta, volume: &Volume) -> Result<Option<Meta>, SyncError> {
        self.claim_client.resource().get_meta(&Self::claim_key(pod, volume)).await
    }

    async fn create(&self, pod: &Meta, volume: &Volume) -> Result<Outcome, SyncError> {
        // Templates may be large, so the cache lacks them.
        let Some(json) = self.pod_client.resource().get_json(&pod.key).await? else {
            return Ok(Outcome::Over);
        };
        let metadata = &json["metadata"];
        if metadata["uid"] != pod.uid.to_string() || !metadata["deletionTimestamp"].is_null() {
            return Ok(Outcome::Over);
        }
        let claim = claim(&json, pod, volume);
        let claim = claim.ok_or_else(|| SyncError::Failed("the pod has no template for it".to_owned()))?;
        self.metrics.attempts.inc();
        let create = self.claim_client.create(&pod.key.namespace, Content::json(JSON, &claim));
        match self.own_writes.write(&pod.key, create).await {
            Ok(Created::Now(_)) => return Ok(Outcome::Is(State::Made)),
            Ok(Created::NamespaceTerminating) => {
                self.metrics.failures.inc();
                return Ok(Outcome::Over);
            }
            Ok(Created::Exists(_)) => self.metrics.failures.inc(),
            Err(error) => {
                self.metrics.failures.inc();
                return Err(error);
            }
        }
        let found = self.read(pod, volume).await?;
        Ok(Outcome::Is(State::of(found.as_ref(), pod)))
    }

    /// Tells the pod's user why the volume has no claim. Upstream's messages.
    fn warn(&self, pod: &Meta, volume: &Volume, why: &str) {
        let message = format!("ephemeral volume {}: {why}", volume.name);
        self.recorder.event(&event_reference::<Pod>(pod), EventType::Warning, "FailedBinding", message);
    }
}

impl Controller for EphemeralVolumeController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.own_writes.clear();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.own_writes.awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        // Before any read from the cache.
        let freshness = self.own_writes.check(key);
        if let Freshness::Behind { .. } = freshness {
            return Ok(Observation::Behind(PATIENCE));
        }
        let pod = self.pods.get(key).map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        let Some(pod) = pod else {
            self.own_writes.forget(key);
            return Ok(Observation::Nothing);
        };
        let (meta, mut volumes) = (pod.meta().clone(), Self::volumes(&pod));
        if freshness == Freshness::Current {
            for volume in &mut volumes {
                volume.state = self.cached(&meta, volume);
            }
        } else {
            let mut newest = None;
            for volume in &mut volumes {
                let claim = self.read(&meta, volume).await?;
                volume.state = State::of(claim.as_ref(), &meta);
                newest = newest.max(claim.map(|claim| claim.resource_version));
            }
            self.own_writes.reread(key, newest.map(Wrote::of::<PersistentVolumeClaim>), |_| true);
        }
        Ok(Observation::Ready(Observed { pod: meta, volumes, is_over: false }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let pod = &observed.pod;
        match *step {
            Step::Create(at) => {
                let volume = &observed.volumes[at];
                self.create(pod, volume).await.inspect_err(|error| {
                    if !error.is_end_of_leadership() {
                        let why =
                            error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
                        self.warn(pod, volume, &format!("create PVC {}: {why}", volume.claim));
                    }
                })
            }
            Step::Refuse(at) => {
                let volume = &observed.volumes[at];
                let why = format!(
                    "PVC {} was not created for pod {key} (pod is not owner)",
                    Self::claim_key(pod, volume)
                );
                self.warn(pod, volume, &why);
                Err(SyncError::Failed(format!("pod {key}, ephemeral volume {}: {why}", volume.name)))
            }
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, &result);
    }
}
