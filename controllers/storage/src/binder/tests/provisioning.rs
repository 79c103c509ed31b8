//! Claims of classes: provisioners, and the wait for the first consumer.

use serde_json::{Value, json};

use super::super::claim_plan::Class;
use super::world::{World, external};

fn gold() -> Value {
    json!({"spec": {"storageClassName": "gold"}})
}

fn world(provisioner: &str) -> World {
    World::new().class("gold", external(provisioner)).claim("c", &gold())
}

#[test]
fn an_external_provisioner_is_asked_in_both_spellings() {
    let mut world = world("example.com/disks");
    let (claim, log) = world.sync_claim("c");
    assert_eq!(log, ["provision by example.com/disks", "claim", "Normal ExternalProvisioning"]);
    let annotations = json!({
        "volume.kubernetes.io/storage-provisioner": "example.com/disks",
        "volume.beta.kubernetes.io/storage-provisioner": "example.com/disks",
    });
    assert_eq!(claim["metadata"]["annotations"], annotations);
    let message = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually \
                   by the system administrator. If volume creation is delayed, please verify that the provisioner is \
                   running and correctly registered.";
    assert_eq!(world.messages, [message]);
    assert_eq!(world.sync_claim("c").1, ["provision by example.com/disks", "Normal ExternalProvisioning"]);
}

#[test]
fn who_provisions_depends_on_the_class() {
    let failed = ["Warning ProvisioningFailed"].as_slice();
    for (provisioner, log, message) in [
        (
            "kubernetes.io/no-provisioner",
            failed,
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        ("kubernetes.io/glusterfs", failed, "no volume plugin matched name: kubernetes.io/glusterfs"),
        ("kubernetes.io/nfs", failed, "no provisionable volume plugin matched"),
        (
            "kubernetes.io/host-path",
            &["provision by kubernetes.io/host-path", "claim", "Warning ProvisioningFailed"],
            "Failed to create provisioner: provisioning in volume plugin \"kubernetes.io/host-path\" is disabled",
        ),
    ] {
        let mut world = world(provisioner);
        assert_eq!(world.sync_claim("c").1, log, "{provisioner}");
        assert_eq!(world.messages, [message], "{provisioner}");
    }
    let mut migrated = world("kubernetes.io/gce-pd");
    let (claim, _) = migrated.sync_claim("c");
    let driver = &claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"];
    assert_eq!(driver, "pd.csi.storage.gke.io");
    let mut missing = World::new().claim("c", &gold());
    assert_eq!(missing.sync_claim("c").1, failed);
    assert_eq!(missing.messages, ["storageclass.storage.k8s.io \"gold\" not found"]);
    let mut off = world("example.com/disks");
    off.settings.dynamic_provisioning = false;
    assert_eq!(off.sync_claim("c").1, [""; 0]);
}

#[test]
fn a_claim_tells_which_driver_replaced_its_plugin() {
    let annotated = |provisioner: &str, driver: Option<&str>| {
        json!({
            "metadata": {"annotations": {
                "volume.kubernetes.io/storage-provisioner": provisioner, "pv.kubernetes.io/migrated-to": driver,
            }},
            "spec": {"volumeName": "w"},
        })
    };
    for (provisioner, before, after) in [
        ("kubernetes.io/aws-ebs", None, json!("ebs.csi.aws.com")),
        ("kubernetes.io/aws-ebs", Some("old"), json!("ebs.csi.aws.com")),
        ("kubernetes.io/aws-ebs", Some("ebs.csi.aws.com"), json!("ebs.csi.aws.com")),
        ("example.com/disks", Some("old"), Value::Null),
        ("example.com/disks", None, Value::Null),
    ] {
        let (claim, log) = World::new().claim("c", &annotated(provisioner, before)).sync_claim("c");
        let found = &claim["metadata"]["annotations"]["pv.kubernetes.io/migrated-to"];
        assert_eq!(found, &after, "{provisioner} {before:?}");
        assert_eq!(log.len(), usize::from(json!(before) != after), "{provisioner} {before:?}");
    }
}

#[test]
fn a_claim_waits_for_its_first_consumer() {
    let waiting = |pods: &[&str], node: Option<&str>, volume: &Value| {
        let class = Class { waits_for_first_consumer: Some(true), ..external("example.com/disks") };
        let mut claim = gold();
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!(node);
        let mut volume = volume.clone();
        volume["spec"]["storageClassName"] = "gold".into();
        let mut world = World::new().class("gold", class).claim("c", &claim).volume("v", &volume);
        world.pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        let log = world.sync_claim("c").1;
        (log.join(", "), world.messages.pop().unwrap_or_default())
    };
    let none = json!({});
    let expect = |log: &str, message: &str| (log.to_owned(), message.to_owned());
    assert_eq!(
        waiting(&[], None, &none),
        expect("Normal WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    );
    assert_eq!(
        waiting(&["a"], None, &none),
        expect("Normal WaitForPodScheduled", "waiting for pod a to be scheduled")
    );
    assert_eq!(
        waiting(&["a", "b"], None, &none),
        expect("Normal WaitForPodScheduled", "waiting for pods a,b to be scheduled")
    );
    let reserved = json!({"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}}});
    assert_eq!(
        waiting(&[], None, &reserved).0,
        "Bound, claim, claim Bound",
        "the scheduler reserved a volume"
    );
    let (log, message) = waiting(&["a"], Some("n1"), &none);
    assert_eq!(log, "provision by example.com/disks, claim, Normal ExternalProvisioning");
    assert!(message.starts_with("Waiting for a volume to be created either by"), "{message}");
}

#[test]
fn a_provisioned_volume_is_bound() {
    let volume = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "example.com/disks"}},
        "spec": {
            "storageClassName": "gold", "csi": {"driver": "example.com/disks", "volumeHandle": "h"},
            "claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}, "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Pending"},
    });
    let mut world = world("example.com/disks").volume("v", &volume);
    assert_eq!(world.sync_volume("v").1, ["sync claim"]);
    let (claim, log) = world.sync_claim("c");
    assert_eq!(log, ["Bound", "claim", "claim Bound"]);
    assert_eq!(claim["spec"]["volumeName"], "v");
    let annotations = &world.volumes["v"]["metadata"]["annotations"];
    assert_eq!(annotations.as_object().unwrap().len(), 1, "the provisioner bound it");
}
