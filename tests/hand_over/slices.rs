//! Slices of a service whose pods are being replaced while one manager hands over to another.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

use support::manager::Manager;
use support::slices::{Slices, endpoints, versions};
use support::{Cluster, eventually};

/// Starts a manager with these flags.
pub(super) type Start<'a> = &'a dyn Fn(&Path, &[&str]) -> Manager;

const FLAGS: &[&str] = &["--controllers=endpointslice-controller", "--max-endpoints-per-slice=10"];
/// The number of pods, which fill six slices.
const PODS: usize = 60;

/// The service `web`, whose pods are replaced by others.
struct Rollout {
    slices: Slices,
    /// The addresses of its pods.
    addresses: BTreeSet<String>,
    /// The number of pods that replaced others.
    replaced: usize,
}

impl Rollout {
    async fn start(cluster: &Cluster) -> Self {
        let slices = Slices::start(cluster.client()).await;
        slices.service("web", json!({})).await;
        let mut addresses = BTreeSet::new();
        for number in 1..=PODS {
            let ip = format!("10.1.0.{number}");
            slices.pod(&ip.replace('.', "-"), "web", "es-node-1", &ip, true).await;
            addresses.insert(ip);
        }
        Self { slices, addresses, replaced: 0 }
    }

    /// Replaces the pods with these addresses, one after the other.
    async fn replace(&mut self, addresses: &[String]) {
        for ip in addresses {
            self.replaced += 1;
            let new = format!("10.1.1.{}", self.replaced);
            self.slices.delete_pod(&ip.replace('.', "-")).await;
            self.slices.pod(&new.replace('.', "-"), "web", "es-node-2", &new, true).await;
            assert!(self.addresses.remove(ip), "{ip} must be the address of a pod");
            self.addresses.insert(new);
        }
    }

    /// Waits until the slices have each pod once.
    async fn is_shown(&self) -> Vec<EndpointSlice> {
        let shown = eventually("the slices have all pods", || async {
            let slices = self.slices.of("web").await;
            (addresses(&slices).into_iter().collect::<BTreeSet<_>>() == self.addresses).then_some(slices)
        })
        .await;
        assert_eq!(addresses(&shown).len(), PODS, "no endpoint is in two slices");
        shown
    }

    /// Waits until the running manager has made the slice of a new service. By then it has looked at the older one.
    async fn is_looked_at(&self, marker: &str) {
        self.slices.service(marker, json!({})).await;
        self.slices.shows(marker, &[]).await;
    }
}

/// The addresses of all endpoints.
fn addresses(slices: &[EndpointSlice]) -> Vec<String> {
    slices.iter().flat_map(endpoints).map(|endpoint| endpoint.addresses[0].clone()).collect()
}

/// Checks that only slices which had one of these addresses have been written.
fn only_theirs_are_written(before: &[EndpointSlice], after: &[EndpointSlice], replaced: &[String]) {
    let unaffected =
        |slice: &&EndpointSlice| endpoints(slice).all(|endpoint| !replaced.contains(&endpoint.addresses[0]));
    let after = versions(after);
    let unaffected: Vec<_> = before.iter().filter(unaffected).cloned().collect();
    assert!(unaffected.len() >= 4, "most slices are not affected");
    for (name, version) in versions(&unaffected) {
        assert_eq!(after.get(&name), Some(&version), "{name} was written");
    }
}

pub(super) async fn hand_over(cluster: &Cluster, first: Start<'_>, second: Start<'_>) {
    let kubeconfig = cluster.kubeconfig();
    let mut rollout = Rollout::start(cluster).await;
    let mut manager = first(&kubeconfig, FLAGS);
    let begun = rollout.is_shown().await;
    assert_eq!(begun.len(), PODS / 10);
    let of_slice = |at: usize| addresses(&begun[at..=at]);

    // The first manager does half of a slice.
    let half = &of_slice(0)[..5];
    rollout.replace(half).await;
    let held = rollout.is_shown().await;
    only_theirs_are_written(&begun, &held, half);
    manager.stop().await;

    // The second one finds nothing to do, and goes on with the other half.
    manager = second(&kubeconfig, FLAGS);
    rollout.is_looked_at("x-second").await;
    assert_eq!(versions(&rollout.slices.of("web").await), versions(&held), "it changed what the first left");
    let rest = &of_slice(0)[5..];
    rollout.replace(rest).await;
    let gone_on = rollout.is_shown().await;
    only_theirs_are_written(&held, &gone_on, rest);
    manager.stop().await;

    // Pods are replaced while no manager runs. The first one catches up.
    let missed = of_slice(1);
    rollout.replace(&missed).await;
    manager = first(&kubeconfig, FLAGS);
    let caught_up = rollout.is_shown().await;
    only_theirs_are_written(&gone_on, &caught_up, &missed);
    manager.stop().await;

    let _manager = second(&kubeconfig, FLAGS);
    rollout.is_looked_at("x-last").await;
    assert_eq!(versions(&rollout.slices.of("web").await), versions(&caught_up));
}
