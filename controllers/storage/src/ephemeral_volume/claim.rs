//! The claim for a generic ephemeral volume.

use serde_json::{Value, json};
use steersman_controller::client::controller_reference;
use steersman_kinds::pod::Pod;

use super::plan::Volume;

/// The claim for a volume of a pod, from the template in the pod. `pod` is the pod's JSON. `None` if the pod has no such
/// volume.
pub(super) fn claim(pod: &Value, meta: &steersman_api::Meta, volume: &Volume) -> Option<Value> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let source = volumes.iter().find(|other| other["name"] == volume.name.as_str())?;
    let template = source["ephemeral"].get("volumeClaimTemplate")?;
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume.claim.as_str(),
            "ownerReferences": [controller_reference::<Pod>(meta)],
        },
        "spec": template["spec"],
    });
    for field in ["labels", "annotations"] {
        if let Some(entries) = template["metadata"].get(field) {
            claim["metadata"][field] = entries.clone();
        }
    }
    Some(claim)
}
