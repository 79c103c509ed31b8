//! A namespace with many objects, to be deleted.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{Error, report};

/// The namespace's name.
const NAME: &str = "filled";
/// How many calls are under way at a time.
const AT_ONCE: usize = 32;
/// How often the state of the namespace is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A kind of objects, and how many tenths of all objects are of it.
struct Kind {
    group: &'static str,
    kind: &'static str,
    tenths: usize,
}

const KINDS: [Kind; 6] = [
    Kind { group: "", kind: "ConfigMap", tenths: 4 },
    Kind { group: "", kind: "Secret", tenths: 2 },
    Kind { group: "", kind: "Pod", tenths: 1 },
    Kind { group: "", kind: "ServiceAccount", tenths: 1 },
    Kind { group: "coordination.k8s.io", kind: "Lease", tenths: 1 },
    Kind { group: "rbac.authorization.k8s.io", kind: "Role", tenths: 1 },
];

impl Kind {
    fn resource(&self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(self.group, "v1", self.kind))
    }

    fn manifest(&self, number: usize) -> Value {
        let resource = self.resource();
        let name = format!("object-{number}");
        let mut manifest = json!({
            "apiVersion": resource.api_version, "kind": self.kind, "metadata": { "name": name },
        });
        match self.kind {
            "ConfigMap" => manifest["data"] = json!({ "text": "x".repeat(500) }),
            "Pod" => {
                manifest["spec"] = json!({
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9" }],
                });
            }
            _ => {}
        }
        manifest
    }
}

/// Creates the namespace with about so many objects, waits until its pods run, and prints how long that took.
pub(crate) async fn fill(client: &Client, objects: usize) -> Result<(), Error> {
    let begun = Instant::now();
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAME } }));
    let namespace: Namespace = namespace.expect("the manifest must be a namespace");
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let mut created = 0;
    for kind in &KINDS {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAME, &kind.resource());
        let count = objects * kind.tenths / 10;
        let calls = stream::iter(0..count).map(|number| {
            let object = serde_json::from_value(kind.manifest(number));
            let object = object.expect("the manifest must be an object");
            let api = api.clone();
            async move { api.create(&PostParams::default(), &object).await.map(drop) }
        });
        calls.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        created += count;
    }
    let pods = Api::<Pod>::namespaced(client.clone(), NAME);
    let pending = ListParams::default().fields("status.phase=Pending");
    while !pods.list_metadata(&pending).await?.items.is_empty() {
        sleep(LOOK).await;
    }
    report(&format!("{created} objects of a namespace, created: {:?}", begun.elapsed()));
    Ok(())
}

/// Deletes the namespace, waits until it is gone, and prints how long that took.
pub(crate) async fn delete(client: &Client) -> Result<(), Error> {
    let begun = Instant::now();
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete(NAME, &DeleteParams::default()).await?;
    while namespaces.get_opt(NAME).await?.is_some() {
        sleep(LOOK).await;
    }
    report(&format!("the namespace, gone: {:?}", begun.elapsed()));
    Ok(())
}
