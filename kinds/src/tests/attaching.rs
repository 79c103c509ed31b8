//! The groups that the attach-detach controller reads.

use super::{decoded, kept};
use serde_json::json;
use steersman_informer::wire::Group;

use crate::csi_driver::CSIDriver;
use crate::node::Node;
use crate::node_volumes::{Attaching, CONTROLLER_MANAGED_ATTACH, NodeVolumes};
use crate::pod::Pod;
use crate::pod_volumes::{PodVolumes, Running, VolumeUse};
use crate::volume_attachment::VolumeAttachment;

#[test]
fn the_volumes_of_a_node_are_found_in_both_encodings() {
    let node = json!({
        "metadata": {"name": "n", "annotations": {"a": "b", CONTROLLER_MANAGED_ATTACH: "true"}},
        "status": {
            "volumesInUse": ["kubernetes.io/csi/d^1", "x"],
            "volumesAttached": [{"name": "kubernetes.io/csi/d^1", "devicePath": ""}, {"name": "y", "devicePath": "/dev/y"}],
        },
    });
    for node in decoded::<Node>(&node, NodeVolumes::BIT | Attaching::BIT) {
        let volumes = NodeVolumes::of(&node).unwrap();
        assert_eq!(volumes.in_use, ["kubernetes.io/csi/d^1", "x"]);
        assert_eq!(volumes.attached[1].name, "y");
        assert_eq!(volumes.attached[1].device_path, "/dev/y");
        assert!(Attaching::of(&node).unwrap().managed.0);
    }
    for node in decoded::<Node>(&json!({"metadata": {"name": "n"}}), Attaching::BIT) {
        assert!(!Attaching::of(&node).unwrap().managed.0);
    }
}

#[test]
fn the_volumes_that_a_pod_needs_are_found_in_both_encodings() {
    let template = json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}});
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    for (name, states, expected) in [
        ("no container has a status", json!([]), false),
        ("a container waits", json!([{"name": "c", "state": {"waiting": {"reason": "x"}}}]), false),
        ("a container has ended", json!([{"name": "c", "state": {"terminated": {"exitCode": 1}}}]), false),
        ("a container runs", json!([{"name": "c", "state": running}]), true),
        ("a container has no state", json!([{"name": "c"}]), true),
    ] {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c"}], "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "c", "ephemeral": template},
                {"name": "d", "csi": {"driver": "inline.example.com"}},
                {"name": "e", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn", "lun": 0}},
                {"name": "f", "fc": {"targetWWNs": ["5005", "5006"], "lun": 0}},
                {"name": "g", "fc": {"wwids": ["3600508b4"]}},
                {"name": "h", "fc": {"targetWWNs": ["5005"]}},
            ]},
            "status": {"initContainerStatuses": states},
        });
        for pod in decoded::<Pod>(&pod, PodVolumes::BIT | Running::BIT) {
            let volumes = PodVolumes::of(&pod).unwrap();
            let disk = |name: &str, unique: &str| VolumeUse::Disk {
                volume: name.into(),
                unique_name: unique.into(),
            };
            let all = [
                VolumeUse::Claim { volume: "b".into(), claim: "data".into() },
                VolumeUse::Ephemeral("c".into()),
                VolumeUse::Inline("inline.example.com".into()),
                disk("e", "kubernetes.io/iscsi/10.0.0.1:3260:iqn:0"),
                disk("f", "kubernetes.io/fc/[5005 5006]:0"),
                disk("g", "kubernetes.io/fc/[3600508b4]"),
            ];
            assert_eq!(volumes.volumes.0[..], all, "{name}");
            assert_eq!(volumes.claim_names("p").collect::<Vec<_>>(), ["data", "p-c"]);
            assert_eq!(volumes.ephemeral().map(|name| &**name).collect::<Vec<_>>(), ["c"]);
            assert_eq!(Running::of(&pod).unwrap().any(), expected, "{name}");
        }
    }
}

#[test]
fn attachments_and_drivers_are_equal_in_both_encodings() {
    let attachment = json!({
        "metadata": {"name": "csi-1"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": true, "attachmentMetadata": {"a": "b"},
            "attachError": {"time": "2026-01-01T00:00:00Z", "message": "no"}, "detachError": {"message": "stuck"}},
    });
    let [json, protobuf] = kept::<VolumeAttachment>(&attachment);
    assert_eq!(json, protobuf);
    for part in ["\"d\"", "\"n\"", "\"pv\"", "attached: true", "\"no\"", "\"stuck\""] {
        assert!(json.contains(part), "{part}: {json}");
    }
    for required in [json!(null), json!(true), json!(false)] {
        let driver = json!({"metadata": {"name": "d"}, "spec": {"attachRequired": required}});
        let [json, protobuf] = kept::<CSIDriver>(&driver);
        assert_eq!(json, protobuf);
    }
}
