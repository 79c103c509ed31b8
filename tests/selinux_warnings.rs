//! Pods that share a volume with different SELinux labels are warned by the manager, as a process. A test plays the volume binder
//! and the kubelets.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::eventually;
use support::managed::Managed;
use support::manager::Manager;
use support::quotas::{cluster_objects, named, objects};

const FLAGS: &[&str] =
    &["--controllers=selinux-warning-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// The objects of a test.
struct World {
    managed: Managed,
    namespace: String,
    pods: Api<DynamicObject>,
    claims: Api<DynamicObject>,
    volumes: Api<DynamicObject>,
    drivers: Api<DynamicObject>,
    events: Api<Event>,
}

async fn create(api: &Api<DynamicObject>, name: &str, members: Value) -> DynamicObject {
    api.create(&PostParams::default(), &named(name, members)).await.unwrap()
}

async fn set_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// A container that mounts the volume `data` with this level.
fn container(name: &str, level: &str) -> Value {
    json!({
        "name": name, "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"seLinuxOptions": {"level": level}},
    })
}

impl World {
    async fn start() -> Self {
        let managed = Managed::start(FLAGS).await;
        let client = &managed.client;
        Self {
            namespace: managed.cluster.namespace.clone(),
            pods: objects(client, "v1/Pod"),
            claims: objects(client, "v1/PersistentVolumeClaim"),
            volumes: cluster_objects(client, "v1/PersistentVolume"),
            drivers: cluster_objects(client, "storage.k8s.io/v1/CSIDriver"),
            events: Api::default_namespaced(client.clone()),
            managed,
        }
    }

    /// The name of a cluster-wide object that no other test has.
    fn full(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    async fn driver(&self, name: &str, labels: bool) {
        create(&self.drivers, &self.full(name), json!({"spec": {"seLinuxMount": labels}})).await;
    }

    /// Creates a claim, and a volume of a driver that is bound to it.
    async fn bound_claim(&self, name: &str, driver: &str) {
        let storage = json!({"storage": "1Gi"});
        let spec = json!({
            "accessModes": ["ReadWriteMany"], "resources": {"requests": storage}, "storageClassName": "",
            "volumeName": self.full(name),
        });
        let claim = create(&self.claims, name, json!({ "spec": spec })).await;
        let reference = json!({
            "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": name,
            "uid": claim.metadata.uid.unwrap(),
        });
        let spec = json!({
            "capacity": storage, "accessModes": ["ReadWriteMany"], "claimRef": reference,
            "csi": {"driver": self.full(driver), "volumeHandle": self.full(name)},
        });
        create(&self.volumes, &self.full(name), json!({ "spec": spec })).await;
        set_status(&self.claims, name, json!({"phase": "Bound"})).await;
    }

    /// Creates a pod with these containers, and the volume `data`.
    async fn pod(&self, name: &str, containers: &[Value], volume: Value, policy: Option<&str>) {
        let mut volume = volume;
        volume["name"] = "data".into();
        let mut spec = json!({"containers": containers, "volumes": [volume]});
        if let Some(policy) = policy {
            spec["securityContext"] = json!({ "seLinuxChangePolicy": policy });
        }
        create(&self.pods, name, json!({ "spec": spec })).await;
    }

    async fn claiming_pod(&self, name: &str, level: &str, claim: &str) {
        let volume = json!({"persistentVolumeClaim": {"claimName": claim}});
        self.pod(name, &[container("c", level)], volume, None).await;
    }

    /// Waits for an event about a pod with this message, and returns its type, source and reason.
    async fn told(&self, pod: &str, message: &str) -> [String; 3] {
        eventually(&format!("{pod} has the event {message:?}"), || async {
            let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
            let events = self.events.list(&about).await.ok()?.items;
            let found = events.into_iter().find(|event| event.message.as_deref() == Some(message))?;
            Some([found.type_?, found.source?.component?, found.reason?])
        })
        .await
    }

    /// The events about a pod.
    async fn events_of(&self, pod: &str) -> usize {
        let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
        self.events.list(&about).await.unwrap().items.len()
    }

    /// Waits until the metric shows these conflicts of the test's pods: the property and both pods. Upstream's manager serves no
    /// metrics here.
    async fn shows(&self, conflicts: &[(&str, &str, &str)]) {
        if Manager::is_upstream() {
            return;
        }
        eventually(&format!("the metric shows {conflicts:?}"), || async {
            let (_, metrics) = self.managed.manager.get("/metrics").await?;
            let prefix = "selinux_warning_controller_selinux_volume_conflict{";
            let of_test = format!("pod1_namespace=\"{}\"", self.namespace);
            let lines: Vec<_> =
                metrics.lines().filter(|line| line.starts_with(prefix) && line.contains(&of_test)).collect();
            let is_shown = |(property, one, other): &(&str, &str, &str)| {
                let labels = [
                    format!("property=\"{property}\""),
                    format!("pod1_name=\"{one}\""),
                    format!("pod2_name=\"{other}\""),
                ];
                lines.iter().any(|line| labels.iter().all(|label| line.contains(label)))
            };
            (lines.len() == conflicts.len() && conflicts.iter().all(is_shown)).then_some(())
        })
        .await;
    }

    /// Deletes the cluster-wide objects, which would stay behind on a shared server.
    async fn clean_up(&self, volumes: &[&str], drivers: &[&str]) {
        let now = DeleteParams::default();
        for volume in volumes {
            self.volumes.delete(&self.full(volume), &now).await.unwrap();
        }
        for driver in drivers {
            self.drivers.delete(&self.full(driver), &now).await.unwrap();
        }
    }
}

/// Upstream's message for a pod in conflict with another one of the same namespace.
fn message(property: &str, value: &str, other: &str, other_value: &str) -> String {
    format!(
        "{property} \"{value}\" conflicts with pod {other} that uses the same volume as this pod with {property} \
         \"{other_value}\". If both pods land on the same node, only one of them may access the volume."
    )
}

#[tokio::test]
async fn pods_with_different_labels_on_one_claim_are_both_warned() {
    let world = World::start().await;
    world.driver("labels", true).await;
    // One of the pods comes before the claim is bound.
    world.claiming_pod("a", "s0:c1", "shared").await;
    world.bound_claim("shared", "labels").await;
    world.claiming_pod("b", "s0:c2", "shared").await;
    world.claiming_pod("same", "s0:c1", "shared").await;
    let expected = ["Normal", "selinux_warning", "SELinuxLabelConflict"];
    for (pod, level, other, other_level) in [
        ("a", "s0:c1", "b", "s0:c2"),
        ("b", "s0:c2", "a", "s0:c1"),
        ("same", "s0:c1", "b", "s0:c2"),
        ("b", "s0:c2", "same", "s0:c1"),
    ] {
        let message = message("SELinuxLabel", &format!(":::{level}"), other, &format!(":::{other_level}"));
        assert_eq!(world.told(pod, &message).await, expected);
    }
    let pair = |one, other| ("SELinuxLabel", one, other);
    world.shows(&[pair("a", "b"), pair("b", "a"), pair("same", "b"), pair("b", "same")]).await;
    set_status(&world.pods, "b", json!({"phase": "Succeeded"})).await;
    world.shows(&[]).await;
    world.clean_up(&["shared"], &["labels"]).await;
}

#[tokio::test]
async fn pods_are_warned_once_their_driver_mounts_with_labels() {
    let world = World::start().await;
    world.driver("learning", false).await;
    world.bound_claim("shared", "learning").await;
    world.claiming_pod("a", "s0:c1", "shared").await;
    let volume = json!({"persistentVolumeClaim": {"claimName": "shared"}});
    world.pod("b", &[container("c", "s0:c1")], volume, Some("Recursive")).await;
    // The witness shows that the controller has seen both.
    let both = [container("c", "s0:c1"), container("d", "s0:c2")];
    world.pod("witness", &both, json!({"emptyDir": {}}), None).await;
    let torn = "Volume \"data\" is mounted twice with different SELinux labels inside this pod";
    assert_eq!(world.told("witness", torn).await, ["Warning", "selinux_warning", "MultipleSELinuxLabels"]);
    assert_eq!((world.events_of("a").await, world.events_of("b").await), (0, 0));
    world.shows(&[]).await;

    let labels = Patch::Merge(json!({"spec": {"seLinuxMount": true}}));
    world.drivers.patch(&world.full("learning"), &PatchParams::default(), &labels).await.unwrap();
    let policy = message("SELinuxChangePolicy", "MountOption", "b", "Recursive");
    assert_eq!(world.told("a", &policy).await, ["Normal", "selinux_warning", "SELinuxChangePolicyConflict"]);
    world.told("b", &message("SELinuxLabel", "", "a", ":::s0:c1")).await;
    let conflict = |property| [(property, "a", "b"), (property, "b", "a")];
    world.shows(&[conflict("SELinuxLabel"), conflict("SELinuxChangePolicy")].concat()).await;

    // Without the driver's object, it mounts without labels.
    world.clean_up(&["shared"], &["learning"]).await;
    world.shows(&[]).await;
}
