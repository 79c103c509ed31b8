//! Somebody who works with a cluster, and writes objects as JSON.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::{Cluster, eventually};

/// A user of the cluster, in one namespace.
///
/// Paths are written as in `apis/apps/v1/*/deployments/web`, where `*` stands for the namespace.
#[derive(Clone)]
pub struct User {
    client: Client,
    namespace: String,
}

impl User {
    /// The administrator, in the namespace of the test.
    pub fn of(cluster: &Cluster) -> Self {
        Self { client: cluster.client(), namespace: cluster.namespace.clone() }
    }

    fn path(&self, path: &str) -> String {
        format!("/{}", path.replace('*', &format!("namespaces/{}", self.namespace)))
    }

    /// The namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request, and returns the answer or the API server's refusal.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder()
            .method(method)
            .uri(self.path(path))
            .header(http::header::CONTENT_TYPE, kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).expect("it is a request")).await
    }

    /// Creates an object in a collection.
    pub async fn create(&self, collection: &str, object: Value) -> Value {
        self.send(Method::POST, collection, &object)
            .await
            .unwrap_or_else(|error| panic!("{collection}: {error}"))
    }

    /// Merges a patch into an object.
    pub async fn patch(&self, object: &str, patch: Value) {
        self.send(Method::PATCH, object, &patch).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// An object or a list, if the API server has it.
    pub async fn get(&self, path: &str) -> Option<Value> {
        self.send(Method::GET, path, &Value::Null).await.ok()
    }

    /// Deletes an object with this propagation policy.
    pub async fn delete(&self, object: &str, propagation: &str) {
        let options = json!({ "propagationPolicy": propagation });
        self.send(Method::DELETE, object, &options).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Waits until an object or a list is as wanted.
    pub async fn sees(&self, what: &str, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || async { self.get(path).await.filter(|seen| wanted(seen)) }).await
    }

    /// Waits until an object is gone.
    pub async fn misses(&self, path: &str) {
        eventually(&format!("{path} is gone"), || async { self.get(path).await.is_none().then_some(()) })
            .await;
    }

    /// Waits for so many pods with the label `app`, and returns their names.
    pub async fn pods(&self, app: &str, count: usize) -> Vec<String> {
        let path = format!("api/v1/*/pods?labelSelector=app%3D{app}");
        let all =
            self.sees(&format!("{count} pods of {app}"), &path, |list| items(list).len() == count).await;
        items(&all).iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Plays the scheduler and the kubelet of a pod: it is bound to the node `n1`, runs and is ready.
    pub async fn runs(&self, pod: &str, ip: u8) {
        let binding = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": "n1"}});
        self.create(&format!("api/v1/*/pods/{pod}/binding"), binding).await;
        let status = json!({"status": {
            "phase": "Running", "podIP": format!("10.9.0.{ip}"), "podIPs": [{"ip": format!("10.9.0.{ip}")}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        self.patch(&format!("api/v1/*/pods/{pod}/status"), status).await;
    }
}

/// The objects of a list.
pub fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// A pod template whose pods have the label `app`.
pub fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "image"}], "terminationGracePeriodSeconds": 0},
    })
}

/// A workload whose pods have the label `app`, with more in its spec.
pub fn workload(app: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": app}}, "template": template(app)});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": app}, "spec": spec})
}
