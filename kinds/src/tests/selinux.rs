//! What tells with which SELinux labels pods use volumes is the same in both encodings.

use serde_json::{Value, json};
use steersman_informer::wire::Group;

use super::decoded;
use crate::csi_driver::{CSIDriver, SelinuxMount};
use crate::persistent_volume::PersistentVolume;
use crate::pod::Pod;
use crate::selinux::{MountSource, SelinuxMounts, VolumeDisk};

#[test]
fn the_mounts_and_labels_of_all_containers() {
    let container = |name: &str, level: &str| {
        json!({
            "name": name, "volumeMounts": [{"name": name, "mountPath": "/x"}],
            "securityContext": {"seLinuxOptions": {"level": level}},
        })
    };
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "securityContext": {
                "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "l"},
                "seLinuxChangePolicy": "Recursive",
            },
            "containers": [{"name": "c", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
            "initContainers": [container("init", "1")],
            "ephemeralContainers": [container("debug", "2")],
        },
    });
    for pod in decoded::<Pod>(&pod, SelinuxMounts::BIT) {
        let mounts = SelinuxMounts::of(&pod).unwrap();
        let options = mounts.security.options.as_ref().unwrap();
        assert_eq!([&*options.user, &*options.role, &*options.kind, &*options.level], ["u", "r", "t", "l"]);
        assert_eq!(mounts.security.change_policy.as_deref(), Some("Recursive"));
        let level = |level: &str| Some(level.to_owned());
        let all: Vec<_> = mounts
            .all_containers()
            .map(|container| {
                let own = container.security.options.as_ref().map(|options| options.level.to_string());
                (container.mounts[0].volume.to_string(), own)
            })
            .collect();
        assert_eq!(
            all,
            [("init".to_owned(), level("1")), ("a".to_owned(), None), ("debug".to_owned(), level("2"))]
        );
    }
}

#[test]
fn the_volumes_that_pods_can_share() {
    let fc = |source: Value| json!({"name": "v", "fc": source});
    let disk = |name: &str| MountSource::Disk(name.into());
    for (volume, expected) in [
        (json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}), MountSource::Claim("c".into())),
        (json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}), MountSource::Ephemeral),
        (json!({"name": "v", "emptyDir": {}}), MountSource::Other),
        (json!({"name": "v", "csi": {"driver": "d"}}), MountSource::Other),
        (
            json!({"name": "v", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.x", "lun": 2}}),
            disk("kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:2"),
        ),
        (fc(json!({"targetWWNs": ["a", "b"], "lun": 0})), disk("kubernetes.io/fc/[a b]:0")),
        (fc(json!({"wwids": ["x"]})), disk("kubernetes.io/fc/[x]")),
        (fc(json!({})), MountSource::Other),
    ] {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [volume]}});
        for pod in decoded::<Pod>(&pod, SelinuxMounts::BIT) {
            let volumes = &SelinuxMounts::of(&pod).unwrap().volumes.0;
            assert_eq!((&*volumes[0].name, &volumes[0].source), ("v", &expected), "{volume}");
        }
    }
}

#[test]
fn the_disks_of_volumes_and_the_support_of_drivers() {
    for (source, expected) in [
        (json!({"hostPath": {"path": "/x"}}), None),
        (json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 1}}), Some("kubernetes.io/iscsi/t:i:1")),
        (json!({"fc": {"targetWWNs": ["a"], "lun": 7}}), Some("kubernetes.io/fc/[a]:7")),
    ] {
        let volume = json!({"metadata": {"name": "v"}, "spec": source});
        for volume in decoded::<PersistentVolume>(&volume, VolumeDisk::BIT) {
            assert_eq!(VolumeDisk::of(&volume).unwrap().name().as_deref(), expected);
        }
    }
    for (spec, expected) in [(json!({}), false), (json!({"seLinuxMount": true}), true)] {
        let driver = json!({"metadata": {"name": "d"}, "spec": spec});
        for driver in decoded::<CSIDriver>(&driver, u64::MAX) {
            assert_eq!(SelinuxMount::of(&driver).unwrap().supported, expected);
        }
    }
}
