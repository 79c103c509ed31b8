//! Services with their pods and EndpointSlices. Nodes and pods have no kubelet: the tests write their status.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::eventually;

/// The services of a namespace, with the nodes `es-node-1` and `es-node-2` in the zones `z1` and `z2`.
pub struct Slices {
    pub client: kube::Client,
}

impl Slices {
    /// Makes the nodes.
    pub async fn start(client: kube::Client) -> Self {
        for (node, zone) in [("es-node-1", "z1"), ("es-node-2", "z2")] {
            let node = json!({"metadata": {"name": node, "labels": {"topology.kubernetes.io/zone": zone}}});
            let nodes = Api::<Node>::all(client.clone());
            // Another test may have made it on the same server.
            let _ = nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await;
        }
        Self { client }
    }

    pub fn slices(&self) -> Api<EndpointSlice> {
        Api::default_namespaced(self.client.clone())
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Makes a service that selects the pods whose label `app` is its name.
    pub async fn service(&self, name: &str, spec: Value) {
        let mut service = json!({
            "metadata": {"name": name, "labels": {"team": "a"}},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        for (field, value) in spec.as_object().unwrap() {
            service["spec"][field] = value.clone();
        }
        let services = Api::<Service>::default_namespaced(self.client.clone());
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }

    /// Makes a running pod.
    pub async fn pod(&self, name: &str, app: &str, node: &str, ip: &str, ready: bool) {
        self.pod_with(name, app, node, &[ip], ready).await;
    }

    /// Makes a running pod with several addresses.
    pub async fn pod_with(&self, name: &str, app: &str, node: &str, ips: &[&str], ready: bool) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
        });
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        let status = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": status}]);
        let status = json!({"phase": "Running", "podIP": ips[0], "podIPs": all, "conditions": conditions});
        self.mark(name, status).await;
    }

    /// Deletes a pod at once.
    pub async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    pub async fn ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        self.mark(pod, json!({"conditions": [{"type": "Ready", "status": status}]})).await;
    }

    pub async fn mark(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The slices of a service.
    pub async fn of(&self, service: &str) -> Vec<EndpointSlice> {
        let labels = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        self.slices().list(&labels).await.unwrap().items
    }

    /// Waits until the slices of a service have these addresses, each with its conditions (`r`eady, `s`erving,
    /// `t`erminating).
    pub async fn shows(&self, service: &str, expected: &[(&str, &str)]) -> Vec<EndpointSlice> {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(ip, state)| ((*ip).to_owned(), (*state).to_owned())).collect();
        eventually(&format!("the slices of {service} have {expected:?}"), || async {
            let slices = self.of(service).await;
            let mut shown = BTreeMap::new();
            for endpoint in slices.iter().flat_map(endpoints) {
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                let states =
                    [("r", conditions.ready), ("s", conditions.serving), ("t", conditions.terminating)];
                let states = states.into_iter().filter(|(_, holds)| *holds == Some(true));
                shown.insert(endpoint.addresses[0].clone(), states.map(|(state, _)| state).collect());
            }
            (!slices.is_empty() && shown == expected).then_some(slices)
        })
        .await
    }
}

/// The endpoints of a slice.
pub fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = &Endpoint> {
    slice.endpoints.iter().flatten()
}

/// The version of each slice, by name.
pub fn versions(slices: &[EndpointSlice]) -> BTreeMap<String, String> {
    let each = slices.iter().map(|slice| &slice.metadata);
    each.map(|meta| (meta.name.clone().unwrap(), meta.resource_version.clone().unwrap())).collect()
}
