//! Claims, volumes and storage classes of one test.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, eventually};

/// The storage of one test. The names of its volumes and classes begin with the test's namespace, so that tests on one server
/// do not disturb each other.
pub struct Storage {
    prefix: String,
    client: kube::Client,
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
    classes: Api<StorageClass>,
}

fn json_of<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).expect("an object must be serializable as JSON")
}

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("the JSON of a test must be an object of the kind")
}

/// The object with the parts that matter to a test over the usual ones. A part that is null removes the usual one.
fn merged(object: Value, parts: &Value) -> Value {
    match (object, parts) {
        (Value::Object(mut members), Value::Object(parts)) => {
            for (name, part) in parts {
                let usual = members.remove(name).unwrap_or_default();
                if !part.is_null() {
                    members.insert(name.clone(), merged(usual, part));
                }
            }
            Value::Object(members)
        }
        (_, parts) => parts.clone(),
    }
}

/// The text of a name in an object.
pub fn named(name: &Value) -> String {
    name.as_str().expect("a name must be a text").to_owned()
}

impl Storage {
    pub fn new(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self {
            prefix: cluster.namespace.clone(),
            claims: Api::default_namespaced(client.clone()),
            volumes: Api::all(client.clone()),
            classes: Api::all(client.clone()),
            client,
        }
    }

    /// The full name of a volume or a class of this test.
    pub fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Creates a volume of 10Gi that one node may use at a time, of a class that only this test uses.
    pub async fn volume(&self, name: &str, parts: Value) {
        let mut volume = json!({
            "metadata": {"name": self.name(name)},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": self.prefix,
                "persistentVolumeReclaimPolicy": "Retain",
            },
        });
        volume = merged(volume, &parts);
        if ["csi", "nfs"].iter().all(|source| volume["spec"][source].is_null()) {
            volume["spec"]["hostPath"] = json!({"path": "/data"});
        }
        self.volumes.create(&PostParams::default(), &typed(volume)).await.unwrap();
    }

    /// Creates a claim of 1Gi for the volumes of this test.
    pub async fn claim(&self, name: &str, parts: Value) {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": self.prefix,
            },
        });
        self.claims.create(&PostParams::default(), &typed(merged(claim, &parts))).await.unwrap();
    }

    /// Creates a storage class.
    pub async fn class(&self, name: &str, parts: Value) {
        let class = json!({"metadata": {"name": self.name(name)}, "provisioner": "example.com/disks"});
        self.classes.create(&PostParams::default(), &typed(merged(class, &parts))).await.unwrap();
    }

    pub async fn delete_class(&self, name: &str) {
        self.classes.delete(&self.name(name), &DeleteParams::default()).await.unwrap();
    }

    /// Creates a pod that uses a claim.
    pub async fn pod(&self, name: &str, claim: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "containers": [{"name": "main", "image": "busybox"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }});
        let pods = Api::<Pod>::default_namespaced(self.client.clone());
        pods.create(&PostParams::default(), &typed(pod)).await.unwrap();
    }

    /// What reserves a volume for a claim.
    pub fn reserved_for(&self, claim: &str) -> Value {
        json!({"spec": {"claimRef": {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.prefix, "name": claim,
        }}})
    }

    /// Creates a volume as an external provisioner does.
    pub async fn provision(&self, claim: &Value, name: &str, class: &str) {
        let mut volume = self.reserved_for(&named(&claim["metadata"]["name"]));
        volume["metadata"] = json!({"annotations": {"pv.kubernetes.io/provisioned-by": "example.com/disks"}});
        volume["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"].clone();
        volume["spec"]["storageClassName"] = self.name(class).into();
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into();
        volume["spec"]["csi"] = json!({"driver": "example.com", "volumeHandle": name});
        self.volume(name, volume).await;
    }

    pub async fn get_claim(&self, name: &str) -> Value {
        json_of(&self.claims.get(name).await.unwrap())
    }

    pub async fn get_volume(&self, name: &str) -> Value {
        self.volume_of(&self.name(name)).await
    }

    /// The volume of this full name.
    pub async fn volume_of(&self, name: &str) -> Value {
        json_of(&self.volumes.get(name).await.unwrap())
    }

    /// The versions of the first claims `c0`, `c1`, ... and volumes `v0`, `v1`, ...
    pub async fn versions(&self, count: usize) -> Vec<Value> {
        let mut versions = Vec::new();
        for number in 0..count {
            for object in
                [self.get_claim(&format!("c{number}")).await, self.get_volume(&format!("v{number}")).await]
            {
                versions.push(object["metadata"]["resourceVersion"].clone());
            }
        }
        versions
    }

    pub async fn patch_volume(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.volumes.patch(&self.name(name), &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn patch_claim(&self, name: &str, patch: Value) {
        self.claims.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Deletes a claim as the protection controller lets it go.
    pub async fn delete_claim(&self, name: &str) {
        self.patch_claim(name, json!({"metadata": {"finalizers": null}})).await;
        self.claims.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a volume as the protection controller and the provisioner let it go.
    pub async fn delete_volume(&self, name: &str) {
        self.patch_volume(name, json!({"metadata": {"finalizers": null}})).await;
        self.volumes.delete(&self.name(name), &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a claim is in a phase.
    pub async fn claim_phase(&self, name: &str, phase: &str) -> Value {
        eventually(&format!("claim {name} is {phase}"), || async {
            let claim = self.get_claim(name).await;
            (claim["status"]["phase"] == phase).then_some(claim)
        })
        .await
    }

    /// Waits until a volume is in a phase.
    pub async fn volume_phase(&self, name: &str, phase: &str) -> Value {
        eventually(&format!("volume {name} is {phase}"), || async {
            let volume = self.get_volume(name).await;
            (volume["status"]["phase"] == phase).then_some(volume)
        })
        .await
    }

    /// Waits until a claim asks a provisioner for a volume, in both spellings.
    pub async fn asked(&self, name: &str, provisioner: &str) {
        eventually(&format!("claim {name} asks {provisioner}"), || async {
            let annotations = self.get_claim(name).await["metadata"]["annotations"].clone();
            let keys =
                ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];
            keys.iter().all(|key| annotations[key] == provisioner).then_some(())
        })
        .await;
    }

    /// Waits for an event about a claim.
    pub async fn event(&self, claim: &str, reason: &str, message: &str) {
        self.event_in(&self.prefix, claim, reason, message).await;
    }

    /// Waits for an event about a volume.
    pub async fn volume_event(&self, volume: &str, reason: &str, message: &str) {
        self.event_in("default", &self.name(volume), reason, message).await;
    }

    async fn event_in(&self, namespace: &str, object: &str, reason: &str, message: &str) {
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        eventually(&format!("{object} has the event {reason}: {message}"), || async {
            let events = events.list(&ListParams::default()).await.ok()?.items;
            let is_it = |event: &Event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
                    && event.source.as_ref().is_some_and(|source| {
                        source.component.as_deref() == Some("persistentvolume-controller")
                    })
            };
            events.iter().any(is_it).then_some(())
        })
        .await;
    }
}
