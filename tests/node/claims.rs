//! Volumes of pods that are claims. No controller binds claims here: the tests do.

use std::path::Path;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::pods::{Pods, phase_of, shell, staying};
use support::until;

/// A volume of this run's own, with members of its spec.
async fn volume(pods: &Pods, claim: &str, members: Value) -> PersistentVolume {
    let mut spec = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": { "namespace": pods.namespace, "name": claim },
    });
    spec.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let volume = json!({ "metadata": { "name": format!("{}-{claim}", pods.namespace) }, "spec": spec });
    let volume = serde_json::from_value(volume).expect("it is a volume");
    volumes(pods).create(&PostParams::default(), &volume).await.expect("a volume must be made")
}

fn volumes(pods: &Pods) -> Api<PersistentVolume> {
    Api::all(pods.world.client(&pods.namespace))
}

/// A claim to that volume. It is not bound.
async fn claim(pods: &Pods, name: &str, volume: &PersistentVolume) {
    let mode = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    let claim = json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume.metadata.name,
        "volumeMode": mode, "resources": { "requests": { "storage": "1Gi" } },
    } });
    pods.make::<PersistentVolumeClaim>(claim).await;
}

/// Writes what the binder writes, in its order.
async fn bind(pods: &Pods, name: &str) {
    let (claims, parameters) = (pods.api::<PersistentVolumeClaim>(), PatchParams::default());
    let uid = claims.get(name).await.unwrap().metadata.uid;
    let reference = Patch::Merge(json!({ "spec": { "claimRef": { "uid": uid } } }));
    volumes(pods).patch(&format!("{}-{name}", pods.namespace), &parameters, &reference).await.unwrap();
    let bound = Patch::Merge(json!({ "status": {
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
    } }));
    claims.patch_status(name, &parameters, &bound).await.unwrap();
}

async fn bound_claim(pods: &Pods, name: &str, members: Value) {
    let volume = volume(pods, name, members).await;
    claim(pods, name, &volume).await;
    bind(pods, name).await;
}

/// A local volume in that folder, which only nodes with that name have.
fn local(path: &Path, node: &str) -> Value {
    let terms = json!([{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] } ] }]);
    json!({ "local": { "path": path }, "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } })
}

/// Members of a pod's spec: the claim as its volume `data`.
fn claiming(claim: &str) -> Value {
    json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] })
}

/// Members of a container.
fn mounting() -> Value {
    json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] })
}

pub async fn what_a_pod_writes_to_its_claim_is_there_for_the_next(pods: Pods) {
    let (host, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    bound_claim(&pods, "host", json!({ "hostPath": { "path": host.path(), "type": "Directory" } })).await;
    bound_claim(&pods, "disk", local(disk.path(), &pods.world.agent.node)).await;
    for (name, folder) in [("host", &host), ("disk", &disk)] {
        pods.output("echo one >>/data/file", mounting(), claiming(name)).await;
        assert_eq!(pods.output("cat /data/file", mounting(), claiming(name)).await, "one\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "one\n");
    }
    pods.delete_all().await;
    let (root, mounts) = (pods.world.agent.root(), || std::fs::read_to_string("/proc/self/mounts").unwrap());
    let disk_of_pods = format!("{}/pods/", root.display());
    until("no pod has the disk mounted", || {
        !mounts()
            .lines()
            .any(|line| line.contains(&disk_of_pods) && line.contains("kubernetes.io~local-volume"))
    })
    .await;
    assert_eq!(std::fs::read_to_string(disk.path().join("file")).unwrap(), "one\n");
}

pub async fn a_pod_waits_for_its_claim_to_be_bound(pods: Pods) {
    let host = tempfile::tempdir().unwrap();
    let volume = volume(&pods, "late", json!({ "hostPath": { "path": host.path() } })).await;
    claim(&pods, "late", &volume).await;
    let mut spec = claiming("late");
    let mut container = staying();
    container["volumeMounts"] = mounting()["volumeMounts"].clone();
    spec["containers"] = json!([container]);
    pods.run("waits", spec).await;
    let told = pods.event("waits", "FailedMount").await;
    let namespace = &pods.namespace;
    let expected = format!(
        "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
         volumes=[data]: error processing PVC {namespace}/late: PVC is not bound"
    );
    assert_eq!(told, expected);
    assert_eq!(phase_of(&pods.get("waits").await.unwrap()), "Pending");
    bind(&pods, "late").await;
    pods.ready("waits").await;
}

pub async fn a_local_volume_belongs_to_the_pods_group(pods: Pods) {
    let disk = tempfile::tempdir().unwrap();
    std::fs::write(disk.path().join("old"), "x").unwrap();
    bound_claim(&pods, "shared", local(disk.path(), &pods.world.agent.node)).await;
    let mut spec = claiming("shared");
    spec["securityContext"] = json!({ "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345 });
    let container = json!({ "volumeMounts": [
        { "name": "data", "mountPath": "/data" }, { "name": "data", "mountPath": "/part", "subPath": "some/where" } ] });
    let said = pods
        .output(
            "stat -c %g /data /data/old; echo y >>/data/old; echo z >/part/new; stat -c %g /part/new; cat /data/some/where/new",
            container,
            spec,
        )
        .await;
    assert_eq!(said, "2345\n2345\n2345\nz\n");
    assert_eq!(std::fs::read_to_string(disk.path().join("old")).unwrap(), "xy\n");
}

pub async fn a_claim_to_be_read_only_takes_no_writes(pods: Pods) {
    let disk = tempfile::tempdir().unwrap();
    std::fs::write(disk.path().join("file"), "data").unwrap();
    bound_claim(&pods, "still", local(disk.path(), &pods.world.agent.node)).await;
    let mut spec = claiming("still");
    spec["volumes"][0]["persistentVolumeClaim"]["readOnly"] = json!(true);
    let said =
        pods.output("cat /data/file; touch /data/new 2>/dev/null || echo refused", mounting(), spec).await;
    assert_eq!(said, "datarefused\n");
}

pub async fn what_the_node_can_not_mount_is_told_by_an_event(pods: Pods) {
    let disk = tempfile::tempdir().unwrap();
    let unsupported = |name: &str, kind: &str| {
        format!(
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
             volumes=[data]: volume \"data\", which is PersistentVolume \"{}-{name}\", is of kind {kind}, which this node \
             does not support",
            pods.namespace
        )
    };
    let own = |name: &str| format!("{}-{name}", pods.namespace);
    let mut device = local(disk.path(), &pods.world.agent.node);
    device["volumeMode"] = json!("Block");
    let device_container = json!({ "volumeDevices": [{ "name": "data", "devicePath": "/dev/data" }] });
    for (name, members, container, expected) in [
        (
            "elsewhere",
            local(disk.path(), "another-node"),
            mounting(),
            format!(
                "MountVolume.NodeAffinity check failed for volume {:?} : no matching NodeSelectorTerms",
                own("elsewhere")
            ),
        ),
        (
            "missing",
            local(Path::new("/none/at/all"), &pods.world.agent.node),
            mounting(),
            format!(
                "MountVolume.NewMounter initialization failed for volume {:?} : path \"/none/at/all\" does not exist",
                own("missing")
            ),
        ),
        (
            "driven",
            json!({ "csi": { "driver": "d", "volumeHandle": "h" } }),
            mounting(),
            unsupported("driven", "csi"),
        ),
        ("device", device, device_container, unsupported("device", "block device")),
    ] {
        bound_claim(&pods, name, members).await;
        let mut spec = claiming(name);
        let mut container = container;
        container["command"] = shell("true");
        spec["containers"] = json!([container]);
        pods.run(name, spec).await;
        assert_eq!(pods.event(name, "FailedMount").await, expected);
        assert_eq!(phase_of(&pods.get(name).await.unwrap()), "Pending");
    }
}

pub async fn a_local_volume_stays_mounted_while_the_agent_is_away(pods: Pods) {
    let disk = tempfile::tempdir().unwrap();
    bound_claim(&pods, "stays", local(disk.path(), &pods.world.agent.node)).await;
    bound_claim(&pods, "goes", local(disk.path(), &pods.world.agent.node)).await;
    for name in ["stays", "goes"] {
        let mut spec = claiming(name);
        let mut container = staying();
        container["volumeMounts"] = mounting()["volumeMounts"].clone();
        spec["containers"] = json!([container]);
        pods.run(name, spec).await;
        pods.ready(name).await;
    }
    pods.exec("stays", "echo before >/data/file").await;
    let agent = &pods.world.agent;
    agent.stop().await;
    pods.delete("goes").await;
    agent.start();
    pods.gone("goes").await;
    pods.exec("stays", "echo after >>/data/file").await;
    assert_eq!(std::fs::read_to_string(disk.path().join("file")).unwrap(), "before\nafter\n");
    pods.delete("stays").await;
    pods.gone("stays").await;
    assert_eq!(std::fs::read_to_string(disk.path().join("file")).unwrap(), "before\nafter\n");
}
