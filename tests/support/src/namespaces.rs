//! Namespaces with objects of any kind, and their deletion.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, TypeMeta,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use steersman_testing::pod;

use super::eventually;

/// A namespace of a test's own.
#[derive(Clone)]
pub struct Space {
    /// The namespace's name.
    pub name: String,
    pub namespaces: Api<Namespace>,
    client: kube::Client,
}

/// A ConfigMap as JSON.
pub fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

/// A pod on a node, so that it stays until a kubelet lets it go.
pub fn bound_pod(name: &str) -> Value {
    pod(name).on("away").spec(json!({ "terminationGracePeriodSeconds": 10 })).build()
}

/// The same object with these finalizers.
pub fn held(mut object: Value, finalizers: &[&str]) -> Value {
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

impl Space {
    /// The namespace of this name.
    pub fn named(client: &kube::Client, name: &str) -> Self {
        Self { name: name.to_owned(), namespaces: Api::all(client.clone()), client: client.clone() }
    }

    /// Creates a namespace.
    pub async fn create(client: &kube::Client) -> Self {
        let namespaces = Api::<Namespace>::all(client.clone());
        let new = json!({ "metadata": { "generateName": "space-" } });
        let new = serde_json::from_value(new).expect("it is a namespace");
        let made = namespaces.create(&PostParams::default(), &new).await.expect("a namespace must be made");
        Self::named(client, &made.metadata.name.expect("it has a name"))
    }

    /// The objects in the namespace that are of the same kind as this one.
    pub fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().expect("the field must be a text").to_owned();
        let types = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
        let kind = GroupVersionKind::try_from(&types).expect("it must be an API version");
        Api::namespaced_with(self.client.clone(), &self.name, &ApiResource::from_gvk(&kind))
    }

    /// Creates an object in the namespace.
    pub async fn put(&self, object: Value) {
        let new = serde_json::from_value(object.clone()).expect("it is an object");
        let made = self.api(&object).create(&PostParams::default(), &new).await;
        made.unwrap_or_else(|error| panic!("{object} must be made: {error}"));
    }

    /// The names of the objects of the same kind, each with whether it is being deleted.
    pub async fn list(&self, object: &Value) -> BTreeMap<String, bool> {
        let all = self.api(object).list_metadata(&ListParams::default()).await.expect("a list must come");
        let entry = |one: kube::core::PartialObjectMeta<_>| {
            let is_deleting = one.metadata.deletion_timestamp.is_some();
            (one.metadata.name.expect("it has a name"), is_deleting)
        };
        all.items.into_iter().map(entry).collect()
    }

    /// Whether the namespace has no object of that kind.
    pub async fn has_none(&self, object: &Value) -> bool {
        self.list(object).await.is_empty()
    }

    /// Removes all finalizers of an object.
    pub async fn release(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("it has a name");
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        self.api(object).patch(name, &PatchParams::default(), &patch).await.expect("it must be patched");
    }

    /// Deletes an object at once, as a kubelet does when a pod's containers have ended.
    pub async fn end(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("it has a name");
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api(object).delete(name, &now).await.expect("it must be deleted");
    }

    /// Deletes the namespace.
    pub async fn delete(&self) {
        self.namespaces.delete(&self.name, &DeleteParams::default()).await.expect("it must be deleted");
    }

    /// The namespace, if there is one.
    pub async fn get(&self) -> Option<Namespace> {
        self.namespaces.get_opt(&self.name).await.expect("the server must answer")
    }

    /// Waits until the namespace is gone.
    pub async fn is_gone(&self) {
        eventually(&format!("namespace {} is gone", self.name), || async {
            self.namespaces.get_opt(&self.name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// The conditions, by type: status, reason and message.
    pub async fn conditions(&self) -> BTreeMap<String, (String, String, String)> {
        let status = self.get().await.and_then(|namespace| namespace.status);
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        let entry = |one: k8s_openapi::api::core::v1::NamespaceCondition| {
            (one.type_, (one.status, one.reason.unwrap_or_default(), one.message.unwrap_or_default()))
        };
        conditions.into_iter().map(entry).collect()
    }

    /// Waits until a condition has this status and reason, and returns its message.
    pub async fn says(&self, condition: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{condition} of {} is {status}, {reason}", self.name), || async {
            let (found, why, message) = self.conditions().await.remove(condition)?;
            (found == status && why == reason).then_some(message)
        })
        .await
    }

    /// Sets the finalizers of the namespace's spec.
    pub async fn set_finalizers(&self, finalizers: &[&str]) {
        let mut namespace = serde_json::to_value(self.get().await).expect("it is JSON");
        namespace["spec"]["finalizers"] = json!(finalizers);
        let path = format!("/api/v1/namespaces/{}/finalize", self.name);
        let request = http::Request::put(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(namespace.to_string().into_bytes())
            .expect("it is a request");
        self.client.request::<Value>(request).await.expect("it must be finalized");
    }
}
