//! An IPAddress for each address of a service, and the ServiceCIDR that every cluster has.
//!
//! Upstream's allocator makes the IPAddress before the service. Here it follows the service, within the same turn, so that no
//! other service gets the address meanwhile.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_api::{ObjectKey, Uid};

use super::bootstrap::SELF;
use super::options::DeleteOptions;
use super::server::ApiServer;
use crate::managed_fields;
use crate::meta;
use crate::object;
use crate::refusal::Result;
use crate::registry::{DEFAULT_RANGE, DEFAULT_SERVICE_CIDR, IP_ADDRESSES, Resource, SERVICE_CIDRS};
use crate::store::Object;

/// The table of services.
const SERVICES: &str = "services";
/// The label of an IPAddress with the part of the cluster that manages it.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] for the addresses of services.
const ALLOCATOR: &str = "ipallocator.k8s.io";
/// The label of an IPAddress with its IP family.
const IP_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

impl ApiServer {
    /// Makes what is missing of the default ServiceCIDR and of the services' addresses, and deletes the addresses of services
    /// that are gone.
    pub(super) fn bootstrap_addresses(&self) {
        self.make_default_range();
        let all = |table: &str| self.store().snapshot(&table.into(), "", None).map(|all| all.objects);
        for service in all(SERVICES).unwrap_or_default() {
            addresses(&service).into_iter().for_each(|address| self.give(address, &service));
        }
        for address in all(IP_ADDRESSES).unwrap_or_default() {
            self.take_back(&address.key.name);
        }
    }

    /// Call this after an object was written, with its state before, or is gone, without a state now.
    pub(super) fn note_addresses(&self, old: Option<&Object>, new: Option<&Object>) {
        let Some(object) = new.or(old) else { return };
        match object.resource.table.as_str() {
            SERVICES => self.service_changed(old, new),
            IP_ADDRESSES if new.is_none() => self.give_again(object),
            SERVICE_CIDRS if new.is_none() && object.key.name == DEFAULT_SERVICE_CIDR => {
                self.make_default_range();
            }
            _ => {}
        }
    }

    fn service_changed(&self, old: Option<&Object>, new: Option<&Object>) {
        let (had, has) = (old.map(addresses).unwrap_or_default(), new.map(addresses).unwrap_or_default());
        for address in had.iter().filter(|address| !has.contains(address)) {
            self.take_back(&address.to_string());
        }
        if let Some(service) = new {
            has.iter()
                .filter(|address| !had.contains(address))
                .for_each(|address| self.give(*address, service));
        }
    }

    /// Makes the IPAddress of a service's address, unless there is one.
    fn give(&self, address: IpAddr, service: &Object) {
        let name = address.to_string();
        let object = json!({
            "metadata": {"name": name, "labels": {
                IP_FAMILY: if address.is_ipv4() { "IPv4" } else { "IPv6" },
                MANAGED_BY: ALLOCATOR,
            }},
            "spec": {"parentRef": {
                "group": "", "resource": SERVICES,
                "namespace": service.key.namespace.as_str(), "name": service.key.name.as_str(),
            }},
        });
        self.keep_own("ipaddresses", object);
        // The service may have been deleted since it was written, as deletions do not wait for their turn.
        self.take_back(&name);
    }

    /// Deletes an IPAddress whose service no longer has the address.
    fn take_back(&self, name: &str) {
        let Some(address) = self.store().get(&IP_ADDRESSES.into(), &ObjectKey::new("", name)) else { return };
        if self.service_of(&address).is_none_or(|service| self.has(&service, name)) {
            return;
        }
        let resource = &address.resource;
        if let Err(refusal) = self.remove(resource, "", name, &DeleteOptions::default()) {
            tracing::warn!(name, %refusal.status, "the address of a service could not be freed");
        }
    }

    /// Makes an IPAddress again that was deleted though a service has the address.
    fn give_again(&self, address: &Object) {
        let Some(key) = self.service_of(address).filter(|key| self.has(key, &address.key.name)) else {
            return;
        };
        let service = self.store().get(&SERVICES.into(), &key);
        if let (Some(service), Ok(address)) = (service, address.key.name.parse()) {
            self.give(address, &service);
        }
    }

    /// The service that has an address, if the API server gave it.
    fn service_of(&self, address: &Object) -> Option<ObjectKey> {
        #[derive(Deserialize)]
        struct Address {
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            parent_ref: Parent,
        }
        #[derive(Deserialize)]
        struct Parent {
            #[serde(default)]
            namespace: String,
            #[serde(default)]
            name: String,
        }

        if address.label(MANAGED_BY) != Some(ALLOCATOR) {
            return None;
        }
        let Parent { namespace, name } = address.read::<Address>()?.spec.parent_ref;
        Some(ObjectKey::new(namespace, name))
    }

    /// Whether there is such a service, with that address.
    fn has(&self, service: &ObjectKey, address: &str) -> bool {
        let service = self.store().get(&SERVICES.into(), service);
        service.is_some_and(|service| addresses(&service).iter().any(|own| own.to_string() == address))
    }

    fn make_default_range(&self) {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": meta::stamp(self.clock().now()),
        });
        let object = json!({
            "metadata": {"name": DEFAULT_SERVICE_CIDR}, "spec": {"cidrs": [DEFAULT_RANGE]},
            "status": {"conditions": [ready]},
        });
        self.keep_own("servicecidrs", object);
    }

    /// Stores an object of the group `networking.k8s.io` that the server makes by itself, unless there is one of that name.
    /// Takes no turn: the caller may have it.
    fn keep_own(&self, plural: &str, object: Value) {
        let resources = self.resources();
        let resource = resources.get("networking.k8s.io", "v1", plural);
        let resource = resource.expect("the schema table must have the kinds of services' addresses");
        let key = ObjectKey::new("", object::text_at(&object, "metadata.name"));
        if self.store().get(&resource.table, &key).is_some() {
            return;
        }
        match self.complete(resource, object) {
            Ok(object) => match self.store().create(resource, key.clone(), object) {
                Ok(_) | Err(crate::store::Error::Exists) => {}
                Err(error) => {
                    tracing::warn!(kind = %resource.kind, name = %key.name, %error, "an object was not stored");
                }
            },
            Err(refusal) => {
                tracing::warn!(kind = %resource.kind, name = %key.name, %refusal.status, "an object was not made");
            }
        }
    }

    /// A new object of the server's own, in the form in which it is stored.
    fn complete(&self, resource: &Arc<Resource>, mut object: Value) -> Result<Value> {
        self.track_new(resource, &mut object, SELF);
        let managed = managed_fields::take(&mut object);
        let metadata = object::metadata(&mut object);
        metadata.insert("uid".to_owned(), Uid::random().to_string().into());
        metadata.insert("creationTimestamp".to_owned(), meta::stamp(self.clock().now()).into());
        let mut object = self.shown(resource, object)?;
        managed_fields::put(&mut object, managed);
        Ok(object)
    }
}

/// The addresses of a service. Those of a headless service are none.
fn addresses(service: &Object) -> Vec<IpAddr> {
    #[derive(Deserialize)]
    struct Service {
        #[serde(default)]
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    struct Spec {
        #[serde(default, rename = "clusterIPs")]
        cluster_ips: Vec<String>,
    }

    let service = service.read::<Service>();
    let texts = service.map(|service| service.spec.cluster_ips).unwrap_or_default();
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}
