//! The claims that a pod uses, those of generic ephemeral volumes included.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// A pod's spec, of which only the claims are kept.
    pub struct UsedClaims {
        /// The claims.
        pub claims: PodClaims = 1 "volumes",
    }

    /// A volume of a pod. In protobuf the source is in a message of its own, and in JSON among the volume's members; no
    /// volume has fields of the numbers 100 and 101, or a member without a name.
    struct Volume {
        pub name: Interned = 1 "name",
        pub source: Source = 2 "",
        pub claim: Option<ClaimSource> = 100 "persistentVolumeClaim",
        pub ephemeral: Option<EphemeralSource> = 101 "ephemeral",
    }

    /// The source of a volume in protobuf.
    struct Source {
        pub claim: Option<ClaimSource> = 10 "claim",
        pub ephemeral: Option<EphemeralSource> = 29 "ephemeral",
    }

    /// A claim as the source of a volume.
    struct ClaimSource {
        pub name: ArcStr = 1 "claimName",
    }

    /// The source of a generic ephemeral volume, of which nothing is kept.
    struct EphemeralSource {
        pub nothing: Interned = 100 "",
    }
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodClaim {
    /// The claim of this name.
    Named(ArcStr),
    /// The claim of the generic ephemeral volume of this name.
    Ephemeral(Interned),
}

impl PodClaim {
    /// The claim's name, for a pod of this name. The claim of an ephemeral volume is called as upstream's `VolumeClaimName`
    /// says.
    pub fn name(&self, pod: &str) -> ArcStr {
        match self {
            Self::Named(name) => name.clone(),
            Self::Ephemeral(volume) => format!("{pod}-{}", &**volume).into(),
        }
    }
}

/// The claims that a pod uses, in the order of its volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodClaims(pub Box<[PodClaim]>);

impl PodClaims {
    fn add(&mut self, volume: Volume) {
        let named = volume.claim.or(volume.source.claim).map(|claim| PodClaim::Named(claim.name));
        let is_ephemeral = volume.ephemeral.is_some() || volume.source.ephemeral.is_some();
        let claim = named.or_else(|| is_ephemeral.then_some(PodClaim::Ephemeral(volume.name)));
        if let Some(claim) = claim {
            let mut all = std::mem::take(&mut self.0).into_vec();
            all.push(claim);
            self.0 = all.into();
        }
    }
}

impl FieldValue for PodClaims {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut volume = Volume::default();
        volume.merge(field)?;
        self.add(volume);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut claims = Self::default();
        Vec::<Volume>::from_json(deserializer)?.into_iter().for_each(|volume| claims.add(volume));
        Ok(claims)
    }
}
