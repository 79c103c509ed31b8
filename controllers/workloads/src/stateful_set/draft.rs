//! Pods and claims made from templates that are not understood as a whole.

use serde_json::{Map, Value, json};
use steersman_api::meta::LabelMap;
use steersman_api::wire::{Reader, WireError, Writer, wrap};
use steersman_api::{ArcStr, OwnerReference};
use steersman_controller::call::{Content, JSON, PROTOBUF};
use steersman_informer::wire::Opaque;

/// A template that nothing can be made from. Trying again is of no use until it changes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The set has no such template.
    #[error("there is no template")]
    Absent,
    /// The template is no protobuf.
    #[error("reading the template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is no JSON.
    #[error("reading the template: {0}")]
    Json(#[from] serde_json::Error),
}

/// What the spec of a set's pod has besides the template's.
#[derive(Clone, Debug)]
pub(super) struct PodSpec<'a> {
    /// The headless service in whose domain the pod's name is. Replaces the template's, even if it is empty.
    pub subdomain: &'a str,
    /// The volumes that are claims of the pod's own: the volume's name, and the claim's. They replace the template's volumes
    /// of the same names.
    pub claims: Vec<(&'a ArcStr, ArcStr)>,
}

impl PodSpec<'_> {
    /// A pod template with this added to its spec, in the encoding that it has.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn add_to(&self, template: &Opaque) -> Result<Opaque, Error> {
        match template {
            Opaque::None => Err(Error::Absent),
            Opaque::Protobuf(bytes) => Ok(Opaque::Protobuf(self.protobuf(bytes)?.into())),
            Opaque::Json(text) => {
                let mut template: Value = serde_json::from_str(text.get())?;
                let volumes = self.volumes(&template["spec"]["volumes"]);
                let mut spec = json!({ "subdomain": self.subdomain });
                if !volumes.is_empty() {
                    spec["volumes"] = volumes.into();
                }
                for (name, value) in spec.as_object_mut().into_iter().flatten() {
                    template["spec"][name] = value.take();
                }
                Ok(Opaque::Json(serde_json::value::to_raw_value(&template)?))
            }
        }
    }

    fn is_own(&self, volume: &str) -> bool {
        self.claims.iter().any(|(name, _)| *name == volume)
    }

    fn protobuf(&self, template: &[u8]) -> Result<Vec<u8>, WireError> {
        let (mut added, mut spec) = (Writer::new(), Writer::new());
        for (name, claim) in &self.claims {
            spec.message(1, |volume| {
                volume.text(1, name);
                volume.message(2, |source| {
                    source.message(10, |source| {
                        source.text(1, claim);
                        source.bool(2, false);
                    });
                });
            });
        }
        let mut parts = Reader::new(template);
        while let Some(part) = parts.field()? {
            if part.number != 2 {
                added.field(part);
                continue;
            }
            let mut fields = part.message()?;
            while let Some(field) = fields.field()? {
                if field.number != 1 || !self.is_own(volume_name(field.message()?)?) {
                    spec.field(field);
                }
            }
        }
        spec.text(17, self.subdomain);
        added.bytes(2, &spec.into_bytes());
        Ok(added.into_bytes())
    }

    /// The volumes of a pod that has these: the pod's own claims, and the others.
    pub(super) fn volumes(&self, existing: &Value) -> Vec<Value> {
        let claim = |(name, claim): &(&ArcStr, ArcStr)| json!({ "name": name.as_str(), "persistentVolumeClaim": { "claimName": claim.as_str() } });
        let is_other = |volume: &&Value| volume["name"].as_str().is_none_or(|name| !self.is_own(name));
        let others = existing.as_array().into_iter().flatten().filter(is_other).cloned();
        self.claims.iter().map(claim).chain(others).collect()
    }
}

fn volume_name(mut volume: Reader<'_>) -> Result<&str, WireError> {
    let mut name = "";
    while let Some(field) = volume.field()? {
        if field.number == 1 {
            name = field.text()?;
        }
    }
    Ok(name)
}

/// What a claim has besides its template's fields.
#[derive(Clone, Debug)]
pub(super) struct ClaimDraft<'a> {
    /// The claim's name, in place of the template's.
    pub name: &'a str,
    /// The claim's namespace.
    pub namespace: &'a str,
    /// Added to the template's labels, or in place of those of the same key.
    pub labels: &'a LabelMap,
    /// Added to the template's owners.
    pub owners: &'a [OwnerReference],
}

impl ClaimDraft<'_> {
    /// The claim, in the encoding that the template has.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) fn fill_in(&self, template: &Opaque) -> Result<Content, Error> {
        match template {
            Opaque::None => Err(Error::Absent),
            Opaque::Protobuf(bytes) => {
                let claim = self.protobuf(bytes)?;
                let bytes = wrap("v1", "PersistentVolumeClaim", &claim).into();
                Ok(Content { media_type: PROTOBUF, bytes })
            }
            Opaque::Json(text) => {
                let mut claim: Value = serde_json::from_str(text.get())?;
                self.add_to(&mut claim);
                Ok(Content::json(JSON, &claim))
            }
        }
    }

    fn protobuf(&self, template: &[u8]) -> Result<Vec<u8>, WireError> {
        let (mut claim, mut metadata) = (Writer::new(), Writer::new());
        let mut parts = Reader::new(template);
        while let Some(part) = parts.field()? {
            if part.number != 1 {
                claim.field(part);
                continue;
            }
            let mut fields = part.message()?;
            while let Some(field) = fields.field()? {
                if !matches!(field.number, 1 | 3) {
                    metadata.field(field);
                }
            }
        }
        metadata.text(1, self.name);
        metadata.text(3, self.namespace);
        self.labels.iter().for_each(|(key, value)| metadata.entry(11, key, value));
        for owner in self.owners {
            metadata.message(13, |reference| owner.write(reference));
        }
        claim.bytes(1, &metadata.into_bytes());
        Ok(claim.into_bytes())
    }

    fn add_to(&self, claim: &mut Value) {
        claim["apiVersion"] = json!("v1");
        claim["kind"] = json!("PersistentVolumeClaim");
        let metadata = &mut claim["metadata"];
        metadata["name"] = json!(self.name);
        metadata["namespace"] = json!(self.namespace);
        let mut labels = match metadata["labels"].take() {
            Value::Object(labels) => labels,
            _ => Map::new(),
        };
        labels.extend(self.labels.iter().map(|(key, value)| (key.to_string(), value.as_str().into())));
        metadata["labels"] = labels.into();
        let mut owners = match metadata["ownerReferences"].take() {
            Value::Array(owners) => owners,
            _ => Vec::new(),
        };
        owners.extend(self.owners.iter().map(|owner| json!(owner)));
        metadata["ownerReferences"] = owners.into();
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::schema;
    use steersman_informer::wire::FieldValue;

    use super::*;

    /// A part of an object as a cache keeps it, in either encoding. The part is field `number`, member `name` of the object.
    fn opaque(object: &Value, kind: &str, group: &str, path: (u32, &str), encoding: &str) -> Opaque {
        if encoding == "json" {
            return Opaque::from_json(&object[path.1]).unwrap();
        }
        let kind = schema::table().kind(group, "v1", kind).unwrap();
        let bytes = schema::to_protobuf(kind, object).unwrap();
        let mut reader = Reader::new(&bytes);
        let mut opaque = Opaque::None;
        while let Some(field) = reader.field().unwrap() {
            if field.number == path.0 {
                opaque.merge(field).unwrap();
            }
        }
        opaque
    }

    fn claim_of(content: &Content) -> Value {
        match content.media_type {
            PROTOBUF => schema::decode(&content.bytes).unwrap(),
            _ => serde_json::from_slice(&content.bytes).unwrap(),
        }
    }

    fn template_of(opaque: &Opaque) -> Value {
        match opaque {
            Opaque::Json(text) => serde_json::from_str(text.get()).unwrap(),
            Opaque::Protobuf(bytes) => {
                let mut object = Writer::new();
                object.bytes(2, bytes);
                schema::decode(&wrap("v1", "PodTemplate", &object.into_bytes())).unwrap()["template"].take()
            }
            Opaque::None => panic!("there must be a template"),
        }
    }

    #[test]
    fn a_pod_has_its_claims_in_place_of_the_templates_volumes_of_their_names() {
        let object = json!({"apiVersion": "v1", "kind": "PodTemplate", "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "subdomain": "another", "nodeName": "n", "containers": [{"name": "main", "image": "i"}],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}}],
            },
        }});
        let (data, logs) = (ArcStr::from("data"), ArcStr::from("logs"));
        let claims = vec![(&data, "data-web-0".into()), (&logs, "logs-web-0".into())];
        let spec = PodSpec { subdomain: "web", claims };
        for encoding in ["json", "protobuf"] {
            let template = opaque(&object, "PodTemplate", "", (2, "template"), encoding);
            let pod = template_of(&spec.add_to(&template).unwrap());
            let volumes = pod["spec"]["volumes"].as_array().unwrap();
            let named = |at: usize| {
                (volumes[at]["name"].as_str(), volumes[at]["persistentVolumeClaim"]["claimName"].as_str())
            };
            assert_eq!(named(0), (Some("data"), Some("data-web-0")), "{encoding}");
            assert_eq!(named(1), (Some("logs"), Some("logs-web-0")), "{encoding}");
            assert_eq!((volumes.len(), &volumes[2]["configMap"]["name"]), (3, &json!("c")), "{encoding}");
            assert_eq!((&pod["spec"]["subdomain"], &pod["spec"]["nodeName"]), (&json!("web"), &json!("n")));
            assert_eq!(pod["metadata"]["labels"]["app"], "web");
        }
    }

    #[test]
    fn a_claim_has_its_name_its_owners_and_the_labels_of_its_set() {
        let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "labels": {"app": "template", "tier": "t"}, "annotations": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"},
        });
        let labels: LabelMap = [("app", "web")].into_iter().collect();
        let owners = [OwnerReference::controller("apps/v1", "StatefulSet", "web", "u".into())];
        let draft = ClaimDraft { name: "data-web-0", namespace: "ns", labels: &labels, owners: &owners };
        let whole = |encoding: &str| match encoding {
            "json" => Opaque::from_json(&object).unwrap(),
            _ => {
                let kind = schema::table().kind("", "v1", "PersistentVolumeClaim").unwrap();
                Opaque::Protobuf(schema::to_protobuf(kind, &object).unwrap().into())
            }
        };
        for encoding in ["json", "protobuf"] {
            let claim = claim_of(&draft.fill_in(&whole(encoding)).unwrap());
            let meta = &claim["metadata"];
            assert_eq!(
                (&meta["name"], &meta["namespace"]),
                (&json!("data-web-0"), &json!("ns")),
                "{encoding}"
            );
            assert_eq!(meta["labels"], json!({"app": "web", "tier": "t"}), "{encoding}");
            assert_eq!(meta["annotations"], json!({"a": "b"}));
            let owner = json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            });
            assert_eq!(meta["ownerReferences"], json!([owner]), "{encoding}");
            assert_eq!(claim["spec"]["storageClassName"], "fast");
        }
    }

    #[test]
    fn nothing_is_made_from_no_template() {
        let spec = PodSpec { subdomain: "web", claims: Vec::new() };
        assert!(matches!(spec.add_to(&Opaque::None), Err(Error::Absent)));
        let draft = ClaimDraft { name: "a", namespace: "b", labels: &LabelMap::default(), owners: &[] };
        assert!(matches!(draft.fill_in(&Opaque::None), Err(Error::Absent)));
    }
}
