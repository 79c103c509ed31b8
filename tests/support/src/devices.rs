//! Claims of devices, their templates and pods, and slices of devices that no driver has.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::eventually;
use super::quotas::{cluster_objects, named, objects};

/// The finalizer of allocated claims.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The driver of all devices.
pub const DRIVER: &str = "gpu.example.com";

/// The objects of a test that have to do with devices. The test plays kube-scheduler, the driver and the kubelet.
pub struct Devices {
    pub claims: Api<DynamicObject>,
    templates: Api<DynamicObject>,
    slices: Api<DynamicObject>,
    pub pods: Api<Pod>,
    events: Api<Event>,
    /// The pool of the test's devices, which no other test has.
    pub pool: String,
}

/// A spec with one request of devices of a class that need not exist.
pub fn claim_spec() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}})
}

/// A claim of a pod that is made from a template.
pub fn templated(name: &str, template: &str) -> Value {
    json!({"name": name, "resourceClaimTemplateName": template})
}

/// A claim of a pod that the pod shares with others.
pub fn shared(name: &str, claim: &str) -> Value {
    json!({"name": name, "resourceClaimName": claim})
}

impl Devices {
    /// The objects in a namespace.
    pub fn of(client: &kube::Client, namespace: &str) -> Self {
        Self {
            claims: objects(client, "resource.k8s.io/v1/ResourceClaim"),
            templates: objects(client, "resource.k8s.io/v1/ResourceClaimTemplate"),
            slices: cluster_objects(client, "resource.k8s.io/v1/ResourceSlice"),
            pods: Api::default_namespaced(client.clone()),
            events: Api::default_namespaced(client.clone()),
            pool: format!("pool-{namespace}"),
        }
    }

    /// Creates a template.
    pub async fn template(&self, name: &str, metadata: Value) {
        let template = named(name, json!({"spec": {"metadata": metadata, "spec": claim_spec()}}));
        self.templates.create(&PostParams::default(), &template).await.expect("a template must be created");
    }

    /// Creates a claim.
    pub async fn claim(&self, name: &str) {
        let claim = named(name, json!({"spec": claim_spec()}));
        self.claims.create(&PostParams::default(), &claim).await.expect("a claim must be created");
    }

    /// Creates a pod with these claims, on `node` unless that is empty. Returns its uid.
    pub async fn pod(&self, name: &str, node: &str, claims: &[Value]) -> String {
        let mut pod = json!({"metadata": {"name": name}, "spec": {
            "containers": [{"name": "c", "image": "busybox"}], "resourceClaims": claims,
        }});
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        let pod: Pod = serde_json::from_value(pod).expect("it is a pod");
        let created = self.pods.create(&PostParams::default(), &pod).await.expect("a pod must be created");
        created.metadata.uid.expect("the API server gives each object a uid")
    }

    /// Sets a pod's phase, as its kubelet does.
    pub async fn set_phase(&self, pod: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        self.pods
            .patch_status(pod, &PatchParams::default(), &patch)
            .await
            .expect("a pod's status is patched");
    }

    /// Deletes a pod, as its kubelet does once the containers have ended.
    pub async fn remove_pod(&self, pod: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods.delete(pod, &now).await.expect("a pod must be deleted");
    }

    /// The claims in a pod's status, by their names in the pod. `None` unless there are as many.
    pub async fn generated(&self, pod: &str, count: usize) -> Vec<(String, String)> {
        eventually(&format!("{pod} has its claims"), || async {
            let status = self.pods.get(pod).await.ok()?.status?;
            let claims = status.resource_claim_statuses.unwrap_or_default();
            let claims: Vec<_> = claims
                .into_iter()
                .filter_map(|claim| Some((claim.name, claim.resource_claim_name?)))
                .collect();
            (claims.len() == count).then_some(claims)
        })
        .await
    }

    /// A claim as JSON, or null.
    pub async fn get(&self, claim: &str) -> Value {
        let found = self.claims.get_opt(claim).await.expect("a claim must be read");
        found.map(|claim| serde_json::to_value(claim).expect("it is JSON")).unwrap_or_default()
    }

    /// Waits until a claim is like this.
    pub async fn claim_is(&self, claim: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{claim} {what}"), || async {
            let found = self.get(claim).await;
            is(&found).then_some(found)
        })
        .await
    }

    /// Waits until a claim is gone.
    pub async fn goes(&self, claim: &str) {
        self.claim_is(claim, "goes", Value::is_null).await;
    }

    /// All claims of the namespace.
    pub async fn names(&self) -> Vec<String> {
        let all = self.claims.list(&ListParams::default()).await.expect("claims must be listed");
        all.items.into_iter().filter_map(|claim| claim.metadata.name).collect()
    }

    /// Gives a claim this device, and reserves it for these consumers, as kube-scheduler does: the finalizer comes first.
    pub async fn allocate(&self, claim: &str, device: &str, tolerations: Value, consumers: &[Value]) {
        let finalizer = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
        self.claims.patch(claim, &PatchParams::default(), &finalizer).await.expect("a claim must be patched");
        let mut result = json!({"request": "gpu", "driver": DRIVER, "pool": self.pool, "device": device});
        if !tolerations.is_null() {
            result["tolerations"] = tolerations;
        }
        let mut status = json!({"allocation": {"devices": {"results": [result]}}});
        if !consumers.is_empty() {
            status["reservedFor"] = consumers.into();
        }
        let patch = Patch::Merge(json!({"status": status}));
        self.claims.patch_status(claim, &PatchParams::default(), &patch).await.expect("a claim is allocated");
    }

    /// Publishes a slice with one device `gpu-0` and these taints, in place of an earlier one of the name.
    pub async fn publish(&self, name: &str, generation: i64, taints: Value) {
        let name = format!("{}-{name}", self.pool);
        let mut device = json!({"name": "gpu-0"});
        if !taints.is_null() {
            device["taints"] = taints;
        }
        let spec = json!({
            "driver": DRIVER, "allNodes": true,
            "pool": {"name": self.pool, "generation": generation, "resourceSliceCount": 1},
            "devices": [device],
        });
        let slice = named(
            &name,
            json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec,
            }),
        );
        match self.slices.get_opt(&name).await.expect("a slice must be read") {
            None => {
                self.slices.create(&PostParams::default(), &slice).await.expect("a slice must be created");
            }
            Some(found) => {
                let mut slice = slice;
                slice.metadata.resource_version = found.metadata.resource_version;
                self.slices
                    .replace(&name, &PostParams::default(), &slice)
                    .await
                    .expect("a slice is replaced");
            }
        }
    }

    /// Deletes the test's slices, which would stay behind on a shared server.
    pub async fn withdraw(&self, name: &str) {
        let name = format!("{}-{name}", self.pool);
        self.slices.delete(&name, &DeleteParams::default()).await.expect("a slice must be deleted");
    }

    /// Waits for an event about a pod, and returns its message, type, source and reason.
    pub async fn event(&self, pod: &str, message: &str) -> [String; 3] {
        eventually(&format!("{pod} has an event {message:?}"), || async {
            let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
            let events = self.events.list(&about).await.ok()?.items;
            let found = events.into_iter().find(|event| event.message.as_deref() == Some(message))?;
            Some([found.type_?, found.source?.component?, found.reason?])
        })
        .await
    }
}

/// A pod as a consumer of claims.
pub fn consumer(pod: &str, uid: &str) -> Value {
    json!({"resource": "pods", "name": pod, "uid": uid})
}
