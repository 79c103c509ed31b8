//! The volumes of a pod that are persistent volume claims.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// A volume of a pod. In protobuf the claim is in a message of its own, and in JSON among the volume's members; no volume
    /// has a field of number 0 or a member without a name.
    struct Volume {
        pub name: Interned = 1 "name",
        pub source: VolumeSource = 2 "",
        pub claim: Option<ClaimSource> = 0 "persistentVolumeClaim",
    }

    /// The source of a volume in protobuf.
    struct VolumeSource {
        pub claim: Option<ClaimSource> = 10 "",
    }

    /// A claim as the source of a volume.
    struct ClaimSource {
        pub name: ArcStr = 1 "claimName",
    }
}

/// A volume of a pod that is a persistent volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimVolume {
    /// The volume's name in the pod.
    pub volume: Interned,
    /// The claim's name.
    pub claim: ArcStr,
}

/// The volumes of a pod that are persistent volume claims, in the order of the pod's spec.
#[derive(Clone, Debug, Default)]
pub struct ClaimVolumes(pub Box<[ClaimVolume]>);

impl ClaimVolumes {
    fn add(&mut self, volume: Volume) {
        if let Some(claim) = volume.claim.or(volume.source.claim) {
            let mut all = std::mem::take(&mut self.0).into_vec();
            all.push(ClaimVolume { volume: volume.name, claim: claim.name });
            self.0 = all.into();
        }
    }
}

impl FieldValue for ClaimVolumes {
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
