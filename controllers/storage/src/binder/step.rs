//! What a sync of a claim or a volume does.

use serde_json::{Value, json};
use steersman_api::{ArcStr, Meta};
use steersman_client::events::EventType;
use steersman_controller::client::{ObjectChange, StatusChange};
use steersman_informer::Interned;
use steersman_kinds::persistent_volume_claim::{
    BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, ClaimStatus, MIGRATED_TO,
    STORAGE_PROVISIONER,
};
use steersman_kinds::resource_list::ResourceList;

use super::claim::Claim;
use super::operations::Operation;
use super::volume::Volume;

/// An action of the binder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Change the volume.
    WriteVolume(VolumeChange),
    /// Set the volume's phase, then record the event.
    WritePhase {
        /// The new phase.
        phase: &'static str,
        /// The event, whose message the status gets as well.
        event: Option<Event>,
    },
    /// Change the claim.
    WriteClaim(ClaimChange),
    /// Set the claim's status, then record the event.
    WriteStatus {
        /// The new status.
        status: ClaimStatusText,
        /// The event.
        event: Option<Event>,
    },
    /// Record an event.
    Record(Event),
    /// Remember when an operation began that another party carries out.
    Begin(Operation),
    /// Read the claim from the API server.
    ReadClaim,
    /// Read the volume that the claim names from the API server.
    ReadVolume,
    /// Sync the claim that the volume is bound to.
    SyncClaim,
    /// Fail, and so try again later.
    Fail(String),
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// The object that the event is about.
    pub about: About,
    /// How bad it is.
    pub kind: EventType,
    /// Why, in one word for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// The object that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Claim,
    Volume,
}

impl Event {
    /// Something that is as it should be, about the claim.
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { about: About::Claim, kind: EventType::Normal, reason, message: message.into() }
    }

    /// A problem of the claim.
    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { about: About::Claim, kind: EventType::Warning, reason, message: message.into() }
    }

    /// A problem of the volume.
    pub(super) fn of_volume(reason: &'static str, message: impl Into<String>) -> Self {
        Self { about: About::Volume, ..Self::warning(reason, message) }
    }
}

/// A change of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VolumeChange {
    /// Bind the volume to the claim.
    Bind {
        /// Whether the volume was not reserved for the claim, so that the binder chose it.
        chosen: bool,
    },
    /// Take the claim away from a volume that a controller bound.
    Unbind,
    /// Keep a volume, which a user reserved, for claims of that name, and no longer for the claim of that uid.
    Reserve,
    /// Set the annotation of the CSI driver that serves the volume, and the finalizers, where they differ.
    Migrate {
        /// The new annotation. `None`: it is right. `Some(None)`: remove it.
        migrated_to: Option<Option<ArcStr>>,
        /// The new finalizers.
        finalizers: Option<Vec<ArcStr>>,
    },
}

/// A change of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimChange {
    /// Bind the claim to a volume.
    Bind {
        /// The volume's name.
        volume: ArcStr,
        /// Whether the claim did not ask for that volume.
        chosen: bool,
    },
    /// Give the claim the default storage class.
    Class(ArcStr),
    /// Ask a provisioner for a volume.
    Provisioner {
        /// The provisioner.
        name: ArcStr,
        /// The annotation of the CSI driver: as in [`VolumeChange::Migrate`].
        migrated_to: Option<Option<ArcStr>>,
    },
    /// Set the annotation of the CSI driver, or remove it.
    Migrate(Option<ArcStr>),
}

impl VolumeChange {
    /// The change as a merge patch.
    pub(super) fn of(&self, volume: &Volume, claim: Option<&Claim>) -> Option<ObjectChange> {
        let patch = match self {
            Self::Bind { chosen } => {
                let meta = claim?.meta();
                let mut patch = json!({"spec": {"claimRef": reference(meta)}});
                if *chosen && !volume.is_bound_by_controller() {
                    patch["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
                }
                patch
            }
            Self::Unbind => json!({
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null},
            }),
            Self::Reserve => json!({"spec": {"claimRef": {"uid": null}}}),
            Self::Migrate { migrated_to, finalizers } => {
                let mut patch = json!({"metadata": {}});
                if let Some(driver) = migrated_to {
                    patch["metadata"]["annotations"] = json!({MIGRATED_TO: driver.as_deref()});
                }
                if let Some(finalizers) = finalizers {
                    let finalizers: Vec<_> = finalizers.iter().map(ArcStr::as_str).collect();
                    patch["metadata"]["finalizers"] = json!(finalizers);
                }
                patch
            }
        };
        Some(ObjectChange::new(volume.meta(), patch))
    }
}

/// How a volume names its claim, as client-go's `GetReference`. It replaces all of an older reference.
fn reference(meta: &Meta) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.key.namespace.as_str(),
        "name": meta.key.name.as_str(), "uid": meta.uid, "resourceVersion": meta.resource_version.to_string(),
        "fieldPath": null,
    })
}

impl ClaimChange {
    /// The change as a merge patch.
    pub(super) fn of(&self, claim: &Claim) -> ObjectChange {
        let annotations = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let patch = match self {
            Self::Bind { volume, chosen } => {
                let mut patch = json!({"metadata": {}});
                if !claim.is_bind_completed() {
                    patch["metadata"]["annotations"][BIND_COMPLETED] = "yes".into();
                }
                if *chosen {
                    patch["spec"] = json!({"volumeName": volume.as_str()});
                    if !claim.annotations().has(BOUND_BY_CONTROLLER) {
                        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
                    }
                }
                patch
            }
            Self::Class(class) => json!({"spec": {"storageClassName": class.as_str()}}),
            Self::Provisioner { name, migrated_to } => {
                let mut set =
                    json!({STORAGE_PROVISIONER: name.as_str(), BETA_STORAGE_PROVISIONER: name.as_str()});
                if let Some(driver) = migrated_to {
                    set[MIGRATED_TO] = json!(driver.as_deref());
                }
                annotations(set)
            }
            Self::Migrate(driver) => annotations(json!({MIGRATED_TO: driver.as_deref()})),
        };
        ObjectChange::new(claim.meta(), patch)
    }
}

/// The part of a claim's status that the binder writes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaimStatusText {
    pub phase: Interned,
    pub access_modes: Vec<Interned>,
    pub capacity: ResourceList,
    pub current_attributes_class: Option<Interned>,
}

impl ClaimStatusText {
    /// The status that a claim has.
    pub(super) fn of(status: &ClaimStatus) -> Self {
        Self {
            phase: status.phase.clone(),
            access_modes: status.access_modes.clone(),
            capacity: status.capacity.clone(),
            current_attributes_class: status.current_attributes_class.clone(),
        }
    }

    /// The change from the status that a claim has. `None` if there is no difference.
    pub(super) fn change(&self, claim: &Claim) -> Option<StatusChange> {
        StatusChange::between(claim.meta(), &Self::of(claim.status()).json(), &self.json())
    }

    /// The status as the API has it: without members that are empty.
    fn json(&self) -> Value {
        let mut status = json!({"phase": &*self.phase});
        if !self.access_modes.is_empty() {
            status["accessModes"] = self.access_modes.iter().map(|mode| &**mode).collect();
        }
        if !self.capacity.is_empty() {
            status["capacity"] = json!(self.capacity);
        }
        if let Some(class) = &self.current_attributes_class {
            status["currentVolumeAttributesClassName"] = json!(&**class);
        }
        status
    }
}

/// The change of a volume's phase and message.
pub(super) fn phase_change(volume: &Volume, phase: &str, message: &str) -> Option<StatusChange> {
    // The cache does not keep the message, so the change replaces it, or removes it, whatever it is.
    let was = json!({"phase": volume.phase(), "message": null});
    let is = if message.is_empty() {
        json!({"phase": phase})
    } else {
        json!({"phase": phase, "message": message})
    };
    StatusChange::between(volume.meta(), &was, &is)
}
