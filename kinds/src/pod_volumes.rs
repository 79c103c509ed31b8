//! The cached fields of pods that tell which volumes a pod needs on its node, and for how long.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// A volume of a pod. In protobuf the source is in a message of its own, and in JSON among the volume's members. No volume
    /// has fields with numbers from 1000 or members that begin with a dash: these fill the gaps of the other encoding.
    struct Volume {
        pub name: ArcStr = 1 "name",
        pub source: Source = 2 "-source",
        pub claim: Option<ClaimSource> = 1000 "persistentVolumeClaim",
        pub csi: Option<CsiSource> = 1001 "csi",
        pub ephemeral: Option<EphemeralSource> = 1002 "ephemeral",
    }

    /// The source of a volume in protobuf.
    struct Source {
        pub claim: Option<ClaimSource> = 10 "-claim",
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

    /// The pod's volumes that may have to be attached.
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
    /// The claim of this name.
    Claim(ArcStr),
    /// The claim that the ephemeral volume controller makes for the volume of this name.
    Ephemeral(ArcStr),
    /// A volume that this CSI driver makes on the pod's node. It is never attached.
    Inline(Interned),
}

/// The volumes of a pod that are claims, or that CSI drivers make. Those of other types are not cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeUses(pub Box<[VolumeUse]>);

impl VolumeUses {
    fn add(&mut self, volume: Volume) {
        let Volume { name, source, claim, csi, ephemeral } = volume;
        let found = if let Some(claim) = claim.or(source.claim) {
            VolumeUse::Claim(claim.name)
        } else if ephemeral.or(source.ephemeral).is_some() {
            VolumeUse::Ephemeral(name)
        } else if let Some(csi) = csi.or(source.csi) {
            VolumeUse::Inline(csi.driver)
        } else {
            return;
        };
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.push(found);
        self.0 = all.into();
    }
}

impl FieldValue for VolumeUses {
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
