//! Tests of the plan: a service, pods and slices in, writes out.

mod hints;
mod packing;
mod slices;

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_controller::children::Grounds;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_informer::wire::{Encoding, Object, Selection};
use steersman_kinds::endpoint_slice::EndpointSlice;
use steersman_testing::{Pod, pod};

use super::observed::Observed;
use super::plan::plan;
use super::step::Step;
use crate::membership::{RoutedService, Triggers};
use crate::slices::{CachedSlice, Outcome};

/// A service `ns/web` that selects `app: web`, with one port, changed by `patch`.
fn service(patch: Value) -> View<RoutedService> {
    let mut service = json!({
        "metadata": {"namespace": "ns", "name": "web", "uid": "s", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
    });
    json_patch::merge(&mut service, &patch);
    View::from_json(&service)
}

/// A ready pod with the label `app: web` and an address, whose uid is its name, on node `n1`.
fn serving(name: &str, ip: &str) -> Pod {
    pod(name).namespace("ns").uid(name).label("app", "web").on("n1").phase("Running").ready().ip(ip)
}

/// The endpoint of a pod that [`serving`] makes, changed by `patch`.
fn endpoint(name: &str, ip: &str, patch: Value) -> Value {
    let mut endpoint = json!({
        "addresses": [ip], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}, "zone": "z1",
    });
    json_patch::merge(&mut endpoint, &patch);
    endpoint
}

/// A slice as this controller would have written it for the plain service, changed by `patch`.
fn stored(name: &str, endpoints: Value, patch: Value) -> Value {
    let mut slice = json!({
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": "7",
            "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [owner()],
        },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    json_patch::merge(&mut slice, &patch);
    slice
}

fn owner() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s", "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// What a sync sees. Node `n1` is in zone `z1`, `n2` in `z2`, `n3` in none.
fn observed(service: View<RoutedService>, pods: Vec<Pod>, slices: Vec<Value>) -> Observed {
    let slice = |slice: Value| {
        let body = slice.to_string().into();
        Arc::new(EndpointSlice::decode(&body, Encoding::Json, CachedSlice::GROUPS).unwrap())
    };
    let zones = [("n1", Some("z1")), ("n2", Some("z2")), ("n3", None)];
    Observed {
        service,
        pods: pods.into_iter().map(|pod| View::from_json(&pod.build())).collect(),
        zones: zones.into_iter().map(|(node, zone)| (node.into(), zone.map(Into::into))).collect(),
        slices: slices.into_iter().map(slice).collect(),
        grounds: Grounds::Sure,
        max_endpoints: 100,
        ratios: None,
        had_hints: false,
        trigger: None,
        triggers: Triggers::default(),
        begun: Vec::new(),
        incomplete: Vec::new(),
        failures: Vec::new(),
    }
}

/// All steps of a sync in which every call succeeds, without the beginnings of its parts; they are in `observed.begun`.
fn steps(observed: &mut Observed) -> Vec<Step> {
    let mut all = Vec::new();
    for _ in 0..10 {
        match plan(observed) {
            Plan::Done { .. } => return all,
            Plan::Act(batch) => {
                for step in batch.steps {
                    if !matches!(step, Step::Begin(_)) {
                        all.push(step.clone());
                    }
                    let failed = |why: &String| {
                        StepResult::Failed(steersman_controller::controller::SyncError::Failed(why.clone()))
                    };
                    let result = if let Step::Fail(why) = &step {
                        failed(why)
                    } else {
                        StepResult::Done(Outcome::Done)
                    };
                    observed.absorb(step, result);
                }
            }
        }
    }
    panic!("the plan has no end");
}

/// The writes of a sync: `create`, `update NAME` or `delete NAME`, and the object that is written.
fn writes(mut observed: Observed) -> Vec<(String, Value)> {
    let write = |step: Step| match step {
        Step::Create(manifest) => ("create".to_owned(), json_of(&manifest)),
        Step::Update(manifest) => (format!("update {}", manifest.metadata.name), json_of(&manifest)),
        Step::Delete(slice) => (format!("delete {}", slice.key.name), Value::Null),
        Step::Confirm | Step::Begin(_) | Step::Fail(_) => panic!("{step:?}"),
    };
    steps(&mut observed).into_iter().map(write).collect()
}

fn json_of(manifest: &crate::slices::Manifest) -> Value {
    steersman_api::schema::decode(&manifest.to_protobuf()).unwrap()
}
