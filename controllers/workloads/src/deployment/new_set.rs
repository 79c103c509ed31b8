//! Builds the new ReplicaSet of a Deployment. The template stays encoded, so that fields newer than this program survive.

use serde_json::{Value, json};
use steersman_api::wire::{Reader, WireError, Writer, wrap};
use steersman_api::{ArcStr, OwnerReference};
use steersman_controller::call::{Content, JSON, PROTOBUF};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::Opaque;
use steersman_kinds::selector::SelectorSpec;

use super::owner::Deployment;
use super::plan::NewSet;
use crate::pod_template::HASH_LABEL;

/// A template that no ReplicaSet can be made from. Trying again is of no use until it changes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The Deployment has no template.
    #[error("there is no pod template")]
    Absent,
    /// The template is no protobuf.
    #[error("reading the pod template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is no JSON.
    #[error("reading the pod template: {0}")]
    Json(#[from] serde_json::Error),
}

/// The name of the ReplicaSet whose template has this hash. Upstream's `generateReplicaSetName`: a long name is cut so that
/// the whole is a name still.
pub(super) fn name(deployment: &str, hash: &str) -> ArcStr {
    let kept = deployment.len().min(253_usize.saturating_sub(1 + hash.len()));
    // Names are ASCII.
    format!("{}-{hash}", deployment.get(..kept).unwrap_or(deployment)).into()
}

/// Tells users that a ReplicaSet could not be created, in the API server's own words if it has answered.
pub(super) fn failure(name: &str, error: &SyncError) -> String {
    let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
    format!("Failed to create new replica set \"{name}\": {why}")
}

/// The ReplicaSet, in the encoding of the Deployment's template, so that fields newer than this program survive. The label
/// [`HASH_LABEL`] is added to the ReplicaSet, its selector and its template.
///
/// # Errors
/// See [`Error`].
pub(super) fn content(
    deployment: &Deployment,
    owner: &OwnerReference,
    new: &NewSet,
) -> Result<Content, Error> {
    match &deployment.template {
        Opaque::None => Err(Error::Absent),
        Opaque::Protobuf(template) => {
            let set = protobuf(deployment, owner, new, template)?;
            Ok(Content { media_type: PROTOBUF, bytes: wrap("apps/v1", "ReplicaSet", &set).into() })
        }
        Opaque::Json(template) => {
            let set = json(deployment, owner, new, serde_json::from_str(template.get())?);
            Ok(Content::json(JSON, &set))
        }
    }
}

fn protobuf(
    deployment: &Deployment,
    owner: &OwnerReference,
    new: &NewSet,
    template: &[u8],
) -> Result<Vec<u8>, WireError> {
    let hash = new.hash.as_str();
    let (mut metadata, mut labelled) = (Writer::new(), Writer::new());
    metadata.text(1, &new.name);
    metadata.text(3, &deployment.meta.key.namespace);
    let mut parts = Reader::new(template);
    let mut template_metadata = Writer::new();
    while let Some(part) = parts.field()? {
        if part.number != 1 {
            labelled.field(part);
            continue;
        }
        let mut fields = part.message()?;
        while let Some(field) = fields.field()? {
            template_metadata.field(field);
            if field.number == 11 {
                metadata.field(field);
            }
        }
    }
    // Of a map's key that occurs twice, readers take the last value.
    template_metadata.entry(11, HASH_LABEL, hash);
    labelled.bytes(1, &template_metadata.into_bytes());
    metadata.entry(11, HASH_LABEL, hash);
    new.annotations.iter().for_each(|(key, value)| metadata.entry(12, key, value));
    metadata.message(13, |reference| owner.write(reference));
    let mut spec = Writer::new();
    spec.int64(1, new.replicas.into());
    spec.message(2, |selector| {
        let SelectorSpec { match_labels, match_expressions } = &deployment.selector;
        match_labels.iter().for_each(|(key, value)| selector.entry(1, key, value));
        selector.entry(1, HASH_LABEL, hash);
        for requirement in match_expressions {
            selector.message(2, |expression| {
                expression.text(1, &requirement.key);
                expression.text(2, &requirement.operator);
                requirement.values.iter().for_each(|value| expression.text(3, value));
            });
        }
    });
    spec.bytes(3, &labelled.into_bytes());
    spec.int64(4, deployment.min_ready_seconds.into());
    let mut set = Writer::new();
    set.bytes(1, &metadata.into_bytes());
    set.bytes(2, &spec.into_bytes());
    Ok(set.into_bytes())
}

fn json(deployment: &Deployment, owner: &OwnerReference, new: &NewSet, mut template: Value) -> Value {
    let hash = new.hash.as_str();
    let (template_labels, selector) = (&mut template["metadata"]["labels"], &deployment.selector);
    template_labels[HASH_LABEL] = hash.into();
    let labels = template_labels.clone();
    let text = |map: &mut dyn Iterator<Item = (&ArcStr, &ArcStr)>| {
        Value::Object(map.map(|(key, value)| (key.to_string(), value.as_str().into())).collect())
    };
    let mut match_labels = text(&mut selector.match_labels.iter());
    match_labels[HASH_LABEL] = hash.into();
    let expressions = selector.match_expressions.iter().map(|requirement| {
        let values: Vec<&str> = requirement.values.iter().map(|value| value.as_str()).collect();
        json!({
            "key": requirement.key.as_str(), "operator": requirement.operator.as_str(), "values": values,
        })
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": new.name.as_str(),
            "namespace": deployment.meta.key.namespace.as_str(),
            "labels": labels,
            "annotations": text(&mut new.annotations.iter()),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": new.replicas,
            "selector": {"matchLabels": match_labels, "matchExpressions": expressions.collect::<Vec<_>>()},
            "template": template,
            "minReadySeconds": deployment.min_ready_seconds,
        },
    })
}
