//! Objects that own one another, and custom kinds, for measurements of garbage collectors.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams, PropagationPolicy,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::{Error, report};

/// How many calls are under way at a time.
const AT_ONCE: usize = 32;
/// The namespace of the Deployment that is collected.
const COLLECTED: &str = "collected";
/// The group of the custom kinds.
const GROUP: &str = "measured.example.com";

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn pods() -> ApiResource {
    resource("", "v1", "Pod", "pods")
}

fn replica_sets() -> ApiResource {
    resource("apps", "v1", "ReplicaSet", "replicasets")
}

async fn namespace(client: &Client, name: &str) -> Result<(), Error> {
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": name } })).expect("it must be a namespace");
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => {
            created?;
            Ok(())
        }
    }
}

/// Creates an object, in a namespace if there is one.
async fn create(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    mut manifest: Value,
) -> Result<DynamicObject, Error> {
    manifest["apiVersion"] = json!(resource.api_version);
    manifest["kind"] = json!(resource.kind);
    let api = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let object: DynamicObject = serde_json::from_value(manifest).expect("the manifest must be an object");
    Ok(api.create(&PostParams::default(), &object).await?)
}

fn reference(owner: &DynamicObject, resource: &ApiResource) -> Value {
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "name": owner.name_any(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn template(app: &str) -> Value {
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.9" });
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "terminationGracePeriodSeconds": 1, "containers": [container] },
    })
}

fn workload(name: &str, replicas: usize, owners: &[Value]) -> Value {
    let selector = json!({ "matchLabels": { "app": name } });
    let spec = json!({ "replicas": replicas, "selector": selector, "template": template(name) });
    json!({ "metadata": { "name": name, "labels": { "app": name }, "ownerReferences": owners }, "spec": spec })
}

/// Creates a ReplicaSet with its pods, as its controller would.
async fn replica_set(
    client: &Client,
    namespace: &str,
    name: &str,
    count: usize,
    owners: &[Value],
) -> Result<(), Error> {
    let set = create(client, &replica_sets(), Some(namespace), workload(name, count, owners)).await?;
    let owner = reference(&set, &replica_sets());
    let created = stream::iter(0..count).map(|at| {
        let mut pod = template(name);
        pod["metadata"]["name"] = json!(format!("{name}-{at}"));
        pod["metadata"]["ownerReferences"] = json!([owner]);
        async move { create(client, &pods(), Some(namespace), pod).await.map(drop) }
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

/// Numbers of objects.
pub(crate) struct Numbers {
    /// ReplicaSets.
    pub(crate) sets: usize,
    /// Pods of each ReplicaSet.
    pub(crate) pods: usize,
    /// Config maps without owners.
    pub(crate) maps: usize,
    /// Custom kinds.
    pub(crate) kinds: usize,
    /// Objects of each custom kind.
    pub(crate) objects: usize,
}

/// Creates objects, in 20 namespaces.
pub(crate) async fn graph(client: &Client, numbers: &Numbers) -> Result<(), Error> {
    let begun = Instant::now();
    let spread = |at: usize| format!("graph-{}", at % 20);
    for at in 0..20 {
        namespace(client, &spread(at)).await?;
    }
    let sets = stream::iter(0..numbers.sets).map(|at| async move {
        replica_set(client, &spread(at), &format!("set-{at}"), numbers.pods, &[]).await
    });
    sets.buffer_unordered(4).try_collect::<()>().await?;
    let maps = stream::iter(0..numbers.maps).map(|at| async move {
        let manifest = json!({ "metadata": { "name": format!("map-{at}") }, "data": { "key": "value" } });
        let maps = resource("", "v1", "ConfigMap", "configmaps");
        create(client, &maps, Some(&spread(at)), manifest).await.map(drop)
    });
    maps.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    definitions(client, numbers.kinds, 0).await?;
    for kind in 0..numbers.kinds {
        let resource = custom(kind);
        let objects = stream::iter(0..numbers.objects).map(|at| {
            let resource = &resource;
            async move {
                let manifest = json!({ "metadata": { "name": format!("object-{at}") } });
                create(client, resource, Some(&spread(at)), manifest).await.map(drop)
            }
        });
        objects.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    }
    report(&format!("objects, created: {:?}", begun.elapsed()));
    Ok(())
}

fn custom(number: usize) -> ApiResource {
    resource(GROUP, "v1", &format!("Kind{number}"), &format!("kind{number}s"))
}

/// Creates the definitions of custom kinds and waits until they are served. The first `broken` of them have an object that can't
/// be converted to the version that is served, so that they can't be listed.
pub(crate) async fn definitions(client: &Client, count: usize, broken: usize) -> Result<(), Error> {
    let begun = Instant::now();
    let definitions =
        resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let version = |name: &str, storage: bool| json!({ "name": name, "served": true, "storage": storage, "schema": schema });
    let created = stream::iter(0..count).map(|number| {
        let kind = custom(number);
        let manifest = json!({
            "metadata": { "name": format!("{}.{GROUP}", kind.plural) },
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": { "plural": kind.plural, "kind": kind.kind },
                "versions": if number < broken { json!([version("v1beta1", true)]) } else { json!([version("v1", true)]) },
            },
        });
        let definitions = &definitions;
        async move { create(client, definitions, None, manifest).await.map(drop) }
    });
    created.buffer_unordered(8).try_collect::<()>().await?;
    let api = Api::<DynamicObject>::all_with(client.clone(), &definitions);
    for number in 0..count {
        let kind = if number < broken {
            resource(GROUP, "v1beta1", &custom(number).kind, &custom(number).plural)
        } else {
            custom(number)
        };
        let objects = Api::<DynamicObject>::all_with(client.clone(), &kind);
        while objects.list_metadata(&ListParams::default().limit(1)).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
        if number >= broken {
            continue;
        }
        create(client, &kind, Some("default"), json!({ "metadata": { "name": "stuck" } })).await?;
        let service = json!({ "name": "absent", "namespace": "default" });
        let webhook = json!({ "clientConfig": { "service": service }, "conversionReviewVersions": ["v1"] });
        let spec = json!({
            "conversion": { "strategy": "Webhook", "webhook": webhook },
            "versions": [version("v1", true), version("v1beta1", false)],
        });
        let patch = kube::api::Patch::Merge(json!({ "spec": spec }));
        let name = format!("{}.{GROUP}", kind.plural);
        api.patch(&name, &kube::api::PatchParams::default(), &patch).await?;
    }
    report(&format!("{count} definitions, {broken} of them broken: {:?}", begun.elapsed()));
    Ok(())
}

/// Creates a Deployment with a ReplicaSet and its pods, as their controllers would.
pub(crate) async fn family(client: &Client, count: usize) -> Result<(), Error> {
    namespace(client, COLLECTED).await?;
    let deployments = resource("apps", "v1", "Deployment", "deployments");
    let deployment = create(client, &deployments, Some(COLLECTED), workload("web", count, &[])).await?;
    replica_set(client, COLLECTED, "web-1", count, &[reference(&deployment, &deployments)]).await
}

/// Deletes the Deployment, waits until it, its ReplicaSet and its pods are gone, and prints how long that took.
pub(crate) async fn collect(client: &Client, policy: PropagationPolicy) -> Result<(), Error> {
    let deployments = resource("apps", "v1", "Deployment", "deployments");
    let all = [&deployments, &replica_sets(), &pods()]
        .map(|resource| Api::<DynamicObject>::namespaced_with(client.clone(), COLLECTED, resource));
    let begun = Instant::now();
    let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
    all[0].delete("web", &params).await?;
    for api in all {
        while !api.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    }
    report(&format!("{policy:?} deletion: {:?}", begun.elapsed()));
    Ok(())
}
