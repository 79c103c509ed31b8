//! The state of a volume, and of its attachments to nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_informer::wire::{Group, Object};
use steersman_kinds::volume_attachment::{AttachmentStatus, VolumeAttachment};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::names::VolumeName;
use super::plan::ATTACHER_TIMEOUT;

/// What is known of a volume.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub volume: VolumeName,
    /// Whether the volume's driver wants its volumes attached.
    pub attachable: bool,
    /// Whether the volume may be attached to one node only.
    pub exclusive: bool,
    /// The nodes where a pod needs the volume, or to which it may be attached.
    pub sites: BTreeMap<ArcStr, Site>,
    pub settings: Settings,
    /// The time of the observation.
    pub now: Instant,
}

/// What flags change in the policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// How long the controller waits for a node that is not ready to unmount a volume. `None`: for ever.
    pub force_after: Option<Duration>,
    /// Whether a volume that a node lists as attached must have a VolumeAttachment that says so.
    pub verify: bool,
}

/// A volume at one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// The pods on the node that need the volume and have not ended, the oldest first.
    pub users: Vec<User>,
    /// `None` if the node does not exist.
    pub node: Option<Node>,
    /// Whether the kubelet uses the volume, or is about to. Of a node that is gone: as it reported last, and true if that is
    /// not known.
    pub in_use: bool,
    /// The VolumeAttachment, if it exists.
    pub attachment: Option<Attachment>,
    pub memory: Memory,
    /// The API server has confirmed in this sync that the kubelet does not use the volume.
    pub is_unused: bool,
    /// The API server, and not the cache, has said in this sync what `attachment` is.
    pub is_probed: bool,
}

/// A pod that needs a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub pod: ObjectKey,
    pub uid: Uid,
    /// The PersistentVolume by which the pod has the volume; for a disk that the pod spells out, the volume in the pod.
    pub persistent_volume: ArcStr,
    /// Whether a CSI driver serves the volume, though its type is another one.
    pub migrated: bool,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whether the node's kubelet leaves it to the controller to attach volumes.
    pub managed: bool,
    pub ready: bool,
    /// Whether an administrator has tainted the node as out of service.
    pub out_of_service: bool,
    /// Whether the node's status lists the volume as attached.
    pub listed: bool,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attachment {
    pub uid: Uid,
    pub attached: bool,
    /// Whether somebody has deleted it. It goes once the external attacher has detached the volume.
    pub deleting: bool,
    pub attach_error: Option<ArcStr>,
    pub detach_error: Option<ArcStr>,
}

/// What this process remembers of a volume at a node, for as long as it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Since when no pod needs the volume there.
    pub unneeded_since: Option<Instant>,
    /// Since when the external attacher is to attach the volume, until pods are told. A failure begins anew.
    pub attaching_since: Option<Instant>,
    /// Since when the external attacher is to detach the volume.
    pub detaching_since: Option<Instant>,
    /// Whether the pods that needed the volume last had it as one of a type that was once served inside Kubernetes.
    pub migrated: bool,
    /// Whether pods have been told that the volume is attached.
    pub announced: bool,
    /// Whether pods have been told that another node has the volume.
    pub reported_elsewhere: bool,
    /// Whether the volume is detached without the kubelet's consent, so that other nodes may have it.
    pub forced: bool,
    /// After attempts to attach.
    pub attaching: Backoff,
    /// After attempts to detach.
    pub detaching: Backoff,
    /// After attempts to change the list in the node's status.
    pub listing: Backoff,
}

impl Attachment {
    /// What the controller reads of a VolumeAttachment.
    pub(super) fn of(object: &VolumeAttachment) -> Self {
        let meta = object.meta();
        let status = AttachmentStatus::of(object).cloned().unwrap_or_default();
        Self {
            uid: meta.uid.clone(),
            attached: status.attached,
            deleting: meta.is_deleting(),
            attach_error: status.attach_error.map(|error| error.message),
            detach_error: status.detach_error.map(|error| error.message),
        }
    }
}

impl Site {
    /// Whether the node's status lists the volume as attached.
    pub(super) fn is_listed(&self) -> bool {
        self.node.is_some_and(|node| node.listed)
    }

    /// Whether the volume may be attached to the node.
    pub(super) fn may_be_attached(&self) -> bool {
        self.attachment.is_some() || self.is_listed()
    }

    /// Whether no other node may have a volume for one node. Not if the volume is being detached by force.
    pub(super) fn blocks(&self) -> bool {
        let is_going = self.attachment.as_ref().is_some_and(|attachment| attachment.deleting);
        self.may_be_attached() && !(self.memory.forced && is_going)
    }

    /// Whether the volume is attached to the node, as far as is known.
    pub(super) fn is_attached(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.attached) || self.is_listed()
    }

    /// Whether the external attacher has failed to detach the volume: it says so, or takes longer than upstream waits for it.
    pub(super) fn has_failed_to_detach(&self, now: Instant) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.detach_error.is_some())
            || self.memory.detaching_since.is_some_and(|since| since + ATTACHER_TIMEOUT <= now)
    }

    /// Brings the memory up to date with what is observed.
    fn settle(&mut self, now: Instant) {
        let (is_needed, may_be_attached) = (!self.users.is_empty(), self.may_be_attached());
        let is_awaited = self.attachment.as_ref().is_some_and(|one| !one.attached && !one.deleting);
        let is_attached = self.attachment.as_ref().is_some_and(|one| one.attached && !one.deleting);
        let memory = &mut self.memory;
        if let Some(user) = self.users.first() {
            memory.migrated = user.migrated;
        }
        if is_needed {
            memory.unneeded_since = None;
            memory.forced = false;
            memory.detaching.reset();
        } else {
            memory.reported_elsewhere = false;
            memory.announced = false;
            memory.attaching.reset();
            memory.unneeded_since = may_be_attached.then_some(memory.unneeded_since.unwrap_or(now));
            memory.forced &= may_be_attached;
        }
        let is_to_be_told = is_attached && !memory.announced;
        memory.attaching_since = match memory.attaching_since {
            since if is_needed && is_awaited => Some(since.unwrap_or(now)),
            since if is_needed && is_to_be_told => since,
            _ => None,
        };
        if !may_be_attached {
            memory.announced = false;
            memory.detaching.reset();
        }
        if is_needed && is_attached {
            memory.attaching.reset();
        }
    }
}

impl Observed {
    /// Forgets when the detachments that are complete began. Returns their times.
    pub(super) fn take_detached(&mut self) -> Vec<(bool, Duration)> {
        let now = self.now;
        let gone = self.sites.values_mut().filter(|site| site.attachment.is_none());
        let ended = |site: &mut Site| Some((site.memory.migrated, now - site.memory.detaching_since.take()?));
        gone.filter_map(ended).collect()
    }

    /// Brings what is remembered of each node up to date with what is observed. Call it once after observing.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        self.sites.values_mut().for_each(|site| site.settle(now));
        if self.volume.is_disk() {
            // Pods are told once the node lists the disk.
            self.sites.values_mut().for_each(|site| site.memory.announced = site.is_listed());
        }
    }

    /// What must be remembered until the next sync.
    pub(super) fn memories(self) -> BTreeMap<ArcStr, Memory> {
        let memories = self.sites.into_iter().map(|(node, site)| (node, site.memory));
        memories.filter(|(_, memory)| *memory != Memory::default()).collect()
    }
}
