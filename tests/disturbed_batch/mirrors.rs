//! Endpoints of services without selectors, and the EndpointSlices that mirror them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::record::Record;
use support::slices::{Slices, endpoints};

/// The number of services.
const SERVICES: usize = 20;

/// Each address with its port and its readiness, in order.
type Addresses = Vec<(String, i32, bool)>;

/// The Endpoints of a namespace, and the slices that mirror them.
pub(super) struct Mirrors {
    slices: Slices,
    endpoints: Api<Endpoints>,
    record: Record,
}

fn name(number: usize) -> String {
    format!("db-{number}")
}

/// The number of slices that mirror the Endpoints of this number: one for each subset.
fn slices_of(number: usize) -> usize {
    1 + number % 2
}

/// The subsets of the Endpoints of this number. Each generation has other addresses, and the same ports.
fn subsets(number: usize, generation: usize) -> Value {
    let subset = |at: usize| {
        let ip =
            |kind: usize| json!([{ "ip": format!("10.{}.{generation}.{}", 10 * at + kind, number + 1) }]);
        json!({
            "addresses": ip(1), "notReadyAddresses": ip(2),
            "ports": [{ "name": format!("port-{at}"), "port": 5432 + at }],
        })
    };
    (1..=slices_of(number)).map(subset).collect()
}

impl Mirrors {
    /// The namespace's Endpoints, of which there are none yet.
    pub(super) async fn of(client: &kube::Client) -> Self {
        let barrier = json!({ "addressType": "IPv4", "endpoints": [] });
        Self {
            slices: Slices { client: client.clone() },
            endpoints: Api::default_namespaced(client.clone()),
            record: Record::start::<EndpointSlice>(client, barrier).await,
        }
    }

    /// Creates services without selectors, and their Endpoints.
    pub(super) async fn begin(&self) {
        for number in 0..SERVICES {
            self.slices.service(&name(number), json!({ "selector": null })).await;
            let object = json!({ "metadata": { "name": name(number) }, "subsets": subsets(number, 1) });
            let object = serde_json::from_value(object).expect("they are Endpoints");
            self.endpoints.create(&PostParams::default(), &object).await.expect("Endpoints must be made");
        }
    }

    /// Changes the addresses of some Endpoints, and deletes others.
    pub(super) async fn go_on(&self) {
        for number in 0..SERVICES {
            if number % 6 == 0 {
                let deleted = self.endpoints.delete(&name(number), &DeleteParams::default()).await;
                deleted.expect("Endpoints must be deleted");
            } else if number % 3 != 1 {
                let patch = Patch::Merge(json!({ "subsets": subsets(number, 2) }));
                let patched = self.endpoints.patch(&name(number), &PatchParams::default(), &patch).await;
                patched.expect("Endpoints must be patched");
            }
        }
    }

    /// The names of the services whose slices do not have what the Endpoints have.
    pub(super) async fn left(&self) -> Vec<String> {
        let all = ListParams::default();
        let (mut wanted, mut mirrored) = (BTreeMap::new(), BTreeMap::<String, Addresses>::new());
        for object in self.endpoints.list(&all).await.expect("Endpoints must be listed").items {
            let name = object.metadata.name.expect("a stored object has a name");
            wanted.insert(name, in_order(object.subsets.iter().flatten().flat_map(of_subset).collect()));
        }
        for slice in self.slices.slices().list(&all).await.expect("slices must be listed").items {
            if let Some(service) = service_of(&slice.metadata) {
                mirrored.entry(service.clone()).or_default().extend(of_slice(&slice));
            }
        }
        let mirrored: BTreeMap<_, _> =
            mirrored.into_iter().map(|(name, found)| (name, in_order(found))).collect();
        (0..SERVICES).map(name).filter(|name| mirrored.get(name) != wanted.get(name)).collect()
    }

    /// Checks that each service has never had more slices than its Endpoints need.
    pub(super) async fn were_made_once(&self) {
        let mut slices = BTreeMap::<String, usize>::new();
        for meta in self.record.ever().await {
            if let Some(service) = service_of(&meta) {
                *slices.entry(service.clone()).or_default() += 1;
            }
        }
        let needed: BTreeMap<_, _> = (0..SERVICES).map(|number| (name(number), slices_of(number))).collect();
        assert_eq!(slices, needed);
    }

    /// The number of slices that had to be made.
    pub(super) fn count(&self) -> usize {
        (0..SERVICES).map(slices_of).sum()
    }
}

fn service_of(slice: &ObjectMeta) -> Option<&String> {
    slice.labels.as_ref()?.get("kubernetes.io/service-name")
}

fn of_subset(subset: &EndpointSubset) -> Addresses {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
    let addresses: Vec<(&EndpointAddress, bool)> = ready.chain(not_ready).collect();
    let of_port = |port: i32| {
        let each = addresses.iter();
        each.map(move |(address, ready)| (address.ip.clone(), port, *ready)).collect::<Addresses>()
    };
    subset.ports.iter().flatten().flat_map(|port| of_port(port.port)).collect()
}

fn of_slice(slice: &EndpointSlice) -> Addresses {
    let ports = slice.ports.iter().flatten().filter_map(|port| port.port);
    let of_port = |port: i32| {
        endpoints(slice).map(move |endpoint| {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
            (endpoint.addresses[0].clone(), port, ready == Some(true))
        })
    };
    ports.flat_map(of_port).collect()
}

fn in_order(mut addresses: Addresses) -> Addresses {
    addresses.sort();
    addresses
}
