//! Who provisions and deletes volumes.
//!
//! kube-controller-manager still has two plugins of its own that act on storage: hostPath, for tests on one machine, and NFS,
//! which only recycles. This program has neither: it leaves data to the external provisioner of each CSI driver.

use steersman_api::ArcStr;
use steersman_kinds::persistent_volume_claim::MIGRATED_TO;
use steersman_kinds::volume_source::migrated_driver;

use super::volume::Volume;
use steersman_kinds::persistent_volume::PROVISIONED_BY;

/// The plugin for folders of the machine.
pub(super) const HOST_PATH: &str = "kubernetes.io/host-path";
/// The plugin for NFS.
pub(super) const NFS: &str = "kubernetes.io/nfs";
/// The prefix of the names of upstream's own plugins.
const IN_TREE: &str = "kubernetes.io/";

/// Who provisions volumes of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Provisioning {
    /// This external provisioner.
    External(ArcStr),
    /// Upstream's hostPath plugin.
    HostPath,
    /// Nobody, for this reason.
    None(String),
}

/// Who provisions volumes of a class with this provisioner. Upstream's `findProvisionablePlugin`.
pub(super) fn provisioning(provisioner: &str) -> Provisioning {
    if let Some(driver) = migrated_driver(provisioner) {
        return Provisioning::External(driver.into());
    }
    match provisioner {
        HOST_PATH => Provisioning::HostPath,
        NFS => Provisioning::None("no provisionable volume plugin matched".to_owned()),
        in_tree if in_tree.starts_with(IN_TREE) => {
            Provisioning::None(format!("no volume plugin matched name: {in_tree}"))
        }
        external => Provisioning::External(external.into()),
    }
}

/// Who deletes a volume that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// An external provisioner, which sees the volume's phase.
    External,
    /// Upstream's hostPath plugin, for this reason not here.
    HostPath(String),
    /// Nobody, for this reason.
    None(String),
}

/// Who deletes a volume. Upstream's `findDeletablePlugin`.
pub(super) fn deletion(volume: &Volume) -> Deletion {
    let provisioned_by = volume.annotations().get(PROVISIONED_BY).filter(|name| !name.is_empty());
    if let Some(plugin) = provisioned_by {
        return match &**plugin {
            HOST_PATH => host_path(volume),
            NFS => Deletion::None("no deletable volume plugin matched".to_owned()),
            in_tree if in_tree.starts_with(IN_TREE) => {
                Deletion::None(format!("no volume plugin matched name: {in_tree}"))
            }
            _ => Deletion::External,
        };
    }
    let source = volume.source().kind.map_or("", |kind| kind.member);
    if volume.annotations().has(MIGRATED_TO) || source == "csi" {
        return Deletion::External;
    }
    let why = match source {
        "hostPath" => return host_path(volume),
        "nfs" => "no deletable volume plugin matched",
        _ => "no volume plugin matched",
    };
    let name = volume.name().as_str();
    Deletion::None(format!("error getting deleter volume plugin for volume {name:?}: {why}"))
}

fn host_path(volume: &Volume) -> Deletion {
    let path = volume.source().handle.as_str();
    let is_temporary = path.split_once("/tmp/").is_some_and(|(_, rest)| !rest.is_empty());
    Deletion::HostPath(if is_temporary {
        format!("hostPath volumes are not deleted: delete {path} on its node, then this volume")
    } else {
        format!("host_path deleter only supports /tmp/.+ but received provided {path}")
    })
}

/// The name under which metrics count a volume: its plugin, if upstream's binder has it.
pub(super) fn metrics_name(volume: &Volume) -> &'static str {
    match volume.source().plugin() {
        HOST_PATH => HOST_PATH,
        NFS => NFS,
        _ => "N/A",
    }
}

/// The name under which metrics count the deletion of a volume. `provisioner` is that of the volume's class. Upstream's
/// `getProvisionerNameFromVolume`.
pub(super) fn deleter_name(volume: &Volume, provisioner: Option<&str>) -> ArcStr {
    match (deletion(volume), provisioner) {
        (Deletion::HostPath(_), _) => HOST_PATH.into(),
        (Deletion::None(_), _) | (Deletion::External, None) => "N/A".into(),
        (Deletion::External, Some(provisioner)) => migrated_driver(provisioner).unwrap_or(provisioner).into(),
    }
}
