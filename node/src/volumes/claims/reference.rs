//! A pod's reference to a claim, and what must hold before the pod may use the claim's volume. Pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};

use super::Persistent;
use crate::volumes::disk::nested::volumes_of_containers;
use crate::volumes::refusal::Refusal;

/// While a claim has this finalizer, pods that use it may go on although the claim is being deleted.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// A volume of a pod that stands for a claim.
#[derive(Debug, Clone)]
pub(in crate::volumes) struct ClaimReference<'a> {
    pod: &'a Pod,
    /// The volume's name in the pod's spec.
    volume: &'a str,
    /// The claim's name; its namespace is the pod's.
    claim: String,
    /// Whether the pod may only read.
    read_only: bool,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The pod names the claim (`persistentVolumeClaim`).
    Named,
    /// The claim is made for the pod (`ephemeral`), and must belong to it.
    Ephemeral,
}

impl<'a> ClaimReference<'a> {
    /// The claim that a volume of the pod stands for. `None` if the volume has a source of its own.
    pub(in crate::volumes) fn of(pod: &'a Pod, volume: &'a Volume) -> Option<Self> {
        let reference =
            |claim, read_only, origin| Self { pod, volume: &volume.name, claim, read_only, origin };
        if let Some(source) = &volume.persistent_volume_claim {
            let read_only = source.read_only.unwrap_or_default();
            return Some(reference(source.claim_name.clone(), read_only, Origin::Named));
        }
        volume.ephemeral.as_ref()?;
        let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
        Some(reference(format!("{pod_name}-{}", volume.name), false, Origin::Ephemeral))
    }

    /// The claim's namespace.
    pub(in crate::volumes) fn namespace(&self) -> &'a str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The claim's name.
    pub(in crate::volumes) fn name(&self) -> &str {
        &self.claim
    }

    /// The refusal for a claim that can't be read; `reason` is the API server's.
    pub(in crate::volumes) fn unread_claim(&self, reason: &str) -> Refusal {
        self.unusable(&format!("failed to fetch PVC from API server: {reason}"))
    }

    /// The refusal for a persistent volume that can't be read; `reason` is the API server's.
    pub(in crate::volumes) fn unread_volume(&self, name: &str, reason: &str) -> Refusal {
        self.unusable(&format!("failed to fetch PV {name} from API server: {reason}"))
    }

    /// The name of the persistent volume that `claim` is bound to.
    ///
    /// # Errors
    /// The pod may not use the claim, or may not use it yet.
    pub(in crate::volumes) fn bound_volume<'b>(
        &self,
        claim: &'b PersistentVolumeClaim,
    ) -> Result<&'b str, Refusal> {
        let finalizers = claim.metadata.finalizers.iter().flatten();
        let is_protected = finalizers.into_iter().any(|finalizer| finalizer == PROTECTION);
        if claim.metadata.deletion_timestamp.is_some() && !is_protected {
            return Err(self.unusable("PVC is being deleted"));
        }
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Bound") {
            return Err(self.unusable("PVC is not bound"));
        }
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
        if volume.is_empty() {
            return Err(self.unusable("PVC has empty pvc.Spec.VolumeName"));
        }
        if self.origin == Origin::Ephemeral && !self.is_made_for_pod(claim) {
            let (namespace, pod) = (self.namespace(), self.pod.metadata.name.as_deref().unwrap_or_default());
            return Err(Refusal::Unprocessed(format!(
                "PVC {namespace}/{} was not created for pod {namespace}/{pod} (pod is not owner)",
                self.claim
            )));
        }
        Ok(volume)
    }

    fn is_made_for_pod(&self, claim: &PersistentVolumeClaim) -> bool {
        let owners = claim.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        controller.is_some_and(|owner| Some(&owner.uid) == self.pod.metadata.uid.as_ref())
    }

    /// What to mount for the pod of `volume`, the persistent volume that `claim` names.
    ///
    /// # Errors
    /// The volume is not bound to this very claim, is used in another way than its mode allows, or has a source that this
    /// node does not support.
    pub(in crate::volumes) fn persistent(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<Persistent, Refusal> {
        self.check_binding(claim, volume)?;
        self.check_mode(volume)?;
        let unsupported = |kind: &str| {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            Refusal::Unsupported(format!(
                "volume {:?}, which is PersistentVolume {name:?}, is of kind {kind}, which this node does not support",
                self.volume
            ))
        };
        if mode_of(volume) == BLOCK {
            return Err(unsupported("block device"));
        }
        Persistent::of(volume, self.read_only).map_err(|kind| unsupported(&kind))
    }

    /// Checks what holds for a volume of any kind, also of those that only a simulated node mounts.
    ///
    /// # Errors
    /// As for [`persistent`](Self::persistent).
    pub(in crate::volumes) fn check(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), Refusal> {
        self.check_binding(claim, volume)?;
        self.check_mode(volume)
    }

    fn check_binding(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), Refusal> {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let Some(bound_to) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
            return Err(self.unusable(&format!(
                "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
            )));
        };
        let (theirs, ours) =
            (bound_to.uid.as_deref().unwrap_or_default(), claim.metadata.uid.as_deref().unwrap_or_default());
        if theirs != ours {
            return Err(self.unusable(&format!(
                "found PV object {name} but its pv.Spec.ClaimRef.UID {theirs} does not point to claim.UID {ours}"
            )));
        }
        Ok(())
    }

    fn check_mode(&self, volume: &PersistentVolume) -> Result<(), Refusal> {
        let mode = mode_of(volume);
        let wrongly_used = |field: &str| {
            Err(Refusal::Unprocessed(format!(
                "volume {} has volumeMode {mode}, but is specified in {field}",
                self.volume
            )))
        };
        let mut containers = volumes_of_containers(self.pod);
        if mode != FILESYSTEM && containers.any(|(own, _)| own.iter().any(|mount| mount.name == self.volume))
        {
            return wrongly_used("volumeMounts");
        }
        let mut containers = volumes_of_containers(self.pod);
        if mode != BLOCK && containers.any(|(_, own)| own.iter().any(|device| device.name == self.volume)) {
            return wrongly_used("volumeDevices");
        }
        Ok(())
    }

    fn unusable(&self, reason: &str) -> Refusal {
        Refusal::Unprocessed(format!("error processing PVC {}/{}: {reason}", self.namespace(), self.claim))
    }
}

const FILESYSTEM: &str = "Filesystem";
const BLOCK: &str = "Block";

fn mode_of(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or(FILESYSTEM)
}
