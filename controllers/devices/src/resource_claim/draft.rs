//! Makes claims from templates, without decoding the templates as a whole.

use serde_json::{Value, json};
use steersman_api::OwnerReference;
use steersman_api::wire::{Reader, WireError, Writer, wrap};
use steersman_controller::call::{Content, JSON, PROTOBUF};
use steersman_informer::wire::Opaque;
use steersman_kinds::resource_claim::POD_CLAIM_NAME;

/// The longest prefix of a generated name, to which the API server adds a hyphen and five random letters.
const LONGEST_PREFIX: usize = 57;

/// The fields that the controller adds to a template to make a claim.
///
/// The claim gets the template's labels, annotations and spec. A spec in protobuf is not decoded, so that fields newer than
/// this program survive.
#[derive(Clone, Debug)]
pub(super) struct ClaimDraft<'a> {
    /// The pod or the PodGroup that will own the claim.
    pub owner: OwnerReference,
    /// The claim's name in the owner's spec.
    pub claim: &'a str,
}

/// The template can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The template is not valid protobuf.
    #[error("reading the template: {0}")]
    Protobuf(#[from] WireError),
    /// The template is not valid JSON.
    #[error("reading the template: {0}")]
    Json(#[from] serde_json::Error),
}

impl ClaimDraft<'_> {
    /// Makes the claim, in the template's encoding.
    ///
    /// # Errors
    /// The template is malformed.
    pub(super) fn fill_in(&self, template: &Opaque) -> Result<Content, Error> {
        match template {
            Opaque::None => self.json(&json!({})),
            Opaque::Protobuf(bytes) => self.protobuf(bytes),
            Opaque::Json(text) => self.json(&serde_json::from_str(text.get())?),
        }
    }

    fn protobuf(&self, template: &[u8]) -> Result<Content, Error> {
        let (mut metadata, mut spec) = (Writer::new(), Writer::new());
        let mut template = Reader::new(template);
        while let Some(part) = template.field()? {
            let mut fields = part.message()?;
            while let Some(field) = fields.field()? {
                match (part.number, field.number) {
                    (1, 11 | 12) => metadata.field(field),
                    (2, _) => spec.field(field),
                    _ => {}
                }
            }
        }
        metadata.text(2, &self.prefix());
        metadata.entry(12, POD_CLAIM_NAME, self.claim);
        metadata.message(13, |reference| self.owner.write(reference));
        let mut claim = Writer::new();
        claim.bytes(1, &metadata.into_bytes());
        claim.bytes(2, &spec.into_bytes());
        let bytes = wrap("resource.k8s.io/v1", "ResourceClaim", &claim.into_bytes());
        Ok(Content { media_type: PROTOBUF, bytes: bytes.into() })
    }

    fn json(&self, template: &Value) -> Result<Content, Error> {
        let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        annotations.insert(POD_CLAIM_NAME.to_owned(), self.claim.into());
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": self.prefix(),
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [self.owner],
            },
            "spec": template["spec"],
        });
        Ok(Content::json(JSON, &claim))
    }

    /// The prefix of the claim's name. If it is too long, the names of the owner and of its claim are cut in proportion to their
    /// lengths, so that something of both is left.
    fn prefix(&self) -> String {
        let pod = self.owner.name.as_str();
        let prefix = format!("{pod}-{}-", self.claim);
        if prefix.len() <= LONGEST_PREFIX {
            return prefix;
        }
        let cut = |name: &str| {
            let mut end = name.len() * LONGEST_PREFIX / prefix.len();
            // The API server allows no other characters than ASCII.
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name[..end].to_owned()
        };
        format!("{}-{}", cut(pod), cut(self.claim))
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Object};
    use steersman_kinds::resource_claim_template::{ClaimTemplate, ResourceClaimTemplate};

    use super::*;

    fn draft<'a>(pod: &str, claim: &'a str) -> ClaimDraft<'a> {
        let owner = OwnerReference::controller("v1", "Pod", pod, "u".into());
        ClaimDraft { owner: OwnerReference { block_owner_deletion: None, ..owner }, claim }
    }

    #[test]
    fn long_names_are_cut_in_proportion() {
        for (pod, claim, prefix) in [
            ("pod".to_owned(), "gpu".to_owned(), "pod-gpu-".to_owned()),
            ("p".repeat(50), "gpus".to_owned(), format!("{}-gpus-", "p".repeat(50))),
            ("p".repeat(63), "gpu".to_owned(), format!("{}-{}", "p".repeat(52), "gp")),
            ("p".repeat(63), "c".repeat(63), format!("{}-{}", "p".repeat(28), "c".repeat(28))),
            ("p".repeat(253), "c".repeat(63), format!("{}-{}", "p".repeat(45), "c".repeat(11))),
        ] {
            assert_eq!(draft(&pod, &claim).prefix(), prefix);
        }
    }

    #[test]
    fn a_claim_has_the_labels_annotations_and_spec_of_its_template_in_either_encoding() {
        let template = json!({"metadata": {"name": "t"}, "spec": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d", POD_CLAIM_NAME: "stale"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
        }});
        let kind = |name| schema::table().kind("resource.k8s.io", "v1", name).unwrap();
        let encoded = schema::to_protobuf(kind("ResourceClaimTemplate"), &template).unwrap();
        for (body, encoding) in
            [(template.to_string().into(), Encoding::Json), (encoded.into(), Encoding::Protobuf)]
        {
            let decoded = ResourceClaimTemplate::decode(&body, encoding, u64::MAX).unwrap();
            let content = draft("p", "gpu").fill_in(&ClaimTemplate::of(&decoded).unwrap().0).unwrap();
            let claim: Value = match content.media_type {
                PROTOBUF => {
                    let bare = steersman_api::wire::unwrap(&content.bytes).unwrap();
                    schema::to_json(kind("ResourceClaim"), bare.raw).unwrap()
                }
                _ => serde_json::from_slice(&content.bytes).unwrap(),
            };
            let metadata = &claim["metadata"];
            assert_eq!(metadata["generateName"], "p-gpu-");
            assert_eq!(metadata["labels"], json!({"a": "b"}));
            assert_eq!(metadata["annotations"], json!({"c": "d", POD_CLAIM_NAME: "gpu"}));
            let owner =
                json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
            assert_eq!(metadata["ownerReferences"], json!([owner]));
            assert_eq!(claim["spec"], template["spec"]["spec"]);
        }
    }
}
