//! Which volumes are to be made, and which to be removed. Pure.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

/// The name of this provisioner, as StorageClasses name it.
pub(in crate::standalone) const PROVISIONER: &str = "steersman.dev/local-path";
/// The name of the class that every data folder has.
pub(super) const CLASS: &str = "standard";

/// Maximum length of a folder's name, in bytes.
const LONGEST_NAME: usize = 255;

const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const ASKED_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
const MADE_BY: &str = "pv.kubernetes.io/provisioned-by";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The class whose volumes this provisioner makes, and which claims get that name none.
pub(super) fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": CLASS, "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    })
}

/// Whether the claim waits for a volume of this provisioner.
pub(super) fn waits(claim: &PersistentVolumeClaim) -> bool {
    let annotation = |name: &str| claim.metadata.annotations.as_ref()?.get(name).map(String::as_str);
    let asked = annotation(ASKED).or_else(|| annotation(ASKED_BETA));
    let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    asked == Some(PROVISIONER) && bound.is_empty() && claim.metadata.deletion_timestamp.is_none()
}

/// The name of the class that the claim names.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.as_ref().and_then(|all| all.get(CLASS_ANNOTATION));
    let named = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    annotated.or(named).map(String::as_str).unwrap_or_default()
}

/// The volume of a claim that waits, and its folder below `folder`, on the node of that name. `None` if the claim waits for
/// its first pod.
///
/// # Errors
/// What the claim asks for can't be made.
pub(super) fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    folder: &Path,
    node: &str,
) -> Result<Option<(PathBuf, Value)>, String> {
    let selected = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SELECTED_NODE));
    if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && !selected {
        return Ok(None);
    }
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.selector.is_some() {
        return Err("claim Selector is not supported".to_owned());
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err("block volumes are not supported".to_owned());
    }
    let meta = &claim.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (namespace, claim_name, uid) = (text(&meta.namespace), text(&meta.name), text(&meta.uid));
    let name = format!("pvc-{uid}");
    // For people who look into the folder. Names of objects have no slashes, but together may exceed what a folder may have.
    let own: String = format!("{name}_{namespace}_{claim_name}").chars().take(LONGEST_NAME).collect();
    let path = folder.join(own);
    let terms = json!([{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] } ] }]);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { MADE_BY: PROVISIONER } },
        "spec": {
            "capacity": { "storage": spec.resources.and_then(|resources| resources.requests?.get("storage").cloned()) },
            "accessModes": spec.access_modes, "volumeMode": "Filesystem", "storageClassName": class_of(claim),
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "mountOptions": class.mount_options, "local": { "path": path },
            "nodeAffinity": { "required": { "nodeSelectorTerms": terms } },
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name,
                "uid": uid, "resourceVersion": meta.resource_version,
            },
        },
    });
    Ok(Some((path, volume)))
}

/// The folder of a volume that is to be removed: one that this provisioner made in `folder`, whose claim is gone, and that its
/// policy does not keep.
pub(super) fn to_remove(volume: &PersistentVolume, folder: &Path) -> Option<PathBuf> {
    let made_by = volume.metadata.annotations.as_ref()?.get(MADE_BY)?;
    let phase = volume.status.as_ref()?.phase.as_deref()?;
    let spec = volume.spec.as_ref()?;
    let path = Path::new(&spec.local.as_ref()?.path);
    let is_ours = made_by == PROVISIONER && path.parent() == Some(folder) && path.file_name().is_some();
    let goes = phase == "Released" && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
    (is_ours && goes).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    const FOLDER: &str = "/data/volumes";

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn claim(annotations: Value, spec: Value) -> PersistentVolumeClaim {
        let mut whole = json!({
            "metadata": { "name": "c", "namespace": "d", "uid": "u", "annotations": annotations },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        whole["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        read(whole)
    }

    #[test]
    fn claims_wait_that_the_binder_gave_to_this_provisioner() {
        for (annotations, spec, expected) in [
            (json!({ ASKED: PROVISIONER }), json!({}), true),
            (json!({ ASKED_BETA: PROVISIONER }), json!({}), true),
            (json!({ ASKED: PROVISIONER }), json!({ "volumeName": "v" }), false),
            (json!({ ASKED: "example.com/other", ASKED_BETA: PROVISIONER }), json!({}), false),
            (json!({}), json!({}), false),
        ] {
            assert_eq!(waits(&claim(annotations.clone(), spec)), expected, "{annotations}");
        }
        let mut deleted = claim(json!({ ASKED: PROVISIONER }), json!({}));
        deleted.metadata.deletion_timestamp = read(json!("2026-01-01T00:00:00Z"));
        assert!(!waits(&deleted));
    }

    #[test]
    fn a_volume_is_a_folder_of_the_node_that_is_reserved_for_its_claim() {
        let class: StorageClass = read(class());
        let claim = claim(json!({}), json!({ "storageClassName": CLASS }));
        let (path, made) = volume(&claim, &class, Path::new(FOLDER), "n").unwrap().unwrap();
        assert_eq!(path, Path::new("/data/volumes/pvc-u_d_c"));
        let made: PersistentVolume = read(made);
        assert_eq!(made.metadata.name.as_deref(), Some("pvc-u"));
        let spec = made.spec.clone().unwrap();
        assert_eq!(spec.storage_class_name.as_deref(), Some(CLASS));
        assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
        assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
        assert_eq!(spec.claim_ref.unwrap().uid.as_deref(), Some("u"));
        assert_eq!(to_remove(&made, Path::new(FOLDER)), None, "it is not released");
    }

    #[test]
    fn what_can_not_be_made_is_said_and_what_waits_for_a_pod_is_left() {
        let eager: StorageClass = read(class());
        let lazy =
            StorageClass { volume_binding_mode: Some("WaitForFirstConsumer".to_owned()), ..eager.clone() };
        for (class, annotations, spec, expected) in [
            (&eager, json!({}), json!({}), Ok(true)),
            (&lazy, json!({}), json!({}), Ok(false)),
            (&lazy, json!({ SELECTED_NODE: "n" }), json!({}), Ok(true)),
            (&eager, json!({}), json!({ "volumeMode": "Block" }), Err("block volumes are not supported")),
            (
                &eager,
                json!({}),
                json!({ "selector": { "matchLabels": { "a": "b" } } }),
                Err("claim Selector is not supported"),
            ),
        ] {
            let made = volume(&claim(annotations, spec), class, Path::new(FOLDER), "n");
            assert_eq!(made.map(|made| made.is_some()), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn only_released_volumes_of_this_provisioner_in_its_own_folder_go() {
        let at = |made_by: &str, phase: &str, policy: &str, path: &str| -> PersistentVolume {
            read(json!({
                "metadata": { "name": "v", "annotations": { MADE_BY: made_by } },
                "spec": { "persistentVolumeReclaimPolicy": policy, "local": { "path": path } },
                "status": { "phase": phase },
            }))
        };
        let own = "/data/volumes/pvc-u_d_c";
        for (volume, expected) in [
            (at(PROVISIONER, "Released", "Delete", own), true),
            (at(PROVISIONER, "Bound", "Delete", own), false),
            (at(PROVISIONER, "Failed", "Delete", own), false),
            (at(PROVISIONER, "Released", "Retain", own), false),
            (at("example.com/other", "Released", "Delete", own), false),
            (at(PROVISIONER, "Released", "Delete", "/data/volumes"), false),
            (at(PROVISIONER, "Released", "Delete", "/data/volumes/.."), false),
            (at(PROVISIONER, "Released", "Delete", "/data/volumes/a/b"), false),
            (at(PROVISIONER, "Released", "Delete", "/etc"), false),
            (at(PROVISIONER, "Released", "Delete", ""), false),
        ] {
            assert_eq!(to_remove(&volume, Path::new(FOLDER)).is_some(), expected, "{volume:?}");
        }
    }
}
