//! The volume behind a PersistentVolume.

use steersman_api::meta::Labels;
use steersman_informer::View;
use steersman_kinds::persistent_volume::VolumeOffer;
use steersman_kinds::volume_source::VolumeSource;

use super::AttachableVolume;
use super::names::VolumeName;

const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The driver to which disks of Google's cloud are migrated.
const GOOGLE: &str = "pd.csi.storage.gke.io";
/// The driver to which disks of Amazon's cloud are migrated.
const AMAZON: &str = "ebs.csi.aws.com";
/// The driver to which file shares of Microsoft's cloud are migrated.
const AZURE_FILE: &str = "file.csi.azure.com";

/// The volume behind a PersistentVolume: one that a CSI driver serves, for the type `csi` and for types that were once served
/// inside Kubernetes, with the handle that upstream's `csi-translation-lib` gives it; or a disk, for the types `iscsi` and
/// `fc`. `None` for others, and for `azureFile`, whose driver has nothing attached.
pub(super) fn volume(object: &View<AttachableVolume>) -> Option<VolumeName> {
    let source = object.get::<VolumeSource>();
    let Some(driver) = source.csi_driver() else {
        let plugin = source.plugin();
        return VolumeName::parse(&format!("{plugin}/{}", source.handle)).filter(VolumeName::is_disk);
    };
    let handle = match driver {
        _ if !source.driver.is_empty() => source.handle.to_string(),
        GOOGLE => google_disk(&source.handle, &object.meta().labels)?,
        AMAZON => amazon_disk(&source.handle)?,
        AZURE_FILE => return None,
        _ => source.handle.to_string(),
    };
    VolumeName::new(driver, &handle)
}

/// Whether a volume may be attached to one node only. Like upstream, trusts a volume without access modes.
pub(super) fn is_exclusive(object: &View<AttachableVolume>) -> bool {
    let source = object.get::<VolumeSource>();
    // Such a disk can't be written from several nodes, whatever its volume says.
    let is_disk = source.driver.is_empty() && source.csi_driver() == Some(GOOGLE);
    let modes = &object.get::<steersman_kinds::shared::Shared<VolumeOffer>>().access_modes;
    let is_shared = |mode: &str| mode == "ReadOnlyMany" || (mode == "ReadWriteMany" && !is_disk);
    !modes.is_empty() && !modes.iter().any(|mode| is_shared(mode))
}

fn google_disk(name: &str, labels: &Labels) -> Option<String> {
    let zones = [BETA_ZONE, ZONE].into_iter().find_map(|key| labels.get(key).filter(|zone| !zone.is_empty()));
    let zones: Vec<&str> = zones.map(|zones| zones.split("__").collect()).unwrap_or_default();
    let place = match zones[..] {
        [] => "zones/UNSPECIFIED".to_owned(),
        [zone] => format!("zones/{zone}"),
        _ => {
            // `us-central1-a` is in the region `us-central1`.
            let mut regions = zones.iter().map(|zone| zone.rsplit_once('-').map(|(region, _)| region));
            let region = regions.next()??;
            regions.all(|other| other == Some(region)).then(|| format!("regions/{region}"))?
        }
    };
    Some(format!("projects/UNSPECIFIED/{place}/disks/{name}"))
}

/// `aws://us-east-1a/vol-1` stands for `vol-1`.
fn amazon_disk(id: &str) -> Option<String> {
    let Some(address) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let (_, path) = address.split_once('/')?;
    let id = path.trim_matches('/');
    (id.starts_with("vol-") && !id.contains('/')).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named(spec: &Value, zone: &str) -> Option<String> {
        let meta = json!({"name": "pv", "labels": {ZONE: zone}});
        let object = View::from_json(&json!({"metadata": meta, "spec": spec}));
        volume(&object).map(|volume| match volume.csi() {
            Some((driver, handle)) => format!("{driver} {handle}"),
            None => volume.to_string(),
        })
    }

    #[test]
    fn volumes_have_the_handles_of_their_drivers_and_disks_those_of_their_plugins() {
        let gce = json!({"gcePersistentDisk": {"pdName": "disk"}});
        let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
        for (spec, zone, expected) in [
            (json!({"csi": {"driver": "d", "volumeHandle": "h"}}), "", Some("d h")),
            (
                gce.clone(),
                "",
                Some("pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
            ),
            (gce.clone(), "us-a", Some("pd.csi.storage.gke.io projects/UNSPECIFIED/zones/us-a/disks/disk")),
            (
                gce.clone(),
                "us-1-a__us-1-b",
                Some("pd.csi.storage.gke.io projects/UNSPECIFIED/regions/us-1/disks/disk"),
            ),
            (gce, "us-1-a__us-2-b", None),
            (aws("vol-1"), "", Some("ebs.csi.aws.com vol-1")),
            (aws("aws://us-east-1a/vol-2"), "", Some("ebs.csi.aws.com vol-2")),
            (aws("aws:///vol-3/"), "", Some("ebs.csi.aws.com vol-3")),
            (aws("aws://us-east-1a/disk"), "", None),
            (json!({"azureDisk": {"diskName": "n", "diskURI": "/u"}}), "", Some("disk.csi.azure.com /u")),
            (json!({"cinder": {"volumeID": "c"}}), "", Some("cinder.csi.openstack.org c")),
            (json!({"vsphereVolume": {"volumePath": "[d] v"}}), "", Some("csi.vsphere.vmware.com [d] v")),
            (json!({"portworxVolume": {"volumeID": "p"}}), "", Some("pxd.portworx.com p")),
            (json!({"azureFile": {"shareName": "s", "secretName": "x"}}), "", None),
            (json!({"hostPath": {"path": "/"}}), "", None),
            (
                json!({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.d", "lun": 2}}),
                "",
                Some("kubernetes.io/iscsi/10.0.0.1:3260:iqn.d:2"),
            ),
            (
                json!({"fc": {"targetWWNs": ["50a", "50b"], "lun": 0}}),
                "",
                Some("kubernetes.io/fc/[50a 50b]:0"),
            ),
            (json!({"fc": {"wwids": ["3600", "3601"]}}), "", Some("kubernetes.io/fc/[3600 3601]")),
            (json!({"fc": {"targetWWNs": ["50a"]}}), "", None),
            (json!({"nfs": {"path": "/", "server": "s"}}), "", None),
            (json!({"csi": {"driver": "d", "volumeHandle": ""}}), "", None),
        ] {
            assert_eq!(named(&spec, zone).as_deref(), expected, "{spec} {zone}");
        }
    }

    #[test]
    fn access_modes_tell_whether_several_nodes_may_have_a_volume() {
        let csi = json!({"driver": "d", "volumeHandle": "h"});
        let gce = json!({"pdName": "disk"});
        for (kind, source, modes, expected) in [
            ("csi", &csi, &["ReadWriteOnce"][..], true),
            ("csi", &csi, &["ReadWriteOncePod"], true),
            ("csi", &csi, &["ReadWriteOnce", "ReadOnlyMany"], false),
            ("csi", &csi, &["ReadWriteMany"], false),
            ("csi", &csi, &[], false),
            ("gcePersistentDisk", &gce, &["ReadWriteMany"], true),
            ("gcePersistentDisk", &gce, &["ReadOnlyMany"], false),
        ] {
            let spec = json!({kind: source, "accessModes": modes});
            let object = View::from_json(&json!({"metadata": {"name": "pv"}, "spec": spec}));
            assert_eq!(is_exclusive(&object), expected, "{kind} {modes:?}");
        }
    }
}
