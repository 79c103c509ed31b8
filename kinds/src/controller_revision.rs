//! The cached fields of ControllerRevisions, in groups.

use serde_json::value::RawValue;
use std::fmt;
use steersman_informer::kind;
use steersman_informer::serde::{Deserialize, Deserializer};
use steersman_informer::wire::{Field, FieldValue, WireError};

/// The state that a revision records: JSON, byte for byte as the API server has it.
///
/// For StatefulSets and DaemonSets it is a patch that restores the pod template: `{"spec":{"template":…}}`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RevisionData(pub Box<[u8]>);

/// The number of a revision among those of its owner. Later revisions have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionNumber(pub i64);

kind! {
    /// A recorded state of a StatefulSet or DaemonSet.
    pub struct ControllerRevision("apps", "v1", "controllerrevisions") {
        data: RevisionData = 2 "data",
        number: RevisionNumber = 3 "revision",
    }
}

impl fmt::Debug for RevisionData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RevisionData").field(&String::from_utf8_lossy(&self.0)).finish()
    }
}

impl FieldValue for RevisionData {
    fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        // A runtime.RawExtension, whose only field has the bytes.
        let mut extension = field.message()?;
        while let Some(part) = extension.field()? {
            if part.number == 1 {
                self.0 = part.bytes()?.into();
            }
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        Ok(Self(if text == "null" { Box::default() } else { text.as_bytes().into() }))
    }
}

impl FieldValue for RevisionNumber {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::from_json(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Kind, Object};

    use super::*;

    #[test]
    fn data_is_kept_byte_for_byte() {
        let data = r#"{"spec":{"template":{"$patch":"replace","b":"\u003c","a":1}}}"#;
        let head =
            r#""apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"revision":7"#;
        let json = format!("{{{head},\"data\":{data}}}");
        let mut protobuf = steersman_api::wire::Writer::new();
        protobuf.message(1, |meta| meta.text(1, "a"));
        protobuf.message(2, |extension| extension.text(1, data));
        protobuf.int64(3, 7);
        let protobuf = protobuf.into_bytes();
        for (body, encoding) in [(json.into_bytes(), Encoding::Json), (protobuf, Encoding::Protobuf)] {
            let revision = ControllerRevision::decode(&body.into(), encoding, u64::MAX).unwrap();
            assert_eq!(RevisionNumber::of(&revision), Some(&RevisionNumber(7)));
            assert_eq!(&*RevisionData::of(&revision).unwrap().0, data.as_bytes());
        }
    }

    #[test]
    fn a_revision_need_not_have_data() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "data": null, "revision": 0,
        });
        let kind = schema::table().kind("apps", "v1", ControllerRevision::KIND).unwrap();
        let protobuf = schema::to_protobuf(kind, &object).unwrap();
        for (body, encoding) in
            [(object.to_string().into_bytes(), Encoding::Json), (protobuf, Encoding::Protobuf)]
        {
            let revision = ControllerRevision::decode(&body.into(), encoding, u64::MAX).unwrap();
            assert_eq!(RevisionData::of(&revision), Some(&RevisionData::default()));
        }
    }
}
