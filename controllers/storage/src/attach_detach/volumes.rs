//! Keeps the index of volumes up to date with the caches.

use std::collections::{BTreeMap, HashSet};

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey, Uid};
use steersman_informer::{Change, Index as CacheIndex, IndexValue, Lister, Unreadable, View};
use steersman_kinds::csi_driver::Attaching as DriverAttaching;
use steersman_kinds::node::{Readiness, Taints};
use steersman_kinds::node_volumes::{Attaching, NodeVolumes};
use steersman_kinds::persistent_volume::VolumeClaimRef;
use steersman_kinds::persistent_volume_claim::{Binding, ClaimedVolume};
use steersman_kinds::pod::{Phase, Placement};
use steersman_kinds::pod_volumes::{PodVolumes, Running, VolumeUse};
use steersman_kinds::volume_attachment::AttachmentSpec;
use steersman_kinds::volume_source::VolumeSource;

use super::index::{Claim, Index, Pod, Use};
use super::names::{VolumeName, plugin};
use super::volume::{is_exclusive, volume};
use super::{AttachableVolume, AttachedClaim, AttachingNode, AttachingPod, WatchedAttachment, WatchedDriver};

/// The taint by which an administrator confirms that a node is down.
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The index of volumes, and the caches that it is made from.
///
/// Each method handles the change of one object, and returns the volumes that must be synced.
pub(super) struct Volumes {
    pub index: Mutex<Index>,
    pub pods: Lister<AttachingPod>,
    pub claims: Lister<AttachedClaim>,
    pub volumes: Lister<AttachableVolume>,
    pub attachments: Lister<WatchedAttachment>,
    pub nodes: Lister<AttachingNode>,
    pub drivers: Lister<WatchedDriver>,
    /// The attachments by the name of their PersistentVolume.
    pub by_volume: CacheIndex<WatchedAttachment>,
}

impl Volumes {
    pub(super) fn pod(&self, change: &Change<AttachingPod>) -> Vec<VolumeName> {
        let key = change.key();
        let pod = change.new().and_then(needs);
        let mut index = self.index.lock();
        match pod {
            Some(pod) => index.set_pod(key, pod, |claim, uid| self.find(claim, uid)),
            None => index.remove_pod(key),
        }
    }

    pub(super) fn claim(&self, change: &Change<AttachedClaim>) -> Vec<VolumeName> {
        let Some(claim) = change.new() else { return Vec::new() };
        self.refresh(&claim.meta().key)
    }

    pub(super) fn volume(&self, change: &Change<AttachableVolume>) -> Vec<VolumeName> {
        let Some(object) = change.new() else { return Vec::new() };
        let mut touched = match &object.get::<VolumeClaimRef>().claim {
            Some(claim) => self.refresh(&ObjectKey::new(&*claim.namespace, claim.name.clone())),
            None => Vec::new(),
        };
        let name = IndexValue::Text(object.meta().key.name.clone());
        // One that can't be read is found again when it changes.
        for attachment in self.attachments.by_index(&self.by_volume, &name).unwrap_or_default() {
            touched.extend(self.note(&attachment));
        }
        touched
    }

    pub(super) fn attachment(&self, change: &Change<WatchedAttachment>) -> Vec<VolumeName> {
        let volume = match change.new() {
            Some(attachment) => self.note(attachment),
            None => self.index.lock().remove_attachment(&change.key().name),
        };
        volume.into_iter().collect()
    }

    pub(super) fn node(&self, change: &Change<AttachingNode>) -> Vec<VolumeName> {
        let name = &change.key().name;
        let mut index = self.index.lock();
        let (old, new) = (change.old(), change.new());
        match (old, new) {
            (Some(old), None) => index.depart(name, &old.get::<NodeVolumes>().in_use),
            _ => index.arrive(name),
        }
        let same = |a: &View<AttachingNode>, b: &View<AttachingNode>| {
            let ready = |node: &View<AttachingNode>| node.get::<Readiness>().ready.is_true();
            let out = |node: &View<AttachingNode>| node.get::<Taints>().has(OUT_OF_SERVICE);
            let managed = |node: &View<AttachingNode>| node.get::<Attaching>().managed;
            a.meta().uid == b.meta().uid
                && ready(a) == ready(b)
                && out(a) == out(b)
                && managed(a) == managed(b)
        };
        let is_same = match change {
            Change::Updated { old, new } => same(old, new),
            _ => false,
        };
        let mut touched = if is_same { Vec::new() } else { index.volumes_at(name) };
        let names = |node: Option<&View<AttachingNode>>| -> Vec<ArcStr> {
            let Some(node) = node else { return Vec::new() };
            let volumes = node.get::<NodeVolumes>();
            volumes.in_use.iter().chain(volumes.attached.iter().map(|one| &one.name)).cloned().collect()
        };
        let (before, after) = match change {
            Change::Updated { old, new } if old.get::<NodeVolumes>() == new.get::<NodeVolumes>() => {
                // Of a volume that nothing but the node's status names, whether it may be detached depends on the node's health.
                (Vec::new(), if is_same { Vec::new() } else { names(Some(new)) })
            }
            Change::Resync { object } => (Vec::new(), names(Some(object))),
            _ => (names(old), names(new)),
        };
        touched.extend(before.iter().chain(&after).filter_map(|name| VolumeName::parse(name)));
        touched
    }

    /// Notes the volume of an attachment, if it is known, and if it is the controller that named the attachment.
    fn note(&self, attachment: &View<WatchedAttachment>) -> Option<VolumeName> {
        let name = &attachment.meta().key.name;
        let spec = attachment.get::<AttachmentSpec>();
        let mut index = self.index.lock();
        if let Some(known) = index.volume_of(name) {
            return Some(known);
        }
        let object = self.volumes.get(&ObjectKey::new("", spec.source.volume.clone())).ok()??;
        let volume = volume(&object)?;
        if volume.attachment(&spec.node).as_ref() != Some(name) {
            return None;
        }
        index.set_attachment(name, volume.clone(), spec.node.as_arc().clone());
        Some(volume)
    }

    fn refresh(&self, claim: &ObjectKey) -> Vec<VolumeName> {
        self.index.lock().refresh(claim, |claim, uid| self.find(claim, uid))
    }

    /// The volume that a claim of a pod leads to.
    fn find(&self, claim: &Claim, pod: &Uid) -> Option<Use> {
        let object = self.claims.get(&claim.key).ok()??;
        let meta = object.meta();
        if claim.is_owned && !meta.is_controlled_by(pod) {
            return None;
        }
        let name = &object.get::<ClaimedVolume>().name;
        if object.get::<Binding>().phase != "Bound" || name.is_empty() {
            return None;
        }
        let persistent = self.volumes.get(&ObjectKey::new("", name.clone())).ok()??;
        let reference = persistent.get::<VolumeClaimRef>().claim.as_ref()?;
        (reference.uid == meta.uid).then_some(())?;
        let volume = volume(&persistent)?;
        let source = persistent.get::<VolumeSource>();
        Some(Use {
            volume,
            persistent_volume: name.clone(),
            exclusive: is_exclusive(&persistent),
            migrated: source.driver.is_empty() && source.csi_driver().is_some(),
        })
    }

    /// How many pairs of volumes and nodes the controller attaches, by plugin: not those of drivers whose volumes need not be
    /// attached, nor those at nodes whose kubelets attach for themselves.
    pub(super) fn wanted(&self) -> BTreeMap<String, i64> {
        let (nodes, _) = self.nodes.list_readable();
        let managed: HashSet<_> = nodes
            .iter()
            .filter(|node| node.get::<Attaching>().managed.0)
            .map(|node| node.meta().key.name.clone())
            .collect();
        let counts = |volume: &VolumeName, node: &str| {
            managed.contains(node) && self.is_attachable(volume).unwrap_or(true)
        };
        self.index.lock().wanted(counts)
    }

    /// How many pairs of volumes and nodes are attached, or may be, by plugin.
    pub(super) fn attached(&self) -> BTreeMap<String, i64> {
        let mut counts = self.index.lock().attached();
        let (nodes, _) = self.nodes.list_readable();
        for listed in nodes.iter().flat_map(|node| &node.get::<NodeVolumes>().attached) {
            if let Some(disk) = VolumeName::parse(&listed.name).filter(VolumeName::is_disk) {
                *counts.entry(disk.plugin()).or_default() += 1;
            }
        }
        counts
    }

    /// Whether the driver of a volume wants its volumes attached.
    ///
    /// # Errors
    /// The cached driver can't be read.
    pub(super) fn is_attachable(&self, volume: &VolumeName) -> Result<bool, Unreadable> {
        let Some(driver) = volume.driver() else { return Ok(true) };
        let driver = self.drivers.get(&ObjectKey::new("", driver))?;
        Ok(driver.is_none_or(|driver: View<WatchedDriver>| driver.get::<DriverAttaching>().is_required()))
    }

    /// How many volumes of each plugin the pods on each node have.
    pub(super) fn in_use(&self) -> BTreeMap<(ArcStr, String), i64> {
        let mut counts = BTreeMap::new();
        let (pods, _) = self.pods.list_readable();
        for pod in pods {
            let node = &pod.get::<Placement>().node;
            if node.is_empty() {
                continue;
            }
            for volume in &pod.get::<PodVolumes>().volumes.0 {
                let plugin = match volume {
                    VolumeUse::Inline(driver) => Some(plugin(driver)),
                    VolumeUse::Disk { .. } => disk(volume).map(|disk| disk.volume.plugin()),
                    other => {
                        let claim = claim(pod.meta(), other);
                        claim
                            .and_then(|claim| self.find(&claim, &pod.meta().uid))
                            .map(|found| found.volume.plugin())
                    }
                };
                if let Some(plugin) = plugin {
                    *counts.entry((node.as_arc().clone(), plugin)).or_default() += 1;
                }
            }
        }
        counts
    }
}

/// What a pod needs, if it is scheduled and has not ended: if its kubelet may run it. `None` for one without claims and disks.
fn needs(pod: &View<AttachingPod>) -> Option<Pod> {
    let (meta, node) = (pod.meta(), &pod.get::<Placement>().node);
    let has_ended = pod.get::<Phase>().is_terminal() || (meta.is_deleting() && !pod.get::<Running>().any());
    if node.is_empty() || has_ended {
        return None;
    }
    let uses = || pod.get::<PodVolumes>().volumes.0.iter();
    let claims: Vec<_> = uses().filter_map(|volume| Some((claim(meta, volume)?, None))).collect();
    let disks: Vec<_> = uses().filter_map(disk).collect();
    let pod =
        Pod { uid: meta.uid.clone(), node: node.as_arc().clone(), created: meta.created, claims, disks };
    (!pod.claims.is_empty() || !pod.disks.is_empty()).then_some(pod)
}

fn claim(pod: &steersman_api::Meta, volume: &VolumeUse) -> Option<Claim> {
    let name = volume.claim_name(&pod.key.name)?;
    let is_owned = matches!(volume, VolumeUse::Ephemeral(_));
    Some(Claim { key: ObjectKey::new(pod.key.namespace.clone(), name), is_owned })
}

/// A disk that a pod spells out. Upstream knows no access modes of it, and so lets several nodes have it.
fn disk(volume: &VolumeUse) -> Option<Use> {
    let VolumeUse::Disk { volume, unique_name } = volume else { return None };
    let name = volume.as_arc().clone();
    Some(Use {
        volume: VolumeName::parse(unique_name)?,
        persistent_volume: name,
        exclusive: false,
        migrated: false,
    })
}

/// The name of an attachment's PersistentVolume, for an index.
pub(super) fn by_volume(attachment: &View<WatchedAttachment>) -> Vec<IndexValue> {
    vec![attachment.get::<AttachmentSpec>().source.volume.clone().into()]
}

/// The names of the volumes that a node lists as attached, for an index.
pub(super) fn by_attached(node: &View<AttachingNode>) -> Vec<IndexValue> {
    node.get::<NodeVolumes>().attached.iter().map(|one| one.name.clone().into()).collect()
}
