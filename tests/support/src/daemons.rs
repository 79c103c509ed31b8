//! DaemonSets on nodes that exist in the API alone, and the part that a scheduler and kubelets play for their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};
use steersman_api::Time;
use tokio::time::{sleep, timeout};

use super::replicas::{mark, name_of};
use super::{eventually, patience};

/// The label of pods and revisions with the hash of the revision.
pub const HASH: &str = "controller-revision-hash";

/// The nodes of the cluster. No kubelet runs on them.
#[derive(Clone)]
pub struct Nodes(Api<Node>);

impl Nodes {
    /// The nodes of a cluster that has neither nodes nor DaemonSets: those of earlier tests are deleted.
    pub async fn of(client: &kube::Client) -> Self {
        let sets = Api::<DaemonSet>::all(client.clone());
        for set in sets.list(&ListParams::default()).await.expect("DaemonSets must be listed") {
            let namespace = set.metadata.namespace.expect("a DaemonSet has a namespace");
            let sets = Api::<DaemonSet>::namespaced(client.clone(), &namespace);
            let name = set.metadata.name.expect("a DaemonSet has a name");
            sets.delete(&name, &DeleteParams::background()).await.expect("a DaemonSet must be deleted");
        }
        let nodes = Self(Api::all(client.clone()));
        for node in nodes.0.list(&ListParams::default()).await.expect("nodes must be listed") {
            nodes.delete(&node.metadata.name.expect("a node has a name")).await;
        }
        nodes
    }

    /// Creates a node with these labels and no taints.
    pub async fn create(&self, name: &str, labels: Value) {
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        let node = serde_json::from_value(node).expect("it is a node");
        self.0.create(&PostParams::default(), &node).await.expect("a node must be made");
        // A new node is not ready, and tainted so.
        self.taint(name, json!([])).await;
    }

    /// Creates nodes without labels.
    pub async fn create_all(&self, names: &[&str]) {
        for name in names {
            self.create(name, json!({})).await;
        }
    }

    /// Deletes a node.
    pub async fn delete(&self, name: &str) {
        self.0.delete(name, &DeleteParams::default()).await.expect("a node must be deleted");
    }

    /// Sets the labels of a node. Those that are null go.
    pub async fn label(&self, name: &str, labels: Value) {
        self.patch(name, json!({ "metadata": { "labels": labels } })).await;
    }

    /// Sets the taints of a node.
    pub async fn taint(&self, name: &str, taints: Value) {
        self.patch(name, json!({ "spec": { "taints": taints } })).await;
    }

    async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.0.patch(name, &PatchParams::default(), &patch).await.expect("a node must be patched");
    }
}

/// A DaemonSet at the API server.
#[derive(Clone)]
pub struct Daemons {
    pub name: String,
    pub uid: String,
    pub api: Api<DaemonSet>,
    pub pods: Api<Pod>,
    client: kube::Client,
}

/// A DaemonSet as JSON. Its pods have the label `app` with the name as value, by which it selects them.
pub fn manifest(name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "first" }] },
            },
        },
    })
}

/// What the simulated kubelets do with a pod that is bound to their node.
pub type IsReady = fn(&Pod) -> bool;

impl Daemons {
    /// Creates a DaemonSet from a [`manifest`].
    pub async fn create(client: &kube::Client, manifest: Value) -> Self {
        let api = Api::<DaemonSet>::default_namespaced(client.clone());
        let set = serde_json::from_value(manifest).expect("a manifest is a DaemonSet");
        let created = api.create(&PostParams::default(), &set).await.expect("a DaemonSet must be made");
        Self {
            name: created.metadata.name.expect("a created object has a name"),
            uid: created.metadata.uid.expect("a created object has a uid"),
            api,
            pods: Api::default_namespaced(client.clone()),
            client: client.clone(),
        }
    }

    /// Applies a merge patch to the DaemonSet.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api
            .patch(&self.name, &PatchParams::default(), &patch)
            .await
            .expect("a DaemonSet must be patched");
    }

    /// Gives the pods another image.
    pub async fn set_image(&self, image: &str) {
        let containers = json!([{ "name": "main", "image": image }]);
        self.patch(json!({ "spec": { "template": { "spec": { "containers": containers } } } })).await;
    }

    /// Deletes the DaemonSet.
    pub async fn delete(&self, policy: PropagationPolicy) {
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.api.delete(&self.name, &params).await.expect("a DaemonSet must be deleted");
    }

    /// All pods that the DaemonSet controls, by name.
    pub async fn all_pods(&self) -> Vec<Pod> {
        let mut pods = self.pods.list(&ListParams::default()).await.expect("pods must be listed").items;
        pods.retain(|pod| self.controls(pod));
        pods
    }

    /// The pods that the DaemonSet controls and that are neither finished nor being deleted.
    pub async fn active(&self) -> Vec<Pod> {
        let mut pods = self.all_pods().await;
        pods.retain(super::replicas::is_active);
        pods
    }

    /// Whether the pod's managing owner is the DaemonSet.
    pub fn controls(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == self.uid)
    }

    /// Waits until the active pods are one for each of these nodes, and gives their names, in the order of the nodes.
    pub async fn has_one_on(&self, nodes: &[&str]) -> Vec<String> {
        let what = format!("DaemonSet {} has a pod on each of {nodes:?}", self.name);
        let by_node = eventually(&what, || async {
            let pods = self.active().await;
            let by_node: BTreeMap<String, String> =
                pods.iter().map(|pod| (node_of(pod), name_of(pod))).collect();
            let there: BTreeSet<&str> = by_node.keys().map(String::as_str).collect();
            (pods.len() == nodes.len() && there == nodes.iter().copied().collect()).then_some(by_node)
        })
        .await;
        nodes.iter().map(|node| by_node[*node].clone()).collect()
    }

    /// Binds the pods that are not bound to the nodes that they are for, as the scheduler does; makes bound pods run, and
    /// those ready for which `is_ready` holds; and ends pods that are being deleted, as kubelets do.
    pub async fn play(&self, is_ready: IsReady) {
        for pod in self.all_pods().await {
            let name = name_of(&pod);
            let status = pod.status.clone().unwrap_or_default();
            let phase = status.phase.unwrap_or_default();
            if pod.metadata.deletion_timestamp.is_some() {
                // Somebody else may have been quicker.
                let _ = self.pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
            } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
                self.bind(&pod).await;
            } else if phase == "Pending" || phase.is_empty() {
                let ready = if is_ready(&pod) { "True" } else { "False" };
                let condition =
                    json!({ "type": "Ready", "status": ready, "lastTransitionTime": Time::now() });
                let status = json!({ "status": { "phase": "Running", "conditions": [condition] } });
                let _ = self.pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
            }
        }
    }

    async fn bind(&self, pod: &Pod) {
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node_of(pod) });
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name_of(pod) }, "target": target,
        });
        let params = PostParams::default();
        // The pod may be gone already.
        let _ = self.pods.create_subresource::<_, Value>("binding", &name_of(pod), &params, &binding).await;
    }

    /// Plays scheduler and kubelets, all of whose pods become ready, until the status [reports](Self::reports) these fields.
    pub async fn settles(&self, fields: Value) {
        self.settles_with(fields, |_| true).await;
    }

    /// As [`settles`](Self::settles), with other kubelets.
    pub async fn settles_with(&self, fields: Value, is_ready: IsReady) {
        let mut last = Value::Null;
        let wait = async {
            loop {
                self.play(is_ready).await;
                last = self.status().await;
                if reports(&last, &fields) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(patience(), wait).await.is_err() {
            panic!("waited in vain: DaemonSet {} reports {fields}; it reports {last}", self.name);
        }
    }

    /// Waits until the status describes the current generation and has these fields. A field that is absent from the
    /// status counts as zero, since the API server leaves out zeros.
    pub async fn reports(&self, fields: Value) {
        let what = format!("DaemonSet {} reports {fields}", self.name);
        eventually(&what, || async { reports(&self.status().await, &fields).then_some(()) }).await;
    }

    /// The status, with the DaemonSet's generation as a further field.
    async fn status(&self) -> Value {
        let set = self.api.get(&self.name).await.expect("the DaemonSet must be there");
        let mut status = serde_json::to_value(set.status.unwrap_or_default()).expect("a status is JSON");
        status["generation"] = json!(set.metadata.generation);
        status
    }

    /// Sets the pod's phase and its condition `Ready`, since now.
    pub async fn mark(&self, pod: &str, phase: &str, ready: &str) {
        mark(&self.pods, pod, phase, ready, &Time::now()).await;
    }

    /// The DaemonSet's revisions, oldest first: the number, the name and the image of each.
    pub async fn revisions(&self) -> Vec<(i64, String, String)> {
        let revisions = Api::<ControllerRevision>::default_namespaced(self.client.clone());
        let listed = revisions.list(&ListParams::default()).await.expect("revisions must be listed").items;
        let owned = listed.into_iter().filter(|revision| {
            revision.metadata.owner_references.iter().flatten().any(|owner| owner.uid == self.uid)
        });
        let mut rows: Vec<_> = owned
            .map(|revision| {
                let data = revision.data.expect("a revision has data").0;
                let image = &data["spec"]["template"]["spec"]["containers"][0]["image"];
                let name = revision.metadata.name.expect("a revision has a name");
                (revision.revision, name, image.as_str().unwrap_or_default().to_owned())
            })
            .collect();
        rows.sort();
        rows
    }

    /// Waits until the images of the revisions are these, oldest first.
    pub async fn has_revisions(&self, images: &[(i64, &str)]) {
        let what = format!("DaemonSet {} has the revisions {images:?}", self.name);
        eventually(&what, || async {
            let rows = self.revisions().await;
            let found: Vec<(i64, &str)> = rows.iter().map(|(number, _, image)| (*number, &**image)).collect();
            (found == images).then_some(())
        })
        .await;
    }

    /// Waits for an event about the DaemonSet with this reason and message, and gives it.
    pub async fn event(&self, reason: &str, message: &str) -> Event {
        let events = Api::<Event>::default_namespaced(self.client.clone());
        let what = format!("DaemonSet {} has the event {reason}: {message}", self.name);
        eventually(&what, || async {
            let events = events.list(&ListParams::default()).await.ok()?.items;
            events.into_iter().find(|event| {
                event.involved_object.uid.as_ref() == Some(&self.uid)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
            })
        })
        .await
    }

    /// The versions of the DaemonSet, its pods and its revisions, by uid.
    pub async fn versions(&self) -> BTreeMap<Option<String>, Option<String>> {
        let set = self.api.get(&self.name).await.expect("the DaemonSet must be there");
        let revisions = Api::<ControllerRevision>::default_namespaced(self.client.clone());
        let revisions = revisions.list(&ListParams::default()).await.expect("revisions must be listed").items;
        let pods = self.all_pods().await.into_iter().map(|pod| pod.metadata);
        let all = pods.chain(revisions.into_iter().map(|revision| revision.metadata)).chain([set.metadata]);
        all.map(|metadata| (metadata.uid, metadata.resource_version)).collect()
    }
}

fn reports(status: &Value, fields: &Value) -> bool {
    let field = |name: &str| status.get(name).cloned().unwrap_or(json!(0));
    let expected = fields.as_object().expect("the fields of a status are an object");
    field("observedGeneration") == status["generation"]
        && expected.iter().all(|(name, value)| field(name) == *value)
}

/// The node that the pod is bound to, or pinned to by its affinity.
pub fn node_of(pod: &Pod) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    spec.node_name.unwrap_or_else(|| {
        let affinity = serde_json::to_value(spec.affinity).expect("an affinity is JSON");
        let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
        assert_eq!(
            (&field["key"], &field["operator"]),
            (&json!("metadata.name"), &json!("In")),
            "{affinity}"
        );
        field["values"][0].as_str().unwrap_or_default().to_owned()
    })
}
