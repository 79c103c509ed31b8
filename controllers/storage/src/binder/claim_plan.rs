//! What becomes of a claim.

use steersman_api::ArcStr;
use steersman_controller::plan::Plan;
use steersman_kinds::persistent_volume_claim::{BOUND_BY_CONTROLLER, MIGRATED_TO, STORAGE_PROVISIONER};

use super::bind::next_write;
use super::claim::{Claim, LOST, PENDING};
use super::migration;
use super::operations::Operation;
use super::plugins::{HOST_PATH, Provisioning, provisioning};
use super::status::{lose_volume, without_volume};
use super::step::{ClaimChange, Event, Step};
use super::volume::Volume;

/// A claim, and what its sync depends on.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub claim: Claim,
    /// The volume that the claim names; for a claim that names none and is not bound, the volume that fits it best.
    pub volume: Option<Volume>,
    /// The claim's storage class. `None` if the claim has none, or there is no class of that name.
    pub class: Option<Class>,
    /// The name of the default storage class.
    pub default_class: Option<ArcStr>,
    /// The names of the pods that use the claim and are not scheduled, sorted.
    pub waiting_pods: Vec<ArcStr>,
    pub settings: Settings,
    /// What this sync has done.
    pub progress: Progress,
}

/// The part of a storage class that a claim depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub provisioner: ArcStr,
    /// Whether the scheduler must choose the node first. `None` if the class does not tell.
    pub waits_for_first_consumer: Option<bool>,
}

/// The settings that policy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub dynamic_provisioning: bool,
}

/// What a sync has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Its event is recorded.
    pub said: bool,
    /// The beginning of an operation is noted.
    pub begun: bool,
    /// The claim's volume has been read from the API server.
    pub read: bool,
    /// A change comes that begins a new sync, or the object is gone.
    pub over: bool,
}

/// The next step for a claim. Upstream's `syncClaim`.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    let step = if observed.progress.over { None } else { next(observed) };
    step.map_or(Plan::done(), Plan::step)
}

fn next(observed: &Observed) -> Option<Step> {
    if let Some(driver) = migration::of_claim(&observed.claim) {
        return Some(Step::WriteClaim(ClaimChange::Migrate(driver)));
    }
    if observed.claim.is_bind_completed() {
        bound(observed)
    } else if observed.claim.volume_name().is_empty() {
        match &observed.volume {
            Some(volume) => next_write(volume, &observed.claim),
            None => without_match(observed),
        }
    } else {
        asking(observed)
    }
}

/// Upstream's `syncBoundClaim`, which trusts its cache when it declares a claim lost.
fn bound(Observed { claim, volume, progress, .. }: &Observed) -> Option<Step> {
    let lost = |reason, message| lose_volume(claim, LOST, Event::warning(reason, message));
    if claim.volume_name().is_empty() {
        let message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost("ClaimLost", message);
    }
    let its =
        |volume: &&Volume| volume.claim_ref().is_none() || volume.bound_uid() == Some(&claim.meta().uid);
    if let Some(volume) = volume.as_ref().filter(its) {
        return next_write(volume, claim);
    }
    // The cache of volumes may lag behind that of claims, and a binding may be newer than what it shows.
    if !progress.read && claim.status().phase != *LOST {
        return Some(Step::ReadVolume);
    }
    if volume.is_some() {
        let message = "Two claims are bound to the same volume, this one is bound incorrectly";
        return lost("ClaimMisbound", message);
    }
    lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
}

/// A claim that asks for a volume by name.
fn asking(observed: &Observed) -> Option<Step> {
    let Observed { claim, volume, .. } = observed;
    let Some(volume) = volume else { return without_volume(claim, PENDING) };
    let name = volume.name().as_str();
    if volume.claim_ref().is_none() {
        return match claim.refuses(volume) {
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                observed
                    .say(Event::warning("VolumeMismatch", message))
                    .or_else(|| without_volume(claim, PENDING))
            }
            None => next_write(volume, claim),
        };
    }
    if volume.is_for(claim) {
        return next_write(volume, claim);
    }
    let message = format!("volume {name:?} already bound to a different claim.");
    let taken = observed.say(Event::warning("FailedBinding", message));
    if !claim.annotations().has(BOUND_BY_CONTROLLER) {
        return taken.or_else(|| without_volume(claim, PENDING));
    }
    taken.or_else(|| {
        let other = volume.claim_ref().map(|other| format!("{}/{}", &*other.namespace, other.name));
        Some(Step::Fail(format!(
            "invalid binding of claim {:?} to volume {name:?}: volume already claimed by {:?}",
            claim.meta().key.to_string(),
            other.unwrap_or_default(),
        )))
    })
}

/// A claim that no volume fits.
fn without_match(observed: &Observed) -> Option<Step> {
    let Observed { claim, class, default_class, .. } = observed;
    if let (false, Some(default)) = (claim.has_class(), default_class) {
        return Some(Step::WriteClaim(ClaimChange::Class(default.clone())));
    }
    let waits = class.as_ref().and_then(|class| class.waits_for_first_consumer) == Some(true);
    let event = if waits && !claim.has_selected_node() {
        waiting(&observed.waiting_pods)
    } else if !claim.class().is_empty() {
        return provision(observed);
    } else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        Event::normal("FailedBinding", message)
    };
    observed.say(event).or_else(|| without_volume(claim, PENDING))
}

/// Upstream's `emitEventForUnboundDelayBindingClaim`.
fn waiting(pods: &[ArcStr]) -> Event {
    match pods {
        [] => {
            Event::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        }
        [pod] => Event::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => {
            let message = format!("waiting for pods {} to be scheduled", pods.join(","));
            Event::normal("WaitForPodScheduled", message)
        }
    }
}

/// Upstream's `provisionClaim`.
fn provision(observed: &Observed) -> Option<Step> {
    let Observed { claim, class, settings, .. } = observed;
    if !settings.dynamic_provisioning {
        return None;
    }
    let failed = |message| observed.say(Event::warning("ProvisioningFailed", message));
    let Some(class) = class else {
        return failed(format!("storageclass.storage.k8s.io {:?} not found", claim.class()));
    };
    let provisioner = match provisioning(&class.provisioner) {
        Provisioning::None(why) => return failed(why),
        Provisioning::External(provisioner) => provisioner,
        Provisioning::HostPath => HOST_PATH.into(),
    };
    if !observed.progress.begun {
        return Some(Step::Begin(Operation { plugin: provisioner, name: "provision" }));
    }
    let annotations = claim.annotations();
    if annotations.get(STORAGE_PROVISIONER).is_none_or(|known| **known != *provisioner) {
        let present = annotations.get(MIGRATED_TO).map(|driver| &**driver);
        let migrated_to = migration::migrated_to(&provisioner, present);
        return Some(Step::WriteClaim(ClaimChange::Provisioner { name: provisioner, migrated_to }));
    }
    if provisioner == HOST_PATH {
        let why = format!("provisioning in volume plugin {HOST_PATH:?} is disabled");
        return failed(format!("Failed to create provisioner: {why}"));
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    observed.say(Event::normal("ExternalProvisioning", message))
}

impl Observed {
    /// Records the event, once in a sync.
    fn say(&self, event: Event) -> Option<Step> {
        (!self.progress.said).then_some(Step::Record(event))
    }
}
