//! Syncs of pods.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::{Meta, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::event_reference;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::{Lister, Unreadable, View};
use steersman_kinds::csi_driver::SelinuxMount;
use steersman_kinds::persistent_volume::VolumeClaimRef;
use steersman_kinds::persistent_volume_claim::{Binding, ClaimedVolume};
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::pod_volumes::ephemeral_claim;
use steersman_kinds::selinux::{MountSource, MountableVolume, SelinuxMounts, VolumeDisk};
use steersman_kinds::volume_source::{CSI_PLUGIN, VolumeSource};

use super::conflict::Conflict;
use super::uses::{Lookup, SharedVolume, Uses, uses};
use super::volumes::Volumes;
use super::{LabelledPod, MountedClaim, MountedVolume, MountingDriver};

/// Warns of conflicts.
pub(super) struct SelinuxWarning {
    pub pods: Lister<LabelledPod>,
    pub claims: Lister<MountedClaim>,
    pub volumes: Lister<MountedVolume>,
    pub drivers: Lister<MountingDriver>,
    pub used: Arc<Mutex<Volumes>>,
    pub recorder: Recorder,
}

/// What a sync decides on.
pub(super) struct Observed {
    /// The pod and its uses. `None` if the pod is gone, or has ended: its node takes its volumes back.
    pod: Option<(Meta, Uses)>,
    is_done: bool,
}

/// A step of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Note how the pod uses its volumes, and record events about it.
    Note,
    /// Forget the pod.
    Forget,
}

fn unreadable(kind: &str) -> impl Fn(Unreadable) -> SyncError {
    move |object| SyncError::Unreadable(format!("{kind} {}", object.key))
}

impl SelinuxWarning {
    /// The uses of a pod. A volume whose objects can't be read is not known.
    fn uses(&self, pod: &View<LabelledPod>) -> Uses {
        uses(pod.get::<SelinuxMounts>(), |volume| self.find(pod.meta(), volume))
    }

    fn find(&self, pod: &Meta, volume: &MountableVolume) -> Lookup {
        match &volume.source {
            MountSource::Other => Lookup::Private,
            // The plugins of these disks can mount them with a label.
            MountSource::Disk(name) => {
                let name = name.clone();
                Lookup::Shared(SharedVolume { name, driver: None, is_labelled: true })
            }
            MountSource::Claim(name) => {
                let claim = ObjectKey::new(pod.key.namespace.clone(), name.clone());
                self.bound(&claim, |_| true).unwrap_or(Lookup::Unknown)
            }
            MountSource::Ephemeral => {
                let name = ephemeral_claim(&pod.key.name, &volume.name);
                let claim = ObjectKey::new(pod.key.namespace.clone(), name);
                self.bound(&claim, |claim| claim.is_controlled_by(&pod.uid)).unwrap_or(Lookup::Unknown)
            }
        }
    }

    /// The volume that a claim is bound to. Upstream: `CreateVolumeSpec`.
    fn bound(&self, claim: &ObjectKey, is_right: impl FnOnce(&Meta) -> bool) -> Option<Lookup> {
        let claim = self.claims.get(claim).ok()??;
        let name = &claim.get::<ClaimedVolume>().name;
        if claim.get::<Binding>().phase != "Bound" || name.is_empty() || !is_right(claim.meta()) {
            return None;
        }
        let volume = self.volumes.get(&ObjectKey::cluster(name.clone())).ok()??;
        let reference = volume.get::<VolumeClaimRef>().claim.as_ref()?;
        (reference.uid == claim.meta().uid).then(|| self.shared(&volume))
    }

    fn shared(&self, volume: &View<MountedVolume>) -> Lookup {
        if let Some(name) = volume.get::<VolumeDisk>().name() {
            return Lookup::Shared(SharedVolume { name, driver: None, is_labelled: true });
        }
        let source = volume.get::<VolumeSource>();
        let Some(driver) = source.csi_driver() else {
            // No other plugin mounts with labels, so that there is nothing to disagree about.
            return Lookup::Private;
        };
        let name = format!("{CSI_PLUGIN}/{driver}^{}", source.handle).into();
        let supports = |object: View<MountingDriver>| object.get::<SelinuxMount>().supported;
        let object = self.drivers.get(&ObjectKey::cluster(driver)).ok().flatten();
        Lookup::Shared(SharedVolume {
            name,
            driver: Some(driver.into()),
            is_labelled: object.is_some_and(supports),
        })
    }

    fn note(&self, pod: &Meta, uses: &Uses) {
        for volume in &uses.torn {
            let message = format!(
                "Volume {:?} is mounted twice with different SELinux labels inside this pod",
                volume.as_str()
            );
            let involved = event_reference::<Pod>(pod);
            self.recorder.event(&involved, EventType::Warning, "MultipleSELinuxLabels", message);
        }
        for used in &uses.shared {
            let conflicts = self.used.lock().add(&pod.key, &pod.uid, used);
            conflicts.iter().for_each(|conflict| self.report(conflict));
        }
    }

    /// Records an event about a conflict with the pod that it is about, if that pod still exists.
    fn report(&self, conflict: &Conflict) {
        if let Some(pod) = self.pods.meta(&conflict.pod) {
            let reason = conflict.property.reason();
            let involved = event_reference::<Pod>(&pod);
            self.recorder.event(&involved, EventType::Normal, reason, conflict.to_string());
        }
    }
}

impl Controller for SelinuxWarning {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    /// How the pod uses volumes now.
    type Outcome = Uses;

    fn term_begins(&self) {
        // The caches queue all pods again.
        self.used.lock().clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let pod = self.pods.get(key).map_err(unreadable("Pod"))?;
        let pod = pod.filter(|pod| !pod.get::<Phase>().is_terminal());
        let pod = pod.map(|pod| (pod.meta().clone(), self.uses(&pod)));
        Ok(Observation::Ready(Observed { pod, is_done: false }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        match observed {
            Observed { is_done: true, .. } => Plan::done(),
            Observed { pod: Some(_), .. } => Plan::step(Step::Note),
            Observed { pod: None, .. } => Plan::step(Step::Forget),
        }
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, _: &Step) -> Result<Uses, SyncError> {
        let Some((pod, uses)) = &observed.pod else {
            self.used.lock().remove(key);
            return Ok(Uses::default());
        };
        self.note(pod, uses);
        // A driver that has changed meanwhile queued the pods that were noted until then.
        let now = self.pods.get(key).map_err(unreadable("Pod"))?.filter(|now| now.meta().uid == pod.uid);
        Ok(now.map_or_else(|| uses.clone(), |now| self.uses(&now)))
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Uses>) {
        observed.is_done = true;
        if let (Some((_, uses)), StepResult::Done(now)) = (&mut observed.pod, result)
            && uses.shared != now.shared
        {
            *uses = Uses { shared: now.shared, torn: Vec::new() };
            observed.is_done = false;
        }
    }
}
