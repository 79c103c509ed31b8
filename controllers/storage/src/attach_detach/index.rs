//! Which pods need which volumes, and which VolumeAttachments are of which volume.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use steersman_api::{ArcStr, ObjectKey, Time, Uid};

use super::names::VolumeName;
use super::observed::User;

/// What the controller knows of pods and attachments beyond single objects. Mappings keep it up to date, whether this process
/// leads or not.
///
/// A pod keeps the volume that a claim of it once led to until the pod ends, even if the claim or the PersistentVolume goes.
#[derive(Debug, Default)]
pub(super) struct Index {
    pods: HashMap<ObjectKey, Pod>,
    /// The pods with a claim of this key.
    by_claim: HashMap<ObjectKey, HashSet<ObjectKey>>,
    /// The pods that need a volume, by their node. Sorted, and so are the nodes.
    by_volume: HashMap<VolumeName, BTreeMap<ArcStr, BTreeSet<ObjectKey>>>,
    /// The volume and the node of each VolumeAttachment, by its name.
    attachments: HashMap<ArcStr, (VolumeName, ArcStr)>,
    /// The nodes to which VolumeAttachments attach a volume.
    attached: HashMap<VolumeName, BTreeSet<ArcStr>>,
    /// The volumes of each node: those that have it in `by_volume` or in `attached`.
    by_node: HashMap<ArcStr, HashSet<VolumeName>>,
    /// The volumes that each node used when it was last seen. Only of nodes that are gone, and as long as an attachment names
    /// the node.
    departed: HashMap<ArcStr, Box<[ArcStr]>>,
}

/// A pod that is scheduled, has claims or disks, and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub uid: Uid,
    pub node: ArcStr,
    pub created: Option<Time>,
    /// The pod's claims, and the volumes that they led to.
    pub claims: Vec<(Claim, Option<Use>)>,
    /// The disks that the pod spells out itself.
    pub disks: Vec<Use>,
}

impl Pod {
    fn uses(&self) -> impl Iterator<Item = &Use> {
        self.claims.iter().filter_map(|(_, found)| found.as_ref()).chain(&self.disks)
    }
}

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub key: ObjectKey,
    /// Whether the claim must be owned by the pod.
    pub is_owned: bool,
}

/// A volume that a claim led to, or that a pod spells out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub volume: VolumeName,
    /// The name of the PersistentVolume; for a disk that a pod spells out, of the volume in the pod.
    pub persistent_volume: ArcStr,
    pub exclusive: bool,
    /// Whether a CSI driver serves the volume, though its type is another one.
    pub migrated: bool,
}

/// The pods on a node that need a volume.
#[derive(Debug, Default)]
pub(super) struct Users {
    pub users: Vec<User>,
    pub exclusive: bool,
}

impl Index {
    /// Adds or replaces a pod. Returns the volumes of which the users may have changed: none if the pod needs what it needed
    /// before, as after most changes of a pod's status.
    pub(super) fn set_pod(
        &mut self,
        key: &ObjectKey,
        mut pod: Pod,
        find: impl Fn(&Claim, &Uid) -> Option<Use>,
    ) -> Vec<VolumeName> {
        let old = self.pods.remove(key);
        let same = old.as_ref().filter(|old| old.uid == pod.uid && old.node == pod.node);
        for (claim, found) in &mut pod.claims {
            let known = || same?.claims.iter().find(|(other, _)| other == claim)?.1.clone();
            *found = find(claim, &pod.uid).or_else(known);
        }
        let mut touched = Vec::new();
        if old.as_ref() != Some(&pod) {
            touched = old.map(|old| self.unlink(key, &old)).unwrap_or_default();
            self.link(key, &pod, &mut touched);
        }
        self.pods.insert(key.clone(), pod);
        touched
    }

    fn link(&mut self, key: &ObjectKey, pod: &Pod, touched: &mut Vec<VolumeName>) {
        for (claim, _) in &pod.claims {
            self.by_claim.entry(claim.key.clone()).or_default().insert(key.clone());
        }
        for found in pod.uses() {
            touched.push(found.volume.clone());
            let nodes = self.by_volume.entry(found.volume.clone()).or_default();
            nodes.entry(pod.node.clone()).or_default().insert(key.clone());
            self.by_node.entry(pod.node.clone()).or_default().insert(found.volume.clone());
        }
    }

    /// Looks for the volumes of all pods that have this claim once more.
    pub(super) fn refresh(
        &mut self,
        claim: &ObjectKey,
        find: impl Fn(&Claim, &Uid) -> Option<Use>,
    ) -> Vec<VolumeName> {
        let pods: Vec<_> = self.by_claim.get(claim).into_iter().flatten().cloned().collect();
        let refresh = |key: ObjectKey| {
            let pod = self.pods.get(&key).cloned();
            pod.map(|pod| self.set_pod(&key, pod, &find)).unwrap_or_default()
        };
        pods.into_iter().flat_map(refresh).collect()
    }

    /// Removes a pod. Returns the volumes that it needed.
    pub(super) fn remove_pod(&mut self, key: &ObjectKey) -> Vec<VolumeName> {
        let pod = self.pods.remove(key);
        pod.map(|pod| self.unlink(key, &pod)).unwrap_or_default()
    }

    fn unlink(&mut self, key: &ObjectKey, pod: &Pod) -> Vec<VolumeName> {
        let mut touched = Vec::new();
        for (claim, _) in &pod.claims {
            if let Some(pods) = self.by_claim.get_mut(&claim.key) {
                pods.remove(key);
                if pods.is_empty() {
                    self.by_claim.remove(&claim.key);
                }
            }
        }
        for found in pod.uses() {
            touched.push(found.volume.clone());
            let Some(nodes) = self.by_volume.get_mut(&found.volume) else { continue };
            if let Some(pods) = nodes.get_mut(&pod.node) {
                pods.remove(key);
                if pods.is_empty() {
                    nodes.remove(&pod.node);
                }
            }
            if nodes.is_empty() {
                self.by_volume.remove(&found.volume);
            }
            self.leave(&pod.node, &found.volume);
        }
        touched
    }

    /// Takes a volume off a node's list if neither pods nor attachments have it there any more.
    fn leave(&mut self, node: &ArcStr, volume: &VolumeName) {
        let is_wanted = self.by_volume.get(volume).is_some_and(|nodes| nodes.contains_key(node));
        if is_wanted || self.is_attached(volume, node) {
            return;
        }
        if let Some(volumes) = self.by_node.get_mut(node) {
            volumes.remove(volume);
            if volumes.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    fn is_attached(&self, volume: &VolumeName, node: &str) -> bool {
        self.attached.get(volume).is_some_and(|nodes| nodes.contains(node))
    }

    /// Whether a VolumeAttachment attaches any volume to a node.
    fn has_attachments(&self, node: &str) -> bool {
        self.by_node.get(node).into_iter().flatten().any(|volume| self.is_attached(volume, node))
    }

    /// Notes a VolumeAttachment by its name.
    pub(super) fn set_attachment(&mut self, name: &ArcStr, volume: VolumeName, node: ArcStr) {
        self.attached.entry(volume.clone()).or_default().insert(node.clone());
        self.by_node.entry(node.clone()).or_default().insert(volume.clone());
        self.attachments.insert(name.clone(), (volume, node));
    }

    /// The volume of a VolumeAttachment.
    pub(super) fn volume_of(&self, name: &str) -> Option<VolumeName> {
        self.attachments.get(name).map(|(volume, _)| volume.clone())
    }

    /// Forgets a VolumeAttachment that is gone.
    pub(super) fn remove_attachment(&mut self, name: &str) -> Option<VolumeName> {
        let (volume, node) = self.attachments.remove(name)?;
        if let Some(nodes) = self.attached.get_mut(&volume) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.attached.remove(&volume);
            }
        }
        self.leave(&node, &volume);
        if self.departed.contains_key(&node) && !self.has_attachments(&node) {
            self.departed.remove(&node);
        }
        Some(volume)
    }

    /// Notes what a node used that is gone now.
    pub(super) fn depart(&mut self, node: &ArcStr, in_use: &[ArcStr]) {
        if self.has_attachments(node) {
            self.departed.insert(node.clone(), in_use.into());
        }
    }

    /// A node is there (again).
    pub(super) fn arrive(&mut self, node: &str) {
        self.departed.remove(node);
    }

    /// Whether a node that is gone used a volume when it was last seen. `None` if that is not known.
    pub(super) fn last_use(&self, node: &str, volume: &VolumeName) -> Option<bool> {
        self.departed.get(node).map(|in_use| in_use.iter().any(|name| name == volume.as_str()))
    }

    /// The volumes that pods on a node need, or that attachments attach to it.
    pub(super) fn volumes_at(&self, node: &str) -> Vec<VolumeName> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }

    /// All volumes of a driver that pods need, or that are attached.
    pub(super) fn volumes_of(&self, driver: &str) -> Vec<VolumeName> {
        let all = self.by_volume.keys().chain(self.attached.keys());
        all.filter(|volume| volume.driver() == Some(driver)).cloned().collect()
    }

    /// All volumes that pods need, or that are attached.
    pub(super) fn all(&self) -> HashSet<VolumeName> {
        self.by_volume.keys().chain(self.attached.keys()).cloned().collect()
    }

    /// The nodes where pods need a volume or to which attachments attach it, with the pods, the oldest first.
    pub(super) fn sites(&self, volume: &VolumeName) -> BTreeMap<ArcStr, Users> {
        let attached = self.attached.get(volume).into_iter().flatten();
        let mut sites: BTreeMap<_, _> = attached.map(|node| (node.clone(), Users::default())).collect();
        for (node, pods) in self.by_volume.get(volume).into_iter().flatten() {
            let mut pods: Vec<_> =
                pods.iter().filter_map(|key| self.pods.get(key).map(|pod| (pod.created, key, pod))).collect();
            pods.sort_by(|(a, a_key, _), (b, b_key, _)| (a, a_key).cmp(&(b, b_key)));
            let site = sites.entry(node.clone()).or_default();
            for (_, key, pod) in pods {
                let Some(found) = pod.uses().find(|found| found.volume == *volume) else { continue };
                site.exclusive |= found.exclusive;
                site.users.push(User {
                    pod: key.clone(),
                    uid: pod.uid.clone(),
                    persistent_volume: found.persistent_volume.clone(),
                    migrated: found.migrated,
                });
            }
        }
        sites
    }

    /// How many pairs of volumes and nodes pods ask for, by plugin: those for which `counts` returns true.
    pub(super) fn wanted(&self, counts: impl Fn(&VolumeName, &str) -> bool) -> BTreeMap<String, i64> {
        let nodes = |volume: &VolumeName, nodes: &BTreeMap<ArcStr, BTreeSet<ObjectKey>>| {
            nodes.keys().filter(|node| counts(volume, node)).count()
        };
        count(self.by_volume.iter().map(|(volume, users)| (volume, nodes(volume, users))))
    }

    /// How many pairs of volumes and nodes have a VolumeAttachment, by plugin.
    pub(super) fn attached(&self) -> BTreeMap<String, i64> {
        count(self.attached.iter().map(|(volume, nodes)| (volume, nodes.len())))
    }
}

fn count<'a>(volumes: impl Iterator<Item = (&'a VolumeName, usize)>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::<String, i64>::new();
    for (volume, nodes) in volumes.filter(|(_, nodes)| *nodes > 0) {
        *counts.entry(volume.plugin()).or_default() += i64::try_from(nodes).unwrap_or(i64::MAX);
    }
    counts
}
