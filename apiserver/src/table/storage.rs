//! Volumes, their classes and drivers.

use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, Column, NAME, boolean, integer, text, wide};
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of the group `storage.k8s.io`, and the core group's part in it.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "PersistentVolume" => &PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => &PERSISTENT_VOLUME_CLAIM,
        "StorageClass" => &STORAGE_CLASS,
        "VolumeAttributesClass" => &VOLUME_ATTRIBUTES_CLASS,
        "VolumeAttachment" => &VOLUME_ATTACHMENT,
        "CSINode" => &CSI_NODE,
        "CSIDriver" => &CSI_DRIVER,
        _ => return None,
    })
}

/// Where claims and volumes named their class before they had a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

static PERSISTENT_VOLUME: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: |volume, now| {
        let claim = object::at(volume, "spec.claimRef").map(|claim| {
            let text = |name| str_at(claim, name).unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        });
        vec![
            format::name(volume),
            format::quantity(volume, "spec.capacity.storage").into(),
            access_modes(volume, "spec.accessModes"),
            format::text(volume, "spec.persistentVolumeReclaimPolicy"),
            phase(volume),
            claim.unwrap_or_default().into(),
            class(volume),
            str_at(volume, "spec.volumeAttributesClassName").unwrap_or("<unset>").into(),
            format::text(volume, "status.reason"),
            format::age(volume, now),
            str_at(volume, "spec.volumeMode").unwrap_or("<unset>").into(),
        ]
    },
};

static PERSISTENT_VOLUME_CLAIM: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: |claim, now| {
        let bound = str_at(claim, "spec.volumeName").is_some_and(|volume| !volume.is_empty());
        let (capacity, modes) = if bound {
            let capacity = format::quantity(claim, "status.capacity.storage");
            (capacity.into(), access_modes(claim, "status.accessModes"))
        } else {
            ("".into(), "".into())
        };
        vec![
            format::name(claim),
            phase(claim),
            format::text(claim, "spec.volumeName"),
            capacity,
            modes,
            class(claim),
            str_at(claim, "spec.volumeAttributesClassName").unwrap_or("<unset>").into(),
            format::age(claim, now),
            str_at(claim, "spec.volumeMode").unwrap_or("<unset>").into(),
        ]
    },
};

fn phase(object: &Value) -> Value {
    if format::is_deleting(object) { "Terminating".into() } else { format::text(object, "status.phase") }
}

fn class(object: &Value) -> Value {
    match format::annotation(object, CLASS) {
        Some(class) => class.into(),
        None => format::text(object, "spec.storageClassName"),
    }
}

/// Each mode once, in short, in this order.
fn access_modes(object: &Value, path: &str) -> Value {
    let modes = list_at(object, path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown = short.iter().filter(|(mode, _)| modes.iter().any(|known| known == mode));
    shown.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

static STORAGE_CLASS: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        AGE,
    ],
    cells: |class, now| {
        let default = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        let mut name = object::text_at(class, "metadata.name");
        if default.iter().any(|key| format::annotation(class, key) == Some("true")) {
            name.push_str(" (default)");
        }
        vec![
            name.into(),
            format::text(class, "provisioner"),
            str_at(class, "reclaimPolicy").unwrap_or("Delete").into(),
            str_at(class, "volumeBindingMode").unwrap_or("Immediate").into(),
            format::switch(class, "allowVolumeExpansion", false),
            format::age(class, now),
        ]
    },
};

static VOLUME_ATTRIBUTES_CLASS: BuiltIn = BuiltIn {
    columns: &[NAME, text("DriverName"), AGE],
    cells: |class, now| vec![format::name(class), format::text(class, "driverName"), format::age(class, now)],
};

static VOLUME_ATTACHMENT: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column { format: "name", ..text("Attacher") },
        text("PV"),
        text("Node"),
        boolean("Attached"),
        AGE,
    ],
    cells: |attachment, now| {
        vec![
            format::name(attachment),
            format::text(attachment, "spec.attacher"),
            format::text(attachment, "spec.source.persistentVolumeName"),
            format::text(attachment, "spec.nodeName"),
            format::switch(attachment, "status.attached", false),
            format::age(attachment, now),
        ]
    },
};

static CSI_NODE: BuiltIn = BuiltIn {
    columns: &[NAME, integer("Drivers"), AGE],
    cells: |node, now| vec![format::name(node), format::length(node, "spec.drivers"), format::age(node, now)],
};

static CSI_DRIVER: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        boolean("AttachRequired"),
        boolean("PodInfoOnMount"),
        boolean("StorageCapacity"),
        text("TokenRequests"),
        boolean("RequiresRepublish"),
        text("Modes"),
        AGE,
    ],
    cells: |driver, now| {
        let modes: Vec<&str> =
            list_at(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
        let audiences = object::at(driver, "spec.tokenRequests").and_then(Value::as_array);
        let audiences = audiences.map(|tokens| format::texts(tokens, "audience").join(","));
        vec![
            format::name(driver),
            format::switch(driver, "spec.attachRequired", true),
            format::switch(driver, "spec.podInfoOnMount", false),
            format::switch(driver, "spec.storageCapacity", false),
            audiences.unwrap_or_else(|| "<unset>".to_owned()).into(),
            format::switch(driver, "spec.requiresRepublish", false),
            if modes.is_empty() { "<none>".into() } else { modes.join(",").into() },
            format::age(driver, now),
        ]
    },
};
