//! Deployments, StatefulSets and DaemonSets.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::waiting::{name, until};
use crate::{Error, report};

/// How many calls are under way at a time.
const AT_ONCE: usize = 32;

/// A kind of workloads.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    kind: &'static str,
    plural: &'static str,
    prefix: &'static str,
}

pub(crate) const DEPLOYMENT: Kind = Kind { kind: "Deployment", plural: "deployments", prefix: "deployment" };
pub(crate) const STATEFUL_SET: Kind =
    Kind { kind: "StatefulSet", plural: "statefulsets", prefix: "stateful" };
pub(crate) const DAEMON_SET: Kind = Kind { kind: "DaemonSet", plural: "daemonsets", prefix: "daemon" };

impl Kind {
    fn resource(self) -> ApiResource {
        ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            api_version: "apps/v1".into(),
            kind: self.kind.into(),
            plural: self.plural.into(),
        }
    }

    fn manifest(self, number: usize, pods: usize) -> Value {
        let name = format!("{}-{number}", self.prefix);
        let labels = json!({ "app": name });
        let mut manifest = json!({
            "apiVersion": "apps/v1", "kind": self.kind, "metadata": { "name": name, "labels": labels },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{
                            "name": "main", "image": "registry.k8s.io/pause:3.9",
                            "ports": [{ "name": "http", "containerPort": 8080 }],
                            "env": [{ "name": "GREETING", "value": "hello" }],
                            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
                        }],
                    },
                },
            },
        });
        match self.kind {
            "DaemonSet" => {}
            "StatefulSet" => {
                manifest["spec"]["serviceName"] = json!(name);
                manifest["spec"]["replicas"] = json!(pods);
            }
            _ => manifest["spec"]["replicas"] = json!(pods),
        }
        manifest
    }

    /// Whether the controller has done all that the spec asks for, and all pods are available.
    fn is_complete(self, object: &DynamicObject) -> bool {
        let status = &object.data["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        if status["observedGeneration"].as_i64() != object.metadata.generation {
            return false;
        }
        if self.kind == "DaemonSet" {
            let wanted = count("desiredNumberScheduled");
            return wanted > 0
                && count("numberAvailable") == wanted
                && count("updatedNumberScheduled") == wanted;
        }
        let wanted = object.data["spec"]["replicas"].as_u64().unwrap_or(1);
        ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == wanted)
    }
}

/// Creates the namespaces, and returns their names.
pub(crate) async fn namespaces(client: &Client, count: usize) -> Result<Vec<String>, Error> {
    let api = Api::<Namespace>::all(client.clone());
    let mut names = Vec::new();
    for number in 0..count.max(1) {
        let name = format!("workloads-{number}");
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }));
        let namespace = namespace.expect("the manifest must be a namespace");
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        names.push(name);
    }
    Ok(names)
}

/// Namespaces over which objects are spread.
pub(crate) struct Spread<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespaces: &'a [String],
}

impl Spread<'_> {
    /// Creates objects of a kind, waits until all are complete, and prints how long that took.
    pub(crate) async fn create(&self, kind: Kind, count: usize, pods: usize) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let (begun, resource) = (Instant::now(), kind.resource());
        let created = stream::iter(0..count).map(|number| {
            let namespace = &self.namespaces[number % self.namespaces.len()];
            let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource);
            async move {
                let object = serde_json::from_value(kind.manifest(number, pods));
                let object = object.expect("the manifest must be an object");
                api.create(&PostParams::default(), &object).await.map(|object| name(&object))
            }
        });
        let names: BTreeSet<String> = created.buffer_unordered(AT_ONCE).try_collect().await?;
        until(self.client, &resource, names, |object| kind.is_complete(object)).await?;
        report(&format!("{count} {}, created to complete: {:?}", kind.plural, begun.elapsed()));
        Ok(())
    }
}

/// Gives all Deployments a new image, waits until each has rolled, and prints how long that took.
pub(crate) async fn roll(client: &Client, image: &str) -> Result<(), Error> {
    let spec = json!({ "containers": [{ "name": "main", "image": image }] });
    let begun = Instant::now();
    let names = patch_all(client, &json!({ "spec": { "template": { "spec": spec } } })).await?;
    let count = names.len();
    let has_image =
        |object: &DynamicObject| object.data["spec"]["template"]["spec"]["containers"][0]["image"] == image;
    let rolled = |object: &DynamicObject| has_image(object) && DEPLOYMENT.is_complete(object);
    until(client, &DEPLOYMENT.resource(), names, rolled).await?;
    report(&format!("{count} deployments, rolled: {:?}", begun.elapsed()));
    Ok(())
}

/// Sets a label of all Deployments.
pub(crate) async fn label(client: &Client, value: &str) -> Result<(), Error> {
    let begun = Instant::now();
    let names = patch_all(client, &json!({ "metadata": { "labels": { "measured": value } } })).await?;
    report(&format!("{} deployments, labelled: {:?}", names.len(), begun.elapsed()));
    Ok(())
}

/// Patches all Deployments, and returns their names.
async fn patch_all(client: &Client, patch: &Value) -> Result<BTreeSet<String>, Error> {
    let resource = DEPLOYMENT.resource();
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let objects = all.list_metadata(&ListParams::default()).await?.items;
    let patched = stream::iter(objects).map(|object| {
        let namespace = object.namespace().unwrap_or_default();
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
        let patch = Patch::Strategic(patch);
        async move {
            let name = object.name_any();
            api.patch(&name, &PatchParams::default(), &patch).await?;
            Ok::<_, Error>(format!("{namespace}/{name}"))
        }
    });
    patched.buffer_unordered(AT_ONCE).try_collect().await
}
