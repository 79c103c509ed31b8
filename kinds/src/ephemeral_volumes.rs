//! The volumes of a pod for which a claim is made from a template.

use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::IgnoredAny;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// The generic ephemeral volumes of a pod.
    pub struct EphemeralVolumes {
        /// Their names.
        pub names: EphemeralNames = 1 "volumes",
    }

    /// A volume of a pod. In protobuf the template is in a message of its own, and in JSON among the volume's members; no
    /// volume has a field of number 0 or a member without a name.
    struct Volume {
        pub name: Interned = 1 "name",
        pub source: Source = 2 "",
        pub ephemeral: Present = 0 "ephemeral",
    }

    /// The source of a volume in protobuf.
    struct Source {
        pub ephemeral: Present = 29 "",
    }
}

/// Whether a field is present.
#[derive(Clone, Copy, Debug, Default)]
struct Present(bool);

impl FieldValue for Present {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        field.bytes()?;
        self.0 = true;
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IgnoredAny).map(|_| Self(true))
    }
}

/// The names of those volumes of a pod for which a claim is made, in the order of the pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EphemeralNames(pub Box<[Interned]>);

impl EphemeralNames {
    fn add(&mut self, volume: Volume) {
        if volume.ephemeral.0 || volume.source.ephemeral.0 {
            let mut all = std::mem::take(&mut self.0).into_vec();
            all.push(volume.name);
            self.0 = all.into();
        }
    }
}

impl FieldValue for EphemeralNames {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut volume = Volume::default();
        volume.merge(field)?;
        self.add(volume);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = Self::default();
        Vec::<Volume>::from_json(deserializer)?.into_iter().for_each(|volume| names.add(volume));
        Ok(names)
    }
}
