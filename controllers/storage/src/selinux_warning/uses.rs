//! How a pod uses volumes.

use std::collections::HashMap;

use steersman_api::ArcStr;
use steersman_informer::Interned;
use steersman_kinds::selinux::{MountableVolume, SelinuxMounts};

use super::label::Label;

/// What a pod may say about the labels of its volumes' files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ChangePolicy(Interned);

/// The policy by which a container runtime relabels each file.
const RECURSIVE: &str = "Recursive";
/// The policy by which a node mounts the volume with the label. It is the default.
const MOUNT_OPTION: &str = "MountOption";

/// A volume that pods can share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedVolume {
    /// The unique name.
    pub name: ArcStr,
    /// The CSI driver that serves the volume. `None` for a plugin inside Kubernetes.
    pub driver: Option<ArcStr>,
    /// Whether the volume can be mounted with a label.
    pub is_labelled: bool,
}

/// How a pod uses a volume. Two pods that use a volume in different ways are in each other's way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Manner {
    /// The label that the volume is mounted with. Empty if it is mounted without one.
    pub label: Label,
    /// The policy that applies.
    pub policy: ChangePolicy,
}

/// A pod's use of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub volume: SharedVolume,
    pub manner: Manner,
}

/// The uses of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// The volumes that other pods may use as well, by which name the pod knows them first.
    pub shared: Vec<Use>,
    /// The names of the volumes that containers of the pod mount with different labels.
    pub torn: Vec<ArcStr>,
}

impl ChangePolicy {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The uses of a pod with these mounts. `find` looks up the volume behind each of the pod's volumes that a container mounts.
pub(super) fn uses(mounts: &SelinuxMounts, mut find: impl FnMut(&MountableVolume) -> Lookup) -> Uses {
    let labels = labels(mounts);
    let mut uses = Uses::default();
    for volume in &mounts.volumes.0 {
        let Some(labels) = labels.get(&volume.name) else { continue };
        match (find(volume), labels.as_slice()) {
            (Lookup::Unknown, _) => {}
            (_, [_, _, ..]) => uses.torn.push(volume.name.clone()),
            (Lookup::Private, _) => {}
            (Lookup::Shared(shared), labels) => {
                let label = labels.first().cloned().unwrap_or_default();
                let manner = manner(mounts, label, shared.is_labelled);
                uses.shared.push(Use { volume: shared, manner });
            }
        }
    }
    uses
}

/// The volume behind a name in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It is not known yet: the volume is a claim, which is not bound or which the caches do not show.
    Unknown,
    /// No other pod can be in the way, whatever label it has.
    Private,
    /// Other pods may use the volume as well.
    Shared(SharedVolume),
}

/// The different labels of the containers that mount each volume. A container without a label counts for nothing, as upstream.
fn labels(mounts: &SelinuxMounts) -> HashMap<&ArcStr, Vec<Label>> {
    let mut labels: HashMap<_, Vec<Label>> = HashMap::new();
    for container in mounts.all_containers() {
        let options = container.security.options.as_ref().or(mounts.security.options.as_ref());
        let label = options.map(Label::of);
        for mount in &container.mounts {
            let of_volume = labels.entry(&mount.volume).or_default();
            if let Some(label) = label.as_ref().filter(|label| !of_volume.contains(label)) {
                of_volume.push(label.clone());
            }
        }
    }
    labels
}

/// How a pod uses a volume that its containers mount with `label`.
fn manner(mounts: &SelinuxMounts, label: Label, is_labelled: bool) -> Manner {
    let wanted = mounts.security.change_policy.as_deref().unwrap_or(MOUNT_OPTION);
    let label = if wanted != RECURSIVE && is_labelled { label } else { Label::default() };
    let policy = if label.is_empty() { RECURSIVE } else { wanted };
    Manner { label, policy: ChangePolicy(policy.into()) }
}
