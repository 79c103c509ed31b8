//! The ranges of services' addresses, which the manager, as a process, keeps while services need them.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &["--controllers=service-cidr-controller"];
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const STILL_REFERENCED: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// A cluster with a manager at work. ServiceCIDRs have no namespace, so each test has ranges of its own.
struct Managed {
    cidrs: Api<ServiceCIDR>,
    addresses: Api<IPAddress>,
    services: Api<Service>,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let client = cluster.client();
        Self {
            manager: Manager::start(&cluster.kubeconfig(), FLAGS),
            cidrs: Api::all(client.clone()),
            addresses: Api::all(client.clone()),
            services: Api::default_namespaced(client),
            cluster,
        }
    }

    /// Makes a ServiceCIDR, and waits until it is ready.
    async fn range(&self, name: &str, cidrs: Value) {
        let cidr = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
        self.cidrs.create(&PostParams::default(), &serde_json::from_value(cidr).unwrap()).await.unwrap();
        self.is(name, "True", "", "Kubernetes Service CIDR is ready").await;
    }

    /// Waits until a ServiceCIDR has this condition.
    async fn is(&self, name: &str, status: &str, reason: &str, message: &str) -> ServiceCIDR {
        eventually(&format!("{name} has Ready={status}"), || async {
            let cidr = self.cidrs.get(name).await.ok()?;
            let Condition { status: is, reason: because, message: says, .. } = ready(&cidr)?;
            ((is.as_str(), because.as_str(), says.as_str()) == (status, reason, message)).then_some(cidr)
        })
        .await
    }

    async fn is_blocked(&self, name: &str) {
        let cidr = self.is(name, "False", "Terminating", STILL_REFERENCED).await;
        assert_eq!(cidr.metadata.finalizers, Some(vec![FINALIZER.to_owned()]), "{name}");
    }

    /// Deletes a ServiceCIDR, which the finalizer keeps for some time.
    async fn delete(&self, name: &str) {
        let deleted = self.cidrs.delete(name, &DeleteParams::default()).await.unwrap();
        assert!(deleted.is_left(), "{name} was gone at once");
    }

    async fn is_gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), || async {
            self.cidrs.get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// Makes a service with this address. A real API server learns with a delay that it may give it.
    async fn service(&self, name: &str, address: &str) {
        let spec = json!({"ports": [{"port": 80}], "clusterIP": address, "ipFamilies": ["IPv4"]});
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service).unwrap();
        eventually(&format!("{name} has {address}"), || async {
            self.services.create(&PostParams::default(), &service).await.ok()
        })
        .await;
        let address = self.addresses.get(address).await.unwrap();
        let parent = serde_json::to_value(address.spec.parent_ref).unwrap();
        let namespace = &self.cluster.namespace;
        assert_eq!(parent, json!({"resource": "services", "namespace": namespace, "name": name}));
    }

    async fn delete_service(&self, name: &str, address: &str) {
        self.services.delete(name, &DeleteParams::default()).await.unwrap();
        eventually(&format!("{address} is free"), || async {
            self.addresses.get_opt(address).await.ok()?.is_none().then_some(())
        })
        .await;
    }
}

fn ready(cidr: &ServiceCIDR) -> Option<&Condition> {
    let conditions = cidr.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

#[tokio::test]
async fn a_service_cidr_is_protected_and_ready() {
    let managed = Managed::start().await;
    managed.range("new", json!(["192.168.0.0/28", "fd00:1::/112"])).await;
    for name in ["kubernetes", "new"] {
        let cidr = managed.is(name, "True", "", "Kubernetes Service CIDR is ready").await;
        assert_eq!(cidr.metadata.finalizers, Some(vec![FINALIZER.to_owned()]), "{name}");
        let managers = serde_json::to_value(cidr.metadata.managed_fields).unwrap();
        let of_status =
            managers.as_array().unwrap().iter().find(|entry| {
                entry["manager"] == "service-cidr-controller" && entry["subresource"] == "status"
            });
        let of_status = of_status.unwrap_or_else(|| panic!("{name}: {managers}"));
        assert_eq!(of_status["operation"], "Apply");
    }
    let version = managed.cidrs.get("new").await.unwrap().metadata.resource_version;
    // The controller goes through everything again, and finds nothing to do.
    let mut managed = managed;
    managed.manager.kill();
    managed.manager = Manager::start(&managed.cluster.kubeconfig(), FLAGS);
    managed.range("marker", json!(["192.168.0.32/28"])).await;
    assert_eq!(managed.cidrs.get("new").await.unwrap().metadata.resource_version, version);
    if managed.manager.is_steersman() {
        let (_, metrics) = managed.manager.get("/metrics").await.unwrap();
        assert!(metrics.contains("workqueue_adds_total{name=\"ipaddresses\"}"), "{metrics}");
    }
}

#[tokio::test]
async fn a_service_cidr_stays_while_a_service_has_an_address_of_it() {
    let managed = Managed::start().await;
    managed.range("used", json!(["192.168.1.0/28"])).await;
    managed.service("web", "192.168.1.5").await;
    managed.delete("used").await;
    managed.is_blocked("used").await;
    managed.delete_service("web", "192.168.1.5").await;
    managed.is_gone("used").await;
}

#[tokio::test]
async fn a_service_cidr_whose_addresses_another_one_covers_goes() {
    let managed = Managed::start().await;
    managed.range("small", json!(["192.168.2.0/28"])).await;
    managed.service("web", "192.168.2.5").await;
    managed.delete("small").await;
    managed.is_blocked("small").await;
    // One that covers the address is enough.
    managed.range("smaller", json!(["192.168.2.0/29"])).await;
    managed.is_gone("small").await;
    managed.delete("smaller").await;
    managed.is_blocked("smaller").await;
    managed.range("large", json!(["192.168.2.0/24"])).await;
    managed.is_gone("smaller").await;
    let service = managed.services.get("web").await.unwrap();
    assert_eq!(service.spec.unwrap().cluster_ip.as_deref(), Some("192.168.2.5"));
}

#[tokio::test]
async fn an_unused_service_cidr_goes_after_the_grace_period() {
    let managed = Managed::start().await;
    managed.range("unused", json!(["192.168.3.0/28"])).await;
    let began = tokio::time::Instant::now();
    managed.delete("unused").await;
    managed.is_gone("unused").await;
    // The stamp of the deletion has whole seconds.
    let took = began.elapsed();
    assert!(took > std::time::Duration::from_secs(8), "{took:?}");
}

/// Upstream's controller may let both go.
#[tokio::test]
async fn of_two_service_cidrs_that_cover_each_other_one_stays() {
    let managed = Managed::start().await;
    if !managed.manager.is_steersman() {
        return;
    }
    for name in ["one", "two"] {
        managed.range(name, json!(["192.168.4.0/28"])).await;
    }
    managed.service("web", "192.168.4.5").await;
    for name in ["one", "two"] {
        managed.delete(name).await;
    }
    let left = eventually("one is gone", || async {
        let one = managed.cidrs.get_opt("one").await.ok()?;
        let two = managed.cidrs.get_opt("two").await.ok()?;
        match (one, two) {
            (Some(_), Some(_)) => None,
            (None, Some(_)) => Some("two"),
            (Some(_), None) => Some("one"),
            (None, None) => panic!("both are gone"),
        }
    })
    .await;
    managed.is_blocked(left).await;
    managed.delete_service("web", "192.168.4.5").await;
    managed.is_gone(left).await;
}

#[tokio::test]
async fn a_manager_that_is_killed_and_started_again_goes_on() {
    let mut managed = Managed::start().await;
    managed.range("left", json!(["192.168.5.0/28"])).await;
    managed.service("web", "192.168.5.5").await;
    managed.delete("left").await;
    managed.is_blocked("left").await;
    managed.manager.kill();
    managed.delete_service("web", "192.168.5.5").await;
    managed.manager = Manager::start(&managed.cluster.kubeconfig(), FLAGS);
    managed.is_gone("left").await;
}
