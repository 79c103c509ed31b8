//! ReplicaSets and ReplicationControllers, whose controllers keep a number of pods, and a kubelet's part in it: marking
//! those pods.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{eventually, patience};

/// A kind whose controller keeps a number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ReplicaSet,
    ReplicationController,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ReplicaSet, Self::ReplicationController];

    /// The kind's name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    /// The group and version in owner references.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ReplicaSet => "apps/v1",
            Self::ReplicationController => "v1",
        }
    }

    /// The component that is the source of the controller's events.
    pub fn component(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
        }
    }

    fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            Self::ReplicaSet => ("apps", "replicasets"),
            Self::ReplicationController => ("", "replicationcontrollers"),
        };
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: self.api_version().to_owned(),
            kind: self.name().to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// An owner of this kind as JSON. Its pods have the label `app` with the name as value, by which it selects them.
    pub fn manifest(self, name: &str, replicas: u32) -> Value {
        let labels = json!({ "app": name });
        let selector = match self {
            Self::ReplicaSet => json!({ "matchLabels": labels }),
            Self::ReplicationController => labels.clone(),
        };
        json!({
            "apiVersion": self.api_version(), "kind": self.name(),
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
                },
            },
        })
    }
}

/// A ReplicaSet or ReplicationController at the API server.
#[derive(Clone)]
pub struct Owner {
    pub kind: Kind,
    pub name: String,
    pub uid: String,
    pub api: Api<DynamicObject>,
    pub pods: Api<Pod>,
    client: kube::Client,
}

impl Owner {
    /// Creates one that wants `replicas` pods.
    pub async fn create(client: &kube::Client, kind: Kind, name: &str, replicas: u32) -> Self {
        Self::create_from(client, kind, kind.manifest(name, replicas)).await
    }

    /// Creates one from a [manifest](Kind::manifest).
    pub async fn create_from(client: &kube::Client, kind: Kind, manifest: Value) -> Self {
        let api = Api::<DynamicObject>::default_namespaced_with(client.clone(), &kind.resource());
        let object = serde_json::from_value(manifest).expect("a manifest is an object");
        let created = api.create(&PostParams::default(), &object).await.expect("an owner must be made");
        Self {
            kind,
            name: created.metadata.name.expect("a created object has a name"),
            uid: created.metadata.uid.expect("a created object has a uid"),
            api,
            pods: Api::default_namespaced(client.clone()),
            client: client.clone(),
        }
    }

    /// The owner's current state.
    pub async fn get(&self) -> DynamicObject {
        self.api.get(&self.name).await.expect("the owner must be there")
    }

    /// Applies a merge patch to the owner.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("an owner must be patched");
    }

    /// Sets the wanted number of pods.
    pub async fn scale(&self, replicas: u32) {
        self.patch(json!({ "spec": { "replicas": replicas } })).await;
    }

    /// Asks for the owner's deletion.
    pub async fn delete(&self, policy: PropagationPolicy) {
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.api.delete(&self.name, &params).await.expect("an owner must be deleted");
    }

    /// All pods with the label that the owner selects.
    pub async fn labelled(&self) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={}", self.name));
        self.pods.list(&params).await.expect("pods must be listed").items
    }

    /// The pods of the namespace that the owner controls and that are neither finished nor being deleted.
    pub async fn active(&self) -> Vec<Pod> {
        let mut pods = self.pods.list(&ListParams::default()).await.expect("pods must be listed").items;
        pods.retain(|pod| self.controls(pod) && is_active(pod));
        pods
    }

    /// Whether the pod's managing owner is this one.
    pub fn controls(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == self.uid)
    }

    /// Waits until the owner has `count` active pods and no more are wanted, and gives their names.
    pub async fn has(&self, count: usize) -> Vec<String> {
        let what = format!("{} {} has {count} pods", self.kind.name(), self.name);
        let pods = eventually(&what, || async {
            let pods = self.active().await;
            (pods.len() == count).then_some(pods)
        })
        .await;
        pods.iter().map(name_of).collect()
    }

    /// Waits until the status describes the current generation and has these fields. A field that is absent from the
    /// status counts as zero, since the API server leaves out zeros.
    pub async fn reports(&self, fields: Value) -> DynamicObject {
        let expected = fields.as_object().expect("the fields of a status are an object");
        let mut last = Value::Null;
        let wait = async {
            loop {
                let owner = self.get().await;
                last = owner.data["status"].clone();
                let field = |name: &str| last.get(name).cloned().unwrap_or(json!(0));
                let observed = field("observedGeneration") == json!(owner.metadata.generation);
                if observed && expected.iter().all(|(name, value)| field(name) == *value) {
                    return owner;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let reported = timeout(patience(), wait).await.ok();
        reported.unwrap_or_else(|| {
            panic!("waited in vain: {} {} reports {fields}; it reports {last}", self.kind.name(), self.name)
        })
    }

    /// The condition `ReplicaFailure` of the status.
    pub async fn failure(&self) -> Option<Value> {
        let conditions = self.get().await.data["status"]["conditions"].clone();
        conditions.as_array()?.iter().find(|condition| condition["type"] == "ReplicaFailure").cloned()
    }

    /// Waits for an event about the owner with this reason and message, and gives it.
    pub async fn event(&self, reason: &str, message: &str) -> Event {
        let events = Api::<Event>::default_namespaced(self.client.clone());
        eventually(
            &format!("{} {} has the event {reason}: {message}", self.kind.name(), self.name),
            || async {
                let events = events.list(&ListParams::default()).await.ok()?.items;
                events.into_iter().find(|event| {
                    event.involved_object.uid.as_ref() == Some(&self.uid)
                        && event.reason.as_deref() == Some(reason)
                        && event.message.as_ref().is_some_and(|text| text.starts_with(message))
                })
            },
        )
        .await
    }

    /// Sets the pod's phase and its condition `Ready`, since now.
    pub async fn mark(&self, pod: &str, phase: &str, ready: &str) {
        self.mark_since(pod, phase, ready, &steersman_api::Time::now()).await;
    }

    /// Sets the pod's phase and its condition `Ready` with that time of transition.
    pub async fn mark_since(&self, pod: &str, phase: &str, ready: &str, since: &steersman_api::Time) {
        mark(&self.pods, pod, phase, ready, since).await;
    }

    /// Applies a merge patch to a pod.
    pub async fn patch_pod(&self, pod: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.pods.patch(pod, &PatchParams::default(), &patch).await.expect("a pod must be patched");
    }

    /// Creates a pod by hand with the label that the owner selects, and `metadata` besides.
    pub async fn create_pod(&self, name: &str, metadata: Value) {
        create_pod(&self.pods, &self.name, name, metadata).await;
    }

    /// The names and versions of the owner and of all its pods.
    pub async fn versions(&self) -> BTreeSet<(String, String)> {
        let version = |name: &Option<String>, version: &Option<String>| {
            (name.clone().unwrap_or_default(), version.clone().unwrap_or_default())
        };
        let owner = self.get().await.metadata;
        let mut versions = BTreeSet::from([version(&owner.name, &owner.resource_version)]);
        let pods = self.labelled().await;
        versions.extend(pods.iter().map(|pod| version(&pod.metadata.name, &pod.metadata.resource_version)));
        versions
    }
}

/// Creates a pod by hand with the value `app` of the label `app`, and `metadata` besides.
pub async fn create_pod(pods: &Api<Pod>, app: &str, name: &str, metadata: Value) {
    let mut pod = json!({
        "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
    });
    for (field, value) in metadata.as_object().expect("metadata is an object") {
        pod["metadata"][field] = value.clone();
    }
    let pod = serde_json::from_value(pod).expect("it is a pod");
    pods.create(&PostParams::default(), &pod).await.expect("a pod must be made");
}

/// Sets the pod's phase and its condition `Ready` with that time of transition, as its kubelet does.
pub async fn mark(pods: &Api<Pod>, pod: &str, phase: &str, ready: &str, since: &steersman_api::Time) {
    let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": since });
    let status = Patch::Merge(json!({ "status": { "phase": phase, "conditions": [condition] } }));
    pods.patch_status(pod, &PatchParams::default(), &status).await.expect("a pod must be marked");
}

/// The pod's name.
pub fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().expect("a pod has a name")
}

/// Whether the pod is neither finished nor being deleted.
pub fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the pod's condition `Ready` is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The image of the pod's container.
pub fn image_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref()).unwrap_or_default()
}
