//! A Service whose pods change their readiness.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::workloads::namespaces;
use crate::{Error, report};

/// How many calls are under way at a time.
const AT_ONCE: usize = 32;

/// An Endpoints object names at most so many addresses (endpoints_controller.go: `maxCapacity`).
const ENDPOINTS_CAPACITY: usize = 1000;

/// The pod whose readiness changes.
const CHANGED: &str = "web-0";

/// Creates a Service and its pods, waits until all are ready, then changes the readiness of one pod so many times and prints
/// how long each kind of object took to show it. Endpoints are left out if they can't name all pods.
pub(crate) async fn run(client: &Client, pods: usize, changes: usize) -> Result<(), Error> {
    let namespace = namespaces(client, 1).await?.remove(0);
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80 }] },
    });
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    services.create(&PostParams::default(), &decoded(service)).await?;
    let api = Api::<Pod>::namespaced(client.clone(), &namespace);
    let begun = Instant::now();
    let created = stream::iter(0..pods).map(|number| {
        let (api, pod) = (api.clone(), decoded(pod(number)));
        async move { api.create(&PostParams::default(), &pod).await.map(drop) }
    });
    created.buffer_unordered(AT_ONCE).try_collect::<()>().await?;

    let slices = Api::<EndpointSlice>::namespaced(client.clone(), &namespace);
    let in_slices =
        watcher(slices.clone(), watcher::Config::default().labels("kubernetes.io/service-name=web"));
    let mut in_slices = pin!(in_slices.default_backoff().touched_objects());
    loop {
        let all = slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await?;
        if all.items.iter().map(ready_in_slice).sum::<usize>() == pods {
            break;
        }
        next(&mut in_slices).await?;
    }
    report(&format!("a service of {pods} pods, created to complete: {:?}", begun.elapsed()));

    let in_endpoints = watcher(
        Api::<Endpoints>::namespaced(client.clone(), &namespace),
        watcher::Config::default().fields("metadata.name=web"),
    );
    let mut in_endpoints = pin!(in_endpoints.default_backoff().touched_objects());
    let (mut by_slices, mut by_endpoints) = (Vec::new(), Vec::new());
    for change in 0..changes {
        let is_ready = change % 2 == 1;
        let begun = Instant::now();
        api.patch_status(CHANGED, &PatchParams::default(), &Patch::Strategic(readiness(is_ready))).await?;
        let in_slices = async {
            while next(&mut in_slices).await?.is_none_or(|slice| shown_by_slice(&slice) != Some(is_ready)) {}
            Ok::<_, Error>(begun.elapsed())
        };
        let in_endpoints = async {
            if pods > ENDPOINTS_CAPACITY {
                return Ok(None);
            }
            while next(&mut in_endpoints).await?.is_none_or(|all| shown_by_endpoints(&all) != Some(is_ready))
            {
            }
            Ok::<_, Error>(Some(begun.elapsed()))
        };
        let (slices, endpoints) = tokio::try_join!(in_slices, in_endpoints)?;
        by_slices.push(slices);
        by_endpoints.extend(endpoints);
    }
    for (kind, mut took) in [("EndpointSlices", by_slices), ("Endpoints", by_endpoints)] {
        if !took.is_empty() {
            took.sort();
            let (p50, p99) = (percentile(&took, 50), percentile(&took, 99));
            report(&format!("readiness to {kind}: p50 {p50:?}, p99 {p99:?}"));
        }
    }
    Ok(())
}

async fn next<T>(
    objects: &mut (impl Stream<Item = Result<T, watcher::Error>> + Unpin),
) -> Result<Option<T>, Error> {
    Ok(objects.try_next().await?)
}

/// The nearest-rank percentile of sorted durations. There must be at least one.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
}

fn ready_in_slice(slice: &EndpointSlice) -> usize {
    let ready = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
    };
    slice.endpoints.iter().flatten().filter(|endpoint| ready(endpoint)).count()
}

/// Whether the slice says that the changed pod is ready; `None` if the slice does not name the pod.
fn shown_by_slice(slice: &EndpointSlice) -> Option<bool> {
    let mut endpoints = slice.endpoints.iter().flatten();
    let endpoint = endpoints.find(|endpoint| {
        endpoint.target_ref.as_ref().is_some_and(|pod| pod.name.as_deref() == Some(CHANGED))
    })?;
    endpoint.conditions.as_ref()?.ready
}

/// Whether the Endpoints say that the changed pod is ready; `None` if they do not name the pod.
fn shown_by_endpoints(endpoints: &Endpoints) -> Option<bool> {
    let names = |addresses: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
        let mut pods = addresses.iter().flatten().filter_map(|address| address.target_ref.as_ref());
        pods.any(|pod| pod.name.as_deref() == Some(CHANGED))
    };
    let mut subsets = endpoints.subsets.iter().flatten();
    subsets.find_map(|subset| {
        let ready = names(&subset.addresses);
        (ready || names(&subset.not_ready_addresses)).then_some(ready)
    })
}

fn pod(number: usize) -> Value {
    json!({
        "metadata": { "name": format!("web-{number}"), "labels": { "app": "web" } },
        "spec": { "containers": [{
            "name": "main", "image": "registry.k8s.io/pause:3.9",
            "ports": [{ "name": "http", "containerPort": 8080 }],
        }] },
    })
}

fn readiness(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } })
}

fn decoded<T: DeserializeOwned>(manifest: Value) -> T {
    serde_json::from_value(manifest).expect("the manifest must be an object of its kind")
}
