//! Makes pods from templates, without decoding the templates as a whole.

use serde_json::{Map, Value, json};
use steersman_api::wire::{Field, Reader, WireError, Writer, wrap};
use steersman_api::{ArcStr, OwnerReference};
use steersman_informer::wire::Opaque;

use crate::call::{Content, JSON, PROTOBUF};

/// The fields that a controller adds to a template to make a pod.
///
/// As in upstream's `GetPodFromTemplate`, the pod gets the template's labels, annotations, finalizers and spec, and none of
/// its other metadata. A spec in protobuf is not decoded, so that fields newer than this program survive: the added fields
/// are appended to it, and a decoder takes the last value of a field and adds entries to a list.
#[derive(Clone, Debug)]
pub struct PodDraft {
    /// The pod's name.
    pub name: PodName,
    /// The pod's managing owner.
    pub owner: OwnerReference,
    /// Labels to add. They replace the template's labels with the same keys.
    pub labels: Vec<(ArcStr, ArcStr)>,
    /// Annotations to add. They replace the template's annotations with the same keys.
    pub annotations: Vec<(ArcStr, ArcStr)>,
    /// Finalizers to add, unless the template has them.
    pub finalizers: Vec<ArcStr>,
    /// The hostname, which replaces the template's.
    pub hostname: Option<ArcStr>,
    /// Environment variables to add to each container and init container that has no variable of the same name.
    pub variables: Vec<FieldVariable>,
}

/// The source of a pod's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodName {
    /// A prefix to which the API server appends five random letters.
    Generated(ArcStr),
    /// The whole name.
    Fixed(ArcStr),
    /// This name. The pod also says from which prefix it could have been generated, as those of StatefulSets do.
    Both {
        /// The prefix.
        prefix: ArcStr,
        /// The name.
        name: ArcStr,
    },
}

/// An environment variable with the value of one of the pod's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldVariable {
    /// The variable's name.
    pub name: ArcStr,
    /// The field's path, such as `metadata.labels['x']`.
    pub field_path: ArcStr,
}

/// The template can't be used for pods. The caller should not retry until the template changes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The owner has no template.
    #[error("there is no pod template")]
    Absent,
    /// The pod would have no labels, so its owner's selector could not match it.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// The template is not valid protobuf.
    #[error("reading the pod template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is not valid JSON.
    #[error("reading the pod template: {0}")]
    Json(#[from] serde_json::Error),
}

impl PodDraft {
    /// Makes the pod, in the template's encoding.
    ///
    /// # Errors
    /// If the template can't be used.
    pub fn fill_in(&self, template: &Opaque) -> Result<Content, Error> {
        match template {
            Opaque::None => Err(Error::Absent),
            Opaque::Protobuf(bytes) => {
                let pod = self.protobuf(bytes)?;
                Ok(Content { media_type: PROTOBUF, bytes: wrap("v1", "Pod", &pod).into() })
            }
            Opaque::Json(text) => {
                let pod = self.json(&serde_json::from_str(text.get())?)?;
                Ok(Content::json(JSON, &pod))
            }
        }
    }

    fn protobuf(&self, template: &[u8]) -> Result<Vec<u8>, Error> {
        let (mut metadata, mut spec) = (Writer::new(), Writer::new());
        let mut labels = self.labels.len();
        let mut finalizers: Vec<&str> = self.finalizers.iter().map(ArcStr::as_str).collect();
        let mut template = Reader::new(template);
        while let Some(part) = template.field()? {
            let mut fields = part.message()?;
            while let Some(field) = fields.field()? {
                match (part.number, field.number) {
                    (1, 11) => {
                        labels += 1;
                        metadata.field(field);
                    }
                    (1, 12) => metadata.field(field),
                    (1, 14) => {
                        let present = field.text()?;
                        finalizers.retain(|finalizer| *finalizer != present);
                        metadata.field(field);
                    }
                    (2, 2 | 20) => spec.bytes(field.number, &self.container(field)?),
                    (2, _) => spec.field(field),
                    _ => {}
                }
            }
        }
        if labels == 0 {
            return Err(Error::NoLabels);
        }
        match &self.name {
            PodName::Fixed(name) => metadata.text(1, name),
            PodName::Generated(prefix) => metadata.text(2, prefix),
            PodName::Both { prefix, name } => {
                metadata.text(1, name);
                metadata.text(2, prefix);
            }
        }
        self.labels.iter().for_each(|(key, value)| metadata.entry(11, key, value));
        self.annotations.iter().for_each(|(key, value)| metadata.entry(12, key, value));
        metadata.message(13, |reference| self.owner.write(reference));
        finalizers.iter().for_each(|finalizer| metadata.text(14, finalizer));
        self.hostname.iter().for_each(|hostname| spec.text(16, hostname));
        let mut pod = Writer::new();
        pod.bytes(1, &metadata.into_bytes());
        pod.bytes(2, &spec.into_bytes());
        Ok(pod.into_bytes())
    }

    /// The encoded container with the variables that it lacks.
    fn container(&self, container: Field<'_>) -> Result<Vec<u8>, Error> {
        let mut missing: Vec<&FieldVariable> = self.variables.iter().collect();
        let mut fields = container.message()?;
        while let Some(field) = fields.field()? {
            if field.number != 7 {
                continue;
            }
            let mut variable = field.message()?;
            while let Some(field) = variable.field()? {
                if field.number == 1 {
                    let present = field.text()?;
                    missing.retain(|variable| variable.name != present);
                }
            }
        }
        let mut container = Writer::onto(container.bytes()?);
        for FieldVariable { name, field_path } in missing {
            container.message(7, |variable| {
                variable.text(1, name);
                variable.text(2, "");
                variable.message(3, |from| {
                    from.message(1, |field| {
                        field.text(1, "");
                        field.text(2, field_path);
                    });
                });
            });
        }
        Ok(container.into_bytes())
    }

    fn json(&self, template: &Value) -> Result<Value, Error> {
        let taken = |name: &str| template["metadata"].get(name).cloned();
        let map = |name, added: &[(ArcStr, ArcStr)]| {
            let mut all = match taken(name) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            all.extend(added.iter().map(|(key, value)| (key.to_string(), value.as_str().into())));
            all
        };
        let labels = map("labels", &self.labels);
        if labels.is_empty() {
            return Err(Error::NoLabels);
        }
        let mut finalizers = match taken("finalizers") {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        for finalizer in self.finalizers.iter().map(ArcStr::as_str) {
            if !finalizers.iter().any(|present| present == finalizer) {
                finalizers.push(finalizer.into());
            }
        }
        let mut metadata = json!({
            "labels": labels,
            "annotations": map("annotations", &self.annotations),
            "finalizers": finalizers,
            "ownerReferences": [self.owner],
        });
        match &self.name {
            PodName::Fixed(name) => metadata["name"] = name.as_str().into(),
            PodName::Generated(prefix) => metadata["generateName"] = prefix.as_str().into(),
            PodName::Both { prefix, name } => {
                metadata["name"] = name.as_str().into();
                metadata["generateName"] = prefix.as_str().into();
            }
        }
        let mut spec = template["spec"].clone();
        if let Some(hostname) = &self.hostname {
            spec["hostname"] = hostname.as_str().into();
        }
        for list in ["initContainers", "containers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                self.add_variables(container);
            }
        }
        Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    }

    fn add_variables(&self, container: &mut Value) {
        for FieldVariable { name, field_path } in &self.variables {
            if !container["env"].is_array() {
                container["env"] = json!([]);
            }
            let variables = container["env"].as_array_mut().expect("the list must exist");
            if !variables.iter().any(|variable| variable["name"] == name.as_str()) {
                let field = json!({"fieldRef": {"fieldPath": field_path.as_str()}});
                variables.push(json!({"name": name.as_str(), "valueFrom": field}));
            }
        }
    }
}

/// Maximum length of a prefix that the API server does not cut: a label's length less the five random letters.
const MAX_GENERATED_PREFIX: usize = 58;

/// The prefix of the names of an owner's pods: `<owner>-`, or `<owner>` if a dash would make the name too long.
pub fn name_prefix(owner: &str) -> ArcStr {
    // A pod's name is a DNS subdomain of at most 253 characters.
    let dash = if owner.len() < 253 { "-" } else { "" };
    format!("{owner}{dash}").into()
}

/// The prefix of the names of an owner's pods with an index: `<owner>-<index>-`. Cuts the owner's name if necessary, and
/// keeps the index.
pub fn indexed_name_prefix(owner: &str, index: u32) -> ArcStr {
    let suffix = format!("-{index}-");
    let kept = owner.len().min(MAX_GENERATED_PREFIX.saturating_sub(suffix.len()));
    // Names are ASCII.
    format!("{}{suffix}", owner.get(..kept).unwrap_or(owner)).into()
}

#[cfg(test)]
mod tests {
    use steersman_api::{Uid, schema};
    use steersman_informer::wire::FieldValue;

    use super::*;

    fn draft() -> PodDraft {
        PodDraft {
            name: PodName::Generated("pi-7-".into()),
            owner: OwnerReference::controller("batch/v1", "Job", "pi", Uid::from("u")),
            labels: vec![("index".into(), "7".into())],
            annotations: vec![("index".into(), "7".into())],
            finalizers: vec!["tracking".into()],
            hostname: Some("pi-7".into()),
            variables: vec![FieldVariable { name: "INDEX".into(), field_path: "metadata.name".into() }],
        }
    }

    fn template() -> Value {
        json!({
            "metadata": {
                "name": "ignored", "creationTimestamp": null,
                "labels": {"app": "pi", "index": "from the template"}, "annotations": {"note": "x"},
                "finalizers": ["other"],
            },
            "spec": {
                "hostname": "from the template", "restartPolicy": "Never",
                "initContainers": [{"name": "setup", "image": "i"}],
                "containers": [
                    {"name": "a", "image": "i", "env": [{"name": "INDEX", "value": "own"}]},
                    {"name": "b", "image": "i", "resources": {}, "env": [{"name": "X", "value": "1"}]},
                ],
            },
        })
    }

    /// The template as a cache holds it, in either encoding.
    fn opaque(template: &Value, encoding: &str) -> Opaque {
        if encoding == "json" {
            return Opaque::from_json(template).unwrap();
        }
        let object = json!({"apiVersion": "v1", "kind": "PodTemplate", "template": template});
        let bytes =
            schema::to_protobuf(schema::table().kind("", "v1", "PodTemplate").unwrap(), &object).unwrap();
        let mut reader = Reader::new(&bytes);
        let mut opaque = Opaque::None;
        while let Some(field) = reader.field().unwrap() {
            if field.number == 2 {
                opaque.merge(field).unwrap();
            }
        }
        opaque
    }

    fn pod_of(content: &Content) -> Value {
        match content.media_type {
            PROTOBUF => schema::decode(&content.bytes).unwrap(),
            _ => serde_json::from_slice(&content.bytes).unwrap(),
        }
    }

    #[test]
    fn a_pod_is_the_template_with_additions_in_either_encoding() {
        let own = json!({"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "pi-7-",
                "labels": {"app": "pi", "index": "7"}, "annotations": {"note": "x", "index": "7"},
                "finalizers": ["other", "tracking"], "ownerReferences": [owner],
            },
            "spec": {
                "hostname": "pi-7", "restartPolicy": "Never",
                "initContainers": [{"name": "setup", "image": "i", "env": [own]}],
                "containers": [
                    {"name": "a", "image": "i", "env": [{"name": "INDEX", "value": "own"}]},
                    {"name": "b", "image": "i", "resources": {}, "env": [{"name": "X", "value": "1"}, own]},
                ],
            },
        });
        for encoding in ["json", "protobuf"] {
            let mut pod = pod_of(&draft().fill_in(&opaque(&template(), encoding)).unwrap());
            // The empty messages that Go writes for structs that are not pointers, in protobuf only.
            for list in ["initContainers", "containers"] {
                for container in pod["spec"][list].as_array_mut().unwrap() {
                    if container["name"] != "b" && container["resources"] == json!({}) {
                        container.as_object_mut().unwrap().remove("resources");
                    }
                }
            }
            pod["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
            pod.as_object_mut().unwrap().remove("status");
            assert_eq!(pod, expected, "{encoding}");
        }
    }

    #[test]
    fn fields_that_nobody_here_knows_survive() {
        let mut newer = Writer::new();
        newer.message(1, |metadata| metadata.entry(11, "app", "pi"));
        newer.message(2, |spec| {
            spec.text(9_000, "newer");
            spec.message(2, |container| container.text(9_001, "newer still"));
        });
        let content = draft().fill_in(&Opaque::Protobuf(newer.into_bytes().into())).unwrap();
        for text in ["newer", "newer still"] {
            let present = content.bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(present, "{text}");
        }
        let mut template = template();
        template["spec"]["newer"] = json!({"still": 1});
        let pod = pod_of(&draft().fill_in(&opaque(&template, "json")).unwrap());
        assert_eq!(pod["spec"]["newer"], json!({"still": 1}));
    }

    #[test]
    fn a_pod_without_labels_is_not_made() {
        let mut template = template();
        template["metadata"] = json!({});
        let draft = PodDraft { labels: Vec::new(), ..draft() };
        for encoding in ["json", "protobuf"] {
            assert!(
                matches!(draft.fill_in(&opaque(&template, encoding)), Err(Error::NoLabels)),
                "{encoding}"
            );
        }
        assert!(matches!(draft.fill_in(&Opaque::None), Err(Error::Absent)));
    }

    #[test]
    fn a_long_name_is_cut_before_the_index() {
        let long = "a".repeat(60);
        assert_eq!(name_prefix("pi"), "pi-");
        assert_eq!(name_prefix(&"a".repeat(253)).len(), 253);
        assert_eq!(indexed_name_prefix("pi", 7), "pi-7-");
        assert_eq!(indexed_name_prefix(&long, 123), format!("{}-123-", "a".repeat(53)));
    }
}
