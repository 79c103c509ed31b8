//! The cached fields of pods that tell which volumes a pod needs on its node, and for how long.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

use super::disk::{FibreChannelDisk, IscsiDisk};

projection! {
    /// A volume of a pod. In protobuf the source is in a message of its own, and in JSON among the volume's members. No volume
    /// has fields with numbers from 1000 or members that begin with a dash: these fill the gaps of the other encoding.
    struct Volume {
        pub name: Interned = 1 "name",
        pub source: Source = 2 "-source",
        pub claim: Option<ClaimSource> = 1000 "persistentVolumeClaim",
        pub csi: Option<CsiSource> = 1001 "csi",
        pub ephemeral: Option<EphemeralSource> = 1002 "ephemeral",
        pub iscsi: Option<IscsiDisk> = 1003 "iscsi",
        pub fibre_channel: Option<FibreChannelDisk> = 1004 "fc",
    }

    /// The source of a volume in protobuf.
    struct Source {
        pub iscsi: Option<IscsiDisk> = 8 "-iscsi",
        pub claim: Option<ClaimSource> = 10 "-claim",
        pub fibre_channel: Option<FibreChannelDisk> = 17 "-fc",
        pub csi: Option<CsiSource> = 28 "-csi",
        pub ephemeral: Option<EphemeralSource> = 29 "-ephemeral",
    }

    /// A claim as the source of a volume.
    struct ClaimSource {
        pub name: ArcStr = 1 "claimName",
    }

    /// A CSI driver as the source of a volume.
    struct CsiSource {
        pub driver: Interned = 1 "driver",
    }

    /// The template of a claim as the source of a volume. None of its fields is kept.
    struct EphemeralSource {
        pub nothing: Option<bool> = 0 "",
    }

    /// The pod's volumes that are claims, or that must be attached to the pod's node.
    pub struct PodVolumes {
        /// The volumes, in the order of the pod's spec.
        pub volumes: VolumeUses = 1 "volumes",
    }

    /// Whether any container of the pod runs.
    pub struct Running {
        /// Of the containers.
        pub containers: AnyRunning = 8 "containerStatuses",
        /// Of the init containers, sidecars included.
        pub init: AnyRunning = 10 "initContainerStatuses",
        /// Of the ephemeral containers.
        pub ephemeral: AnyRunning = 13 "ephemeralContainerStatuses",
    }

    /// The status of a container.
    struct Status {
        pub state: State = 2 "state",
    }

    /// The state of a container. One that lacks all three states may run.
    struct State {
        pub waiting: Option<Empty> = 1 "waiting",
        pub terminated: Option<Empty> = 3 "terminated",
    }

    /// A message of which nothing is kept but that it is there.
    struct Empty {
        pub nothing: Option<bool> = 0 "",
    }
}

impl Running {
    /// Whether any container runs, as far as the kubelet has reported.
    pub fn any(&self) -> bool {
        self.containers.0 || self.init.0 || self.ephemeral.0
    }
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeUse {
    /// A claim.
    Claim {
        /// The volume's name in the pod.
        volume: Interned,
        /// The claim's name.
        claim: ArcStr,
    },
    /// A generic ephemeral volume of this name: the ephemeral volume controller makes a claim for it.
    Ephemeral(Interned),
    /// A volume that this CSI driver makes on the pod's node. It is never attached.
    Inline(Interned),
    /// A disk that the pod spells out itself.
    Disk {
        /// The volume's name in the pod.
        volume: Interned,
        /// The disk's unique name, as nodes list it.
        unique_name: ArcStr,
    },
}

/// The name of the claim for a generic ephemeral volume of a pod. Upstream: `VolumeClaimName`.
pub fn ephemeral_claim(pod: &str, volume: &str) -> ArcStr {
    format!("{pod}-{volume}").into()
}

impl VolumeUse {
    /// The name of the volume's claim, for a pod of this name. `None` if the volume is no claim.
    pub fn claim_name(&self, pod: &str) -> Option<ArcStr> {
        match self {
            Self::Claim { claim, .. } => Some(claim.clone()),
            Self::Ephemeral(volume) => Some(ephemeral_claim(pod, volume)),
            Self::Inline(_) | Self::Disk { .. } => None,
        }
    }
}

impl PodVolumes {
    /// The names of the claims that a pod of this name uses, those for its ephemeral volumes included.
    pub fn claim_names<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = ArcStr> + 'a {
        self.volumes.0.iter().filter_map(move |volume| volume.claim_name(pod))
    }

    /// The names of the pod's generic ephemeral volumes.
    pub fn ephemeral(&self) -> impl Iterator<Item = &Interned> {
        self.volumes.0.iter().filter_map(|volume| match volume {
            VolumeUse::Ephemeral(name) => Some(name),
            _ => None,
        })
    }
}

/// The volumes of a pod that are claims, that CSI drivers make, or that are disks in a network. Those of other types are not
/// cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeUses(pub Box<[VolumeUse]>);

impl VolumeUses {
    fn add(&mut self, volume: Volume) {
        let Volume { name, source, claim, csi, ephemeral, iscsi, fibre_channel } = volume;
        let disk = || {
            let iscsi = iscsi.or(source.iscsi).map(|disk| disk.unique_name());
            iscsi.or_else(|| fibre_channel.or(source.fibre_channel)?.unique_name())
        };
        let found = if let Some(claim) = claim.or(source.claim) {
            VolumeUse::Claim { volume: name, claim: claim.name }
        } else if ephemeral.or(source.ephemeral).is_some() {
            VolumeUse::Ephemeral(name)
        } else if let Some(csi) = csi.or(source.csi) {
            VolumeUse::Inline(csi.driver)
        } else if let Some(unique_name) = disk() {
            VolumeUse::Disk { volume: name, unique_name }
        } else {
            return;
        };
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.push(found);
        self.0 = all.into();
    }
}

impl FieldValue for VolumeUses {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut volume = Volume::default();
        volume.merge(field)?;
        self.add(volume);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut volumes = Self::default();
        Vec::<Volume>::from_json(deserializer)?.into_iter().for_each(|volume| volumes.add(volume));
        Ok(volumes)
    }
}

/// Whether a list of statuses has a container that neither waits nor has terminated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnyRunning(pub bool);

impl AnyRunning {
    fn add(&mut self, status: &Status) {
        self.0 |= status.state.waiting.is_none() && status.state.terminated.is_none();
    }
}

impl FieldValue for AnyRunning {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut status = Status::default();
        status.merge(field)?;
        self.add(&status);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut running = Self::default();
        Vec::<Status>::from_json(deserializer)?.iter().for_each(|status| running.add(status));
        Ok(running)
    }
}
