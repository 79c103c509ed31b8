//! The Secrets that a pod uses.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Reader, WireError};

/// The names of the Secrets that a pod's spec refers to, as upstream's `VisitPodSecretNames` finds them. Those that the pod's
/// claims refer to are not among them.
///
/// A cache should not keep them: controllers ask for them when they list pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecrets(pub BTreeSet<String>);

/// A field on the way from a pod's spec to the name of a Secret: its number in protobuf and its name in JSON. The name is
/// empty if JSON has the fields of the message in the surrounding object.
type Step = (u32, &'static str);

/// `name` of a `LocalObjectReference`.
const NAME: Step = (1, "name");
/// A `LocalObjectReference` within a message that has other fields as well.
const INLINE: Step = (1, "");
const VOLUMES: Step = (1, "volumes");
const SOURCE: Step = (2, "");

/// The ways within a container.
const OF_CONTAINERS: [&[Step]; 2] = [
    &[(19, "envFrom"), (3, "secretRef"), INLINE, NAME],
    &[(7, "env"), (3, "valueFrom"), (4, "secretKeyRef"), INLINE, NAME],
];

/// The ways to the lists of containers.
const CONTAINERS: [&[Step]; 3] =
    [&[(2, "containers")], &[(20, "initContainers")], &[(34, "ephemeralContainers"), INLINE]];

/// The ways outside of containers.
const OTHERS: [&[Step]; 12] = [
    &[(15, "imagePullSecrets"), NAME],
    &[VOLUMES, SOURCE, (6, "secret"), (1, "secretName")],
    &[VOLUMES, SOURCE, (8, "iscsi"), (10, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (11, "rbd"), (7, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (12, "flexVolume"), (3, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (13, "cinder"), (4, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (14, "cephfs"), (5, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (18, "azureFile"), (1, "secretName")],
    &[VOLUMES, SOURCE, (25, "scaleIO"), (3, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (26, "projected"), (1, "sources"), (1, "secret"), INLINE, NAME],
    &[VOLUMES, SOURCE, (27, "storageos"), (5, "secretRef"), NAME],
    &[VOLUMES, SOURCE, (28, "csi"), (5, "nodePublishSecretRef"), NAME],
];

/// All ways from a pod's spec to names of Secrets.
fn ways() -> impl Iterator<Item = Vec<Step>> {
    let within =
        CONTAINERS.iter().flat_map(|list| OF_CONTAINERS.iter().map(move |way| [*list, *way].concat()));
    OTHERS.iter().map(|way| way.to_vec()).chain(within)
}

impl PodSecrets {
    fn add(&mut self, name: &str) {
        if !name.is_empty() && !self.0.contains(name) {
            self.0.insert(name.to_owned());
        }
    }

    fn walk_protobuf(&mut self, mut message: Reader<'_>, way: &[Step]) -> Result<(), WireError> {
        let Some(((number, _), rest)) = way.split_first() else { return Ok(()) };
        while let Some(field) = message.field()? {
            if field.number == *number {
                if rest.is_empty() {
                    self.add(field.text()?);
                } else {
                    self.walk_protobuf(field.message()?, rest)?;
                }
            }
        }
        Ok(())
    }

    fn walk_json(&mut self, value: &Value, way: &[Step]) {
        match (value, way.split_first()) {
            (Value::String(name), None) => self.add(name),
            (Value::Array(items), _) => items.iter().for_each(|item| self.walk_json(item, way)),
            (value, Some(((_, ""), rest))) => self.walk_json(value, rest),
            (Value::Object(members), Some(((_, name), rest))) => {
                if let Some(member) = members.get(*name) {
                    self.walk_json(member, rest);
                }
            }
            _ => {}
        }
    }
}

impl FieldValue for PodSecrets {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        ways().try_for_each(|way| self.walk_protobuf(field.message()?, &way))
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = Value::deserialize(deserializer)?;
        let mut secrets = Self::default();
        ways().for_each(|way| secrets.walk_json(&spec, &way));
        Ok(secrets)
    }
}
