//! Volumes of a CSI driver, with the test as external attacher and as kubelet.

use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Cluster, eventually};

/// The driver of all volumes, unless a test names another one.
pub const DRIVER: &str = "attach.example.com";
/// The finalizer that the external attacher of [`DRIVER`] puts on attachments.
const FINALIZER: &str = "external-attacher/attach-example-com";

/// The objects that the attach-detach controller reads and writes. Names of cluster-scoped objects begin with the name of
/// the test's namespace.
pub struct Attachments {
    pub namespace: String,
    pub nodes: Api<Node>,
    pub pods: Api<Pod>,
    pub volumes: Api<PersistentVolume>,
    pub claims: Api<PersistentVolumeClaim>,
    pub attachments: Api<VolumeAttachment>,
    pub drivers: Api<CSIDriver>,
    pub events: Api<Event>,
}

fn make<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object of a test must be one of its kind")
}

impl Attachments {
    pub fn of(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self {
            namespace: cluster.namespace.clone(),
            nodes: Api::all(client.clone()),
            pods: Api::default_namespaced(client.clone()),
            volumes: Api::all(client.clone()),
            claims: Api::default_namespaced(client.clone()),
            attachments: Api::all(client.clone()),
            drivers: Api::all(client.clone()),
            events: Api::default_namespaced(client),
        }
    }

    /// The full name of a node or PersistentVolume.
    pub fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// The unique name of a volume in the status of nodes.
    pub fn unique(&self, volume: &str) -> String {
        format!("kubernetes.io/csi/{DRIVER}^{}", self.handle(volume))
    }

    pub fn handle(&self, volume: &str) -> String {
        format!("handle-of-{}", self.full(volume))
    }

    /// Creates a node that is ready, and leaves it to the controller to attach volumes.
    pub async fn node(&self, name: &str) {
        self.node_with(name, json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"})).await;
    }

    pub async fn node_with(&self, name: &str, annotations: Value) {
        let node = json!({"metadata": {"name": self.full(name), "annotations": annotations}});
        self.nodes.create(&PostParams::default(), &make(node)).await.expect("a node must be made");
        self.ready(name, true).await;
    }

    pub async fn ready(&self, node: &str, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        self.node_status(node, json!({"conditions": [{"type": "Ready", "status": status}]})).await;
    }

    /// Reports, as the node's kubelet, which volumes the node uses.
    pub async fn uses(&self, node: &str, volumes: &[&str]) {
        let in_use: Vec<_> = volumes.iter().map(|volume| self.unique(volume)).collect();
        let in_use: Vec<_> = in_use.iter().map(String::as_str).collect();
        self.uses_names(node, &in_use).await;
    }

    /// As [`uses`](Self::uses), with the unique names of the volumes.
    pub async fn uses_names(&self, node: &str, volumes: &[&str]) {
        self.node_status(node, json!({"volumesInUse": volumes})).await;
    }

    async fn node_status(&self, node: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self.nodes.patch_status(&self.full(node), &PatchParams::default(), &patch).await;
        patched.expect("a node's status must be written");
    }

    /// Creates a PersistentVolume of [`DRIVER`], and a claim that is bound to it and has its short name.
    pub async fn volume(&self, name: &str, mode: &str) {
        let source = json!({"driver": DRIVER, "volumeHandle": self.handle(name)});
        self.volume_of(name, mode, json!({"csi": source})).await;
    }

    pub async fn volume_of(&self, name: &str, mode: &str, source: Value) {
        let spec = json!({"accessModes": [mode], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": self.full(name)});
        let claim = json!({"metadata": {"name": name}, "spec": spec});
        let claim =
            self.claims.create(&PostParams::default(), &make(claim)).await.expect("a claim must be made");
        let mut spec = json!({
            "accessModes": [mode], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.namespace, "name": name,
                "uid": claim.metadata.uid},
        });
        spec.as_object_mut().expect("it is an object").extend(source.as_object().expect("it is one").clone());
        let volume = json!({"metadata": {"name": self.full(name)}, "spec": spec});
        self.volumes.create(&PostParams::default(), &make(volume)).await.expect("a volume must be made");
        let bound = Patch::Merge(
            json!({"status": {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": "1Gi"}}}),
        );
        self.claims.patch_status(name, &PatchParams::default(), &bound).await.expect("a claim must be bound");
    }

    /// Creates a pod on a node, with these claims.
    pub async fn pod(&self, name: &str, node: &str, claims: &[&str]) {
        let volumes: Vec<_> = claims
            .iter()
            .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        self.pod_with(name, node, volumes).await;
    }

    pub async fn pod_with(&self, name: &str, node: &str, volumes: Vec<Value>) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": self.full(node), "containers": [{"name": "c", "image": "i"}], "volumes": volumes},
        });
        self.pods.create(&PostParams::default(), &make(pod)).await.expect("a pod must be made");
    }

    /// Removes a pod at once.
    pub async fn end(&self, pod: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods.delete(pod, &now).await.expect("a pod must be deleted");
    }

    /// The attachment of a PersistentVolume to a node.
    pub async fn find(&self, volume: &str, node: &str) -> Option<VolumeAttachment> {
        let (volume, node) = (self.full(volume), self.full(node));
        let all = self.attachments.list(&ListParams::default()).await.ok()?.items;
        let is_it = |one: &VolumeAttachment| {
            one.spec.node_name == node && one.spec.source.persistent_volume_name.as_ref() == Some(&volume)
        };
        all.into_iter().find(is_it)
    }

    /// Waits for the attachment of a volume to a node.
    pub async fn is_asked(&self, volume: &str, node: &str) -> VolumeAttachment {
        eventually(&format!("{volume} is to be attached to {node}"), || self.find(volume, node)).await
    }

    /// Attaches the volume, as the external attacher.
    pub async fn attach(&self, volume: &str, node: &str) -> String {
        let attachment = self.is_asked(volume, node).await;
        let name = attachment.metadata.name.expect("an attachment must have a name");
        let hold = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
        self.attachments.patch(&name, &PatchParams::default(), &hold).await.expect("it must be held");
        self.report(&name, json!({"attached": true, "attachError": null})).await;
        name
    }

    pub async fn report(&self, attachment: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self.attachments.patch_status(attachment, &PatchParams::default(), &patch).await;
        patched.expect("an attachment's status must be written");
    }

    /// Waits until the attachment is deleted, and detaches the volume, as the external attacher.
    pub async fn detach(&self, volume: &str, node: &str) {
        eventually(&format!("{volume} is to be detached from {node}"), || async {
            self.find(volume, node).await?.metadata.deletion_timestamp.map(drop)
        })
        .await;
        self.let_go(volume, node).await;
    }

    pub async fn let_go(&self, volume: &str, node: &str) {
        let Some(found) = self.find(volume, node).await else { return };
        let name = found.metadata.name.expect("an attachment must have a name");
        self.report(&name, json!({"attached": false})).await;
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.attachments.patch(&name, &PatchParams::default(), &free).await.expect("it must be let go");
    }

    /// The short names of the volumes that a node lists as attached, sorted.
    pub async fn listed(&self, node: &str) -> Option<Vec<String>> {
        let node = self.nodes.get(&self.full(node)).await.ok()?;
        let all = node.status.and_then(|status| status.volumes_attached).unwrap_or_default();
        let prefix = self.unique("");
        let mut names: Vec<_> =
            all.iter().map(|one| one.name.strip_prefix(&prefix).unwrap_or(&one.name).to_owned()).collect();
        names.sort();
        Some(names)
    }

    /// Waits until a node lists these volumes as attached.
    pub async fn lists(&self, node: &str, volumes: &[&str]) {
        eventually(&format!("{node} lists {volumes:?}"), || async {
            (self.listed(node).await? == volumes).then_some(())
        })
        .await;
    }

    /// Waits for this event of a pod.
    pub async fn told(&self, pod: &str, kind: &str, reason: &str, message: &str) {
        eventually(&format!("{pod} is told {reason}: {message:?}"), || async {
            let all = self.events.list(&ListParams::default()).await.ok()?.items;
            let is_it = |event: &Event| {
                event.involved_object.name.as_deref() == Some(pod)
                    && event.type_.as_deref() == Some(kind)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
            };
            all.iter().any(is_it).then_some(())
        })
        .await;
    }

    /// The uid and version of each attachment, and the volumes that each node lists.
    pub async fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for one in self.attachments.list(&ListParams::default()).await.expect("attachments must be listed") {
            let meta = one.metadata;
            state.push(format!("{:?} {:?} {:?}", meta.name, meta.uid, meta.resource_version));
        }
        for node in self.nodes.list(&ListParams::default()).await.expect("nodes must be listed") {
            // Upstream lists the volumes in any order.
            let all = node.status.and_then(|status| status.volumes_attached).unwrap_or_default();
            let mut all: Vec<_> = all.into_iter().map(|one| one.name).collect();
            all.sort();
            state.push(format!("{:?} {all:?}", node.metadata.name));
        }
        state.sort();
        state
    }
}
