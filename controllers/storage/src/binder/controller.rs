//! What syncs of claims and of volumes have in common: the caches, and how steps are carried out.

use std::sync::Arc;

use steersman_api::{ArcStr, ObjectKey};
use steersman_client::events::Recorder;
use steersman_controller::client::{Changed, Client, ObjectWriter, StatusWriter, event_reference};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::Object;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Index, IndexValue, Lister};
use steersman_kinds::persistent_volume::PersistentVolume;
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::storage_class::{BindingMode, ClassMark, Provisioner};

use super::claim::Claim;
use super::claim_plan::{Class, Settings};
use super::metrics::Metrics;
use super::operations::Operations;
use super::state::State;
use super::step::{About, ClaimChange, Event, Step, VolumeChange, phase_change};
use super::volume::Volume;
use super::{ClaimClass, WaitingPod};

/// What both controllers work with.
pub(super) struct Binder {
    pub state: Arc<State>,
    pub classes: Lister<ClaimClass>,
    pub pods: Lister<WaitingPod>,
    /// Pods that are not scheduled, by the namespace and the name of each claim that they use.
    pub waiting: Index<WaitingPod>,
    pub claims: Client<PersistentVolumeClaim>,
    pub volumes: Client<PersistentVolume>,
    pub claim_writer: ObjectWriter<PersistentVolumeClaim>,
    pub claim_status: StatusWriter<PersistentVolumeClaim>,
    pub volume_writer: ObjectWriter<PersistentVolume>,
    pub volume_status: StatusWriter<PersistentVolume>,
    pub recorder: Recorder,
    pub claim_queue: WorkQueue<ObjectKey>,
    pub operations: Operations,
    pub metrics: Metrics,
    pub settings: Settings,
}

/// The objects that a step is about.
pub(super) struct Subject<'a> {
    pub claim: Option<&'a Claim>,
    pub volume: Option<&'a Volume>,
    /// The key of the sync: the operations of the binder are known by it.
    pub key: &'a ObjectKey,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The volume is in this state now.
    Volume(Volume),
    /// The claim is in this state now.
    Claim(Claim),
    /// The claim has got its class: its next state begins a new sync.
    ClassAssigned,
    /// The API server has the claim in this state, or none of that name.
    Read(Option<Claim>),
    /// The API server has the volume in this state, or none of that name.
    ReadVolume(Option<Volume>),
    /// The event is recorded, or the other sync is enqueued.
    Said,
    /// The beginning of the operation is noted.
    Begun,
    /// The object is gone. Its deletion begins a new sync.
    Gone,
}

impl Binder {
    /// A storage class.
    ///
    /// # Errors
    /// The cached class can't be read.
    pub(super) fn class(&self, name: &str) -> Result<Option<Class>, SyncError> {
        if name.is_empty() {
            return Ok(None);
        }
        let class = self.classes.get(&ObjectKey::cluster(name));
        let class = class.map_err(|_| SyncError::Unreadable(format!("StorageClass {name}")))?;
        Ok(class.map(|class| Class {
            provisioner: class.get::<Provisioner>().0.as_arc().clone(),
            waits_for_first_consumer: class.get::<BindingMode>().waits_for_first_consumer(),
        }))
    }

    /// The default class: of those that are marked the newest, and of those of one second the first by name. Upstream's
    /// `GetDefaultClass`.
    ///
    /// # Errors
    /// A cached class can't be read.
    pub(super) fn default_class(&self) -> Result<Option<ArcStr>, SyncError> {
        let classes = self.classes.list();
        let classes =
            classes.map_err(|class| SyncError::Unreadable(format!("StorageClass {}", class.key)))?;
        let marked = classes.iter().filter(|class| class.get::<ClassMark>().is_default());
        let newest = marked
            .min_by_key(|class| (std::cmp::Reverse(class.meta().created), class.meta().key.name.clone()));
        Ok(newest.map(|class| class.meta().key.name.clone()))
    }

    /// The names of the pods that use a claim and are not scheduled, sorted.
    ///
    /// # Errors
    /// A cached pod can't be read.
    pub(super) fn waiting_pods(&self, claim: &ObjectKey) -> Result<Vec<ArcStr>, SyncError> {
        let value = IndexValue::Pair(claim.namespace.clone(), claim.name.clone());
        let pods = self.pods.by_index(&self.waiting, &value);
        let pods = pods.map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        let mut names: Vec<_> = pods.iter().map(|pod| pod.meta().key.name.clone()).collect();
        names.sort();
        Ok(names)
    }

    /// Carries out a step.
    ///
    /// # Errors
    /// The call failed, or the object has changed since the step was decided on.
    pub(super) async fn act(&self, subject: Subject<'_>, step: &Step) -> Result<Outcome, SyncError> {
        match (step, subject.volume, subject.claim) {
            (Step::WriteVolume(change), Some(volume), claim) => {
                self.write_volume(volume, claim, change).await
            }
            (Step::WritePhase { phase, event }, Some(volume), _) => {
                self.write_phase(volume, phase, event.as_ref()).await
            }
            (Step::WriteClaim(change), _, Some(claim)) => self.write_claim(claim, change).await,
            (Step::WriteStatus { status, event }, _, Some(claim)) => {
                let Some(change) = status.change(claim) else { return Ok(Outcome::Claim(claim.clone())) };
                let written = self.claim_status.write(&claim.meta().key, &change).await?;
                self.claim_changed(claim, written, event.as_ref())
            }
            (Step::Record(event), volume, claim) => {
                self.record(event, volume, claim);
                Ok(Outcome::Said)
            }
            (Step::Begin(operation), ..) => {
                self.operations.begin(subject.key, operation);
                Ok(Outcome::Begun)
            }
            (Step::ReadClaim, Some(volume), _) => {
                let Some(key) = volume.claim_key() else { return Ok(Outcome::Read(None)) };
                if key.namespace.is_empty() {
                    // The API server knows no such path, and its 404 would count as a claim that is gone.
                    let why =
                        format!("the claimRef of PersistentVolume {} has no namespace", volume.meta().key);
                    return Err(SyncError::Failed(why));
                }
                Ok(Outcome::Read(self.claims.get(&key).await?.map(Claim)))
            }
            (Step::ReadVolume, _, Some(claim)) => {
                let key = ObjectKey::cluster(claim.volume_name().clone());
                let volume = self.volumes.get(&key).await?.map(Volume);
                if let Some(volume) = &volume {
                    self.state.volume_written(volume.clone());
                }
                Ok(Outcome::ReadVolume(volume))
            }
            (Step::SyncClaim, Some(volume), _) => {
                if let Some(claim) = volume.claim_key() {
                    self.claim_queue.add(claim);
                }
                Ok(Outcome::Said)
            }
            (Step::Fail(why), ..) => Err(SyncError::Failed(why.clone())),
            (step, ..) => {
                Err(SyncError::Failed(format!("{step:?} does not fit what is known of {}", subject.key)))
            }
        }
    }

    async fn write_volume(
        &self,
        volume: &Volume,
        claim: Option<&Claim>,
        change: &VolumeChange,
    ) -> Result<Outcome, SyncError> {
        let key = &volume.meta().key;
        let Some(change) = change.of(volume, claim) else {
            return Err(SyncError::Failed(format!("{change:?} of PersistentVolume {key} needs a claim")));
        };
        let written = self.volume_writer.write(key, &change).await?;
        self.volume_changed(volume, written, None)
    }

    async fn write_phase(
        &self,
        volume: &Volume,
        phase: &str,
        event: Option<&Event>,
    ) -> Result<Outcome, SyncError> {
        let message = event.map_or("", |event| &event.message);
        let Some(change) = phase_change(volume, phase, message) else {
            return Ok(Outcome::Volume(volume.clone()));
        };
        let written = self.volume_status.write(&volume.meta().key, &change).await?;
        self.volume_changed(volume, written, event)
    }

    async fn write_claim(&self, claim: &Claim, change: &ClaimChange) -> Result<Outcome, SyncError> {
        let key = &claim.meta().key;
        let written = self.claim_writer.write(key, &change.of(claim)).await;
        let changed = written.and_then(|written| self.claim_changed(claim, written, None));
        match (change, &changed) {
            (ClaimChange::Class(_), Ok(Outcome::Claim(_))) => {
                self.metrics.assigned_class(true);
                return Ok(Outcome::ClassAssigned);
            }
            (_, Err(error)) if error.is_end_of_leadership() => {}
            (ClaimChange::Class(_), Err(_)) => self.metrics.assigned_class(false),
            (ClaimChange::Provisioner { .. }, Err(error)) => {
                let why =
                    error.status().map_or_else(|| error.to_string(), |status| status.message.to_string());
                let event = Event::warning("ProvisioningFailed", format!("Error saving claim: {why}"));
                self.record(&event, None, Some(claim));
            }
            _ => {}
        }
        changed
    }

    fn volume_changed(
        &self,
        volume: &Volume,
        written: Changed<PersistentVolume>,
        event: Option<&Event>,
    ) -> Result<Outcome, SyncError> {
        let written = written.or_conflict(|| format!("changing PersistentVolume {}", volume.name()))?;
        let Some(volume) = written.map(Volume) else { return Ok(Outcome::Gone) };
        self.state.volume_written(volume.clone());
        if let Some(event) = event {
            self.record(event, Some(&volume), None);
        }
        Ok(Outcome::Volume(volume))
    }

    fn claim_changed(
        &self,
        claim: &Claim,
        written: Changed<PersistentVolumeClaim>,
        event: Option<&Event>,
    ) -> Result<Outcome, SyncError> {
        let written =
            written.or_conflict(|| format!("changing PersistentVolumeClaim {}", claim.meta().key))?;
        let Some(claim) = written.map(Claim) else { return Ok(Outcome::Gone) };
        self.state.claim_written(claim.clone());
        if let Some(event) = event {
            self.record(event, None, Some(&claim));
        }
        Ok(Outcome::Claim(claim))
    }

    fn record(&self, event: &Event, volume: Option<&Volume>, claim: Option<&Claim>) {
        let about = match event.about {
            About::Claim => claim.map(|claim| event_reference::<PersistentVolumeClaim>(claim.0.meta())),
            About::Volume => volume.map(|volume| event_reference::<PersistentVolume>(volume.0.meta())),
        };
        if let Some(about) = about {
            self.recorder.event(&about, event.kind, event.reason, event.message.clone());
        }
    }
}
