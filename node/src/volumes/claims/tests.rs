//! What must hold before a pod may mount what its claim is bound to.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{ApiClaims, ClaimReference, Claims, Persistent};
use crate::volumes::refusal::Refusal;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON of a test must fit its type")
}

/// Puts `changes` over `base`; `null` removes a member.
fn merged(mut base: Value, changes: &Value) -> Value {
    let (Some(members), Some(changes)) = (base.as_object_mut(), changes.as_object()) else {
        return changes.clone();
    };
    for (name, change) in changes {
        match (change, members.remove(name)) {
            (Value::Null, _) => {}
            (change, Some(member)) => drop(members.insert(name.clone(), merged(member, change))),
            (change, None) => drop(members.insert(name.clone(), change.clone())),
        }
    }
    base
}

fn claim(changes: &Value) -> PersistentVolumeClaim {
    let base = json!({
        "metadata": { "name": "c", "namespace": "default", "uid": "uid-of-claim" },
        "spec": { "volumeName": "pv" },
        "status": { "phase": "Bound" },
    });
    read(merged(base, changes))
}

fn volume(changes: &Value) -> PersistentVolume {
    let base = json!({
        "metadata": { "name": "pv" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" }, "storageClassName": "slow",
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
            "claimRef": { "name": "c", "namespace": "default", "uid": "uid-of-claim" },
            "local": { "path": "/mnt/disk" },
        },
    });
    read(merged(base, changes))
}

fn pod(container: &Value) -> Pod {
    read(json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "uid-of-pod" },
        "spec": { "containers": [container] },
    }))
}

fn mounting() -> Pod {
    pod(&json!({ "name": "c", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }))
}

fn named() -> Volume {
    read(json!({ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }))
}

/// The whole decision: what to mount, or the refusal's text.
fn decided(
    pod: &Pod,
    of_pod: &Volume,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<Persistent, Refusal> {
    let reference = ClaimReference::of(pod, of_pod).unwrap();
    reference.bound_volume(claim)?;
    reference.persistent(claim, volume)
}

#[test]
fn a_volume_stands_for_the_claim_that_it_names_or_that_is_named_after_it() {
    for (of_pod, expected) in [
        (json!({ "persistentVolumeClaim": { "claimName": "c" } }), Some("c")),
        (json!({ "ephemeral": { "volumeClaimTemplate": { "spec": {} } } }), Some("web-data")),
        (json!({ "emptyDir": {} }), None),
        (json!({ "csi": { "driver": "d" } }), None),
    ] {
        let mut of_pod = of_pod;
        of_pod["name"] = json!("data");
        let (pod, of_pod) = (mounting(), read(of_pod));
        let reference = ClaimReference::of(&pod, &of_pod);
        assert_eq!(reference.as_ref().map(|reference| reference.name()), expected);
        assert!(reference.is_none_or(|reference| reference.namespace() == "default"));
    }
}

#[test]
fn a_claim_must_be_bound_and_must_not_be_going() {
    let error = |why: &str| Some(format!("error processing PVC default/c: {why}"));
    let deleted = "2026-01-01T00:00:00Z";
    for (changes, expected) in [
        (json!({}), None),
        (json!({ "status": { "phase": "Pending" } }), error("PVC is not bound")),
        (json!({ "status": { "phase": "Lost" } }), error("PVC is not bound")),
        (json!({ "status": null }), error("PVC is not bound")),
        (json!({ "spec": { "volumeName": null } }), error("PVC has empty pvc.Spec.VolumeName")),
        (json!({ "spec": { "volumeName": "" } }), error("PVC has empty pvc.Spec.VolumeName")),
        (json!({ "metadata": { "deletionTimestamp": deleted } }), error("PVC is being deleted")),
        (
            json!({ "metadata": { "deletionTimestamp": deleted, "finalizers": ["example.com/other"] } }),
            error("PVC is being deleted"),
        ),
        (
            json!({ "metadata": { "deletionTimestamp": deleted, "finalizers": ["kubernetes.io/pvc-protection"] } }),
            None,
        ),
        // What is wrong first is said.
        (
            json!({ "metadata": { "deletionTimestamp": deleted }, "status": null }),
            error("PVC is being deleted"),
        ),
        (json!({ "spec": { "volumeName": "" }, "status": null }), error("PVC is not bound")),
    ] {
        let (pod, of_pod, claim) = (mounting(), named(), claim(&changes));
        let reference = ClaimReference::of(&pod, &of_pod).unwrap();
        let found = reference.bound_volume(&claim);
        match expected {
            None => assert_eq!(found, Ok("pv"), "{changes}"),
            Some(expected) => assert_eq!(found, Err(Refusal::Unprocessed(expected)), "{changes}"),
        }
    }
}

#[test]
fn the_claim_of_an_ephemeral_volume_must_belong_to_the_pod() {
    let owner = |uid: &str, controller: bool| json!({ "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": controller });
    let refused = Err(Refusal::Unprocessed(
        "PVC default/web-data was not created for pod default/web (pod is not owner)".to_owned(),
    ));
    for (owners, expected) in [
        (json!([owner("uid-of-pod", true)]), Ok("pv")),
        (json!([owner("uid-of-pod-before", true)]), refused.clone()),
        (json!([owner("uid-of-pod", false)]), refused.clone()),
        (json!([]), refused),
    ] {
        let (pod, of_pod) = (mounting(), read(json!({ "name": "data", "ephemeral": {} })));
        let claim = claim(&json!({ "metadata": { "name": "web-data", "ownerReferences": owners } }));
        let reference = ClaimReference::of(&pod, &of_pod).unwrap();
        assert_eq!(reference.bound_volume(&claim), expected, "{owners}");
    }
}

#[test]
fn a_volume_must_be_bound_to_this_very_claim() {
    for (claim_ref, why) in [
        (
            json!(null),
            "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
        ),
        (
            json!({ "uid": "uid-of-claim-before" }),
            "found PV object pv but its pv.Spec.ClaimRef.UID uid-of-claim-before does not point to claim.UID \
             uid-of-claim",
        ),
        (
            json!({ "uid": null }),
            "found PV object pv but its pv.Spec.ClaimRef.UID  does not point to claim.UID uid-of-claim",
        ),
    ] {
        let volume = volume(&json!({ "spec": { "claimRef": claim_ref } }));
        let refused = decided(&mounting(), &named(), &claim(&json!({})), &volume).unwrap_err();
        assert_eq!(refused.to_string(), format!("error processing PVC default/c: {why}"));
        assert!(refused.is_before_mount() && !refused.is_unsupported());
    }
}

#[test]
fn a_volume_is_used_as_its_mode_says() {
    let mount = json!({ "name": "c", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] });
    let device = json!({ "name": "c", "volumeDevices": [{ "name": "data", "devicePath": "/dev/x" }] });
    let unsupported = "volume \"data\", which is PersistentVolume \"pv\", is of kind block device, which this node does \
                       not support";
    for (mode, container, expected) in [
        (json!("Filesystem"), &mount, None),
        (json!(null), &mount, None),
        (json!("Block"), &mount, Some("volume data has volumeMode Block, but is specified in volumeMounts")),
        (
            json!("Filesystem"),
            &device,
            Some("volume data has volumeMode Filesystem, but is specified in volumeDevices"),
        ),
        (json!("Block"), &device, Some(unsupported)),
    ] {
        let volume = volume(&json!({ "spec": { "volumeMode": mode } }));
        let (pod, claim) = (pod(container), claim(&json!({})));
        let refused = decided(&pod, &named(), &claim, &volume).err().map(|refused| refused.to_string());
        assert_eq!(refused.as_deref(), expected, "{mode} {container}");
        // A node that simulates containers takes devices as well.
        let (of_pod, simulated) = (named(), expected.filter(|why| *why != unsupported));
        let refused = ClaimReference::of(&pod, &of_pod).unwrap().check(&claim, &volume).err();
        assert_eq!(refused.map(|refused| refused.to_string()).as_deref(), simulated, "{mode} {container}");
    }
}

#[test]
fn only_volumes_on_the_node_itself_are_supported() {
    for (source, expected) in [
        (json!({ "hostPath": { "path": "/data" } }), Ok(())),
        (json!({ "local": { "path": "/data" } }), Ok(())),
        (json!({ "csi": { "driver": "d", "volumeHandle": "h" } }), Err("csi")),
        (json!({ "nfs": { "server": "s", "path": "/" } }), Err("nfs")),
        (json!({ "awsElasticBlockStore": { "volumeID": "v" } }), Err("awsElasticBlockStore")),
        (json!({}), Err("unknown")),
    ] {
        let mut whole = serde_json::to_value(volume(&json!({ "spec": { "local": null } }))).unwrap();
        whole["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let found = decided(&mounting(), &named(), &claim(&json!({})), &read(whole));
        let expected = expected.map_err(|kind| {
            Refusal::Unsupported(format!(
                "volume \"data\", which is PersistentVolume \"pv\", is of kind {kind}, which this node does not support"
            ))
        });
        assert_eq!(found.map(drop), expected, "{source}");
    }
}

#[test]
fn what_is_mounted_is_as_claim_and_volume_say() {
    let found = |of_pod: &Volume, changes: &Value| {
        decided(&mounting(), of_pod, &claim(&json!({})), &volume(changes)).unwrap()
    };
    let plain = found(&named(), &json!({}));
    assert_eq!(
        (plain.name.as_str(), plain.read_only, plain.one_pod_only, plain.group),
        ("pv", false, false, None)
    );
    assert!(plain.mount_options.is_empty());
    let read_only: Volume =
        read(json!({ "name": "data", "persistentVolumeClaim": { "claimName": "c", "readOnly": true } }));
    assert!(found(&read_only, &json!({})).read_only);
    for (modes, expected) in [
        (json!(["ReadWriteOncePod"]), true),
        (json!(["ReadWriteOncePod", "ReadWriteOnce"]), false),
        (json!(["ReadWriteOnce"]), false),
    ] {
        assert_eq!(found(&named(), &json!({ "spec": { "accessModes": modes } })).one_pod_only, expected);
    }
    for (group, expected) in [("1234", Some(1234)), ("-1", Some(-1)), ("many", None), ("", None)] {
        let annotated = json!({ "metadata": { "annotations": { "pv.beta.kubernetes.io/gid": group } } });
        assert_eq!(found(&named(), &annotated).group, expected);
    }
    for (annotation, spec, expected) in [
        (None, json!(["ro", "noexec"]), vec!["noexec", "ro"]),
        (Some("nodev,,noatime"), json!(["ro"]), vec!["noatime", "nodev"]),
        (Some(""), json!(["ro"]), vec![]),
    ] {
        let mut changes = json!({ "spec": { "mountOptions": spec } });
        if let Some(annotation) = annotation {
            changes["metadata"] =
                json!({ "annotations": { "volume.beta.kubernetes.io/mount-options": annotation } });
        }
        assert!(found(&named(), &changes).mount_options.iter().eq(&expected), "{changes}");
    }
}

#[test]
fn a_volume_is_mounted_only_where_it_is() {
    let node = |labels: Value| -> Node { read(json!({ "metadata": { "name": "n1", "labels": labels } })) };
    let on = |key: &str, value: &str| json!([{ "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] }]);
    let not_here = "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms";
    let unknown = "MountVolume.NodeAffinity check failed for volume \"pv\" : error retrieving node: node \"n1\" not found";
    let here = || Some(node(json!({ "host": "one" })));
    let by_name = |name: &str| json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }] }]);
    for (affinity, node, expected) in [
        (json!(null), here(), None),
        (json!(null), None, None),
        (json!({}), None, None),
        (json!({ "required": { "nodeSelectorTerms": on("host", "one") } }), here(), None),
        (json!({ "required": { "nodeSelectorTerms": on("host", "two") } }), here(), Some(not_here)),
        (json!({ "required": { "nodeSelectorTerms": on("zone", "one") } }), here(), Some(not_here)),
        (json!({ "required": { "nodeSelectorTerms": [{}] } }), here(), Some(not_here)),
        (json!({ "required": { "nodeSelectorTerms": by_name("n1") } }), here(), None),
        (json!({ "required": { "nodeSelectorTerms": by_name("n2") } }), here(), Some(not_here)),
        (json!({ "required": { "nodeSelectorTerms": on("host", "one") } }), None, Some(unknown)),
    ] {
        let volume = volume(&json!({ "spec": { "nodeAffinity": affinity } }));
        let persistent = decided(&mounting(), &named(), &claim(&json!({})), &volume).unwrap();
        let refused = persistent.check(node.as_ref(), "n1").err().map(|refused| refused.to_string());
        assert_eq!(refused.as_deref(), expected, "{affinity}");
    }
}

#[test]
fn a_host_path_takes_no_mount_options() {
    for (source, expected) in [
        (json!({ "local": { "path": "/a" } }), None),
        (
            json!({ "local": null, "hostPath": { "path": "/a" } }),
            Some(
                "MountVolume.MountOptionSupport check failed for volume \"pv\" : mount options are not supported for \
                 this volume type",
            ),
        ),
    ] {
        let mut spec = source;
        spec["mountOptions"] = json!(["noexec"]);
        let volume = volume(&json!({ "spec": spec }));
        let persistent = decided(&mounting(), &named(), &claim(&json!({})), &volume).unwrap();
        let refused = persistent.check(None, "n1").err().map(|refused| refused.to_string());
        assert_eq!(refused.as_deref(), expected);
    }
}

#[tokio::test]
async fn a_name_that_no_object_can_have_is_not_put_into_a_path() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        seen.lock().push(request.uri().to_string());
        let object = json!({ "metadata": { "name": "there" } }).to_string();
        async move { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(object)))) }
    });
    let claims = ApiClaims::new(kube::Client::new(service, "default"));
    for name in ["../secrets/s", "..", "c?x=1", "c%2fd", "", "C"] {
        let refused = claims.claim("default", name).await.unwrap_err();
        assert_eq!(refused, format!("persistentvolumeclaims {name:?} not found"));
        let refused = claims.volume(name).await.unwrap_err();
        assert_eq!(refused, format!("persistentvolumes {name:?} not found"));
    }
    assert!(asked.lock().is_empty(), "{asked:?}");
    claims.claim("default", "c").await.unwrap();
    claims.volume("pvc-1.v").await.unwrap();
    let paths = ["/api/v1/namespaces/default/persistentvolumeclaims/c", "/api/v1/persistentvolumes/pvc-1.v"];
    assert_eq!(*asked.lock(), paths);
}
