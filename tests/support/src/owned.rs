//! Objects that own one another.

use std::collections::BTreeSet;

use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    PropagationPolicy,
};
use serde_json::{Value, json};

use super::eventually;

/// The finalizer by which a test keeps an object.
pub const KEPT: &str = "example.com/kept";

/// Config maps.
pub fn config_maps() -> ApiResource {
    resource("", "v1", "ConfigMap", "configmaps")
}

/// The resource of a kind.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// An object at the API server.
#[derive(Clone)]
pub struct Object {
    pub api: Api<DynamicObject>,
    pub name: String,
    pub uid: String,
    resource: ApiResource,
}

impl Object {
    /// Creates an object in the client's namespace.
    pub async fn create(client: &kube::Client, resource: &ApiResource, manifest: Value) -> Self {
        let api = Api::default_namespaced_with(client.clone(), resource);
        Self::create_by(api, resource, manifest).await
    }

    /// Creates an object in that namespace.
    pub async fn create_in(
        client: &kube::Client,
        namespace: &str,
        resource: &ApiResource,
        manifest: Value,
    ) -> Self {
        let api = Api::namespaced_with(client.clone(), namespace, resource);
        Self::create_by(api, resource, manifest).await
    }

    /// Creates a cluster-scoped object.
    pub async fn create_cluster_scoped(
        client: &kube::Client,
        resource: &ApiResource,
        manifest: Value,
    ) -> Self {
        Self::create_by(Api::all_with(client.clone(), resource), resource, manifest).await
    }

    async fn create_by(api: Api<DynamicObject>, resource: &ApiResource, mut manifest: Value) -> Self {
        manifest["apiVersion"] = json!(resource.api_version);
        manifest["kind"] = json!(resource.kind);
        let object = serde_json::from_value(manifest).expect("a manifest is an object");
        let created = api.create(&PostParams::default(), &object).await.expect("an object must be made");
        Self {
            api,
            name: created.metadata.name.expect("a created object has a name"),
            uid: created.metadata.uid.expect("a created object has a uid"),
            resource: resource.clone(),
        }
    }

    /// Creates a config map with these owner references.
    pub async fn config_map(client: &kube::Client, name: &str, owners: &[Value]) -> Self {
        let manifest = json!({ "metadata": { "name": name, "ownerReferences": owners } });
        Self::create(client, &config_maps(), manifest).await
    }

    /// Creates a config map with these owner references, which stays until [`release`](Self::release).
    pub async fn kept_config_map(client: &kube::Client, name: &str, owners: &[Value]) -> Self {
        let metadata = json!({ "name": name, "ownerReferences": owners, "finalizers": [KEPT] });
        Self::create(client, &config_maps(), json!({ "metadata": metadata })).await
    }

    /// A reference to this owner.
    pub fn reference(&self) -> Value {
        let ApiResource { api_version, kind, .. } = &self.resource;
        json!({ "apiVersion": api_version, "kind": kind, "name": self.name, "uid": self.uid })
    }

    /// A reference to this owner that blocks its foreground deletion.
    pub fn blocking(&self) -> Value {
        let mut reference = self.reference();
        reference["blockOwnerDeletion"] = json!(true);
        reference
    }

    /// Asks for the object's deletion.
    pub async fn delete(&self, policy: PropagationPolicy) {
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.api.delete(&self.name, &params).await.expect("an object must be deleted");
    }

    /// The object's state, if it exists.
    pub async fn get(&self) -> Option<DynamicObject> {
        let found = self.api.get_opt(&self.name).await.expect("an object must be read");
        found.filter(|found| found.metadata.uid.as_ref() == Some(&self.uid))
    }

    /// Whether the object exists and is not being deleted.
    pub async fn stays(&self) -> bool {
        self.get().await.is_some_and(|object| object.metadata.deletion_timestamp.is_none())
    }

    /// Waits until the object is gone.
    pub async fn goes(&self) {
        let what = format!("{} {} is gone", self.resource.kind, self.name);
        eventually(&what, || async {
            // The definition of a custom resource may go with its objects.
            let found = self.api.get_opt(&self.name).await.ok().flatten();
            found.is_none_or(|found| found.metadata.uid.as_ref() != Some(&self.uid)).then_some(())
        })
        .await;
    }

    /// Waits until the object is being deleted.
    pub async fn is_deleted(&self) {
        let what = format!("{} {} is being deleted", self.resource.kind, self.name);
        eventually(&what, || async { self.get().await?.metadata.deletion_timestamp.map(drop) }).await;
    }

    /// Waits until the object has exactly these owners.
    pub async fn has_owners(&self, expected: &[&Self]) {
        let expected: BTreeSet<_> = expected.iter().map(|owner| owner.uid.clone()).collect();
        let what = format!("{} {} has {} owners", self.resource.kind, self.name, expected.len());
        eventually(&what, || async {
            let owners = self.get().await?.metadata.owner_references.unwrap_or_default();
            let owners: BTreeSet<_> = owners.into_iter().map(|owner| owner.uid).collect();
            (owners == expected).then_some(())
        })
        .await;
    }

    /// The object's finalizers.
    pub async fn finalizers(&self) -> Vec<String> {
        let object = self.get().await.expect("the object must exist");
        object.metadata.finalizers.unwrap_or_default()
    }

    /// Waits until the object has exactly these finalizers.
    pub async fn has_finalizers(&self, expected: &[&str]) {
        let what = format!("{} {} has finalizers {expected:?}", self.resource.kind, self.name);
        eventually(&what, || async { (self.finalizers().await == expected).then_some(()) }).await;
    }

    /// Removes the finalizer by which the test keeps the object.
    pub async fn release(&self) {
        let finalizers = self.finalizers().await;
        let rest: Vec<_> = finalizers.into_iter().filter(|finalizer| finalizer != KEPT).collect();
        self.patch(json!({ "metadata": { "finalizers": rest } })).await;
    }

    /// Applies a merge patch.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("an object must be patched");
    }
}

/// The number of config maps in the client's namespace with this prefix.
pub async fn count(client: &kube::Client, prefix: &str) -> usize {
    let api = Api::<DynamicObject>::default_namespaced_with(client.clone(), &config_maps());
    let all = api.list_metadata(&ListParams::default()).await.expect("config maps must be listed");
    let named = |name: &Option<String>| name.as_ref().is_some_and(|name| name.starts_with(prefix));
    all.items.iter().filter(|one| named(&one.metadata.name)).count()
}
