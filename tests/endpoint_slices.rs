//! EndpointSlices of services, as users see them. With `STEERSMAN_TEST_MANAGER` naming kube-controller-manager, the tests show
//! that they describe what Kubernetes does.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

#[path = "endpoint_slices/failures.rs"]
mod failures;

use std::collections::BTreeSet;
use std::ops::Deref;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use support::manager::Manager;
use support::slices::Slices;
use support::{Cluster, Server, eventually};

const CONTROLLERS: &str =
    "--controllers=endpointslice-controller,endpointslice-mirroring-controller,endpoints-controller";

/// A cluster whose manager runs the controllers of endpoints.
struct Managed {
    slices: Slices,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start(flags: &[&str]) -> Self {
        Self::on(Cluster::start_alone().await, flags).await
    }

    async fn on(cluster: Cluster, flags: &[&str]) -> Self {
        let slices = Slices::start(cluster.client()).await;
        let manager = Manager::start(&cluster.kubeconfig(), &[&[CONTROLLERS], flags].concat());
        Self { slices, manager, cluster }
    }
}

impl Deref for Managed {
    type Target = Slices;

    fn deref(&self) -> &Slices {
        &self.slices
    }
}

#[tokio::test]
async fn slices_follow_the_service_and_its_pods() {
    let managed = Managed::start(&[]).await;
    managed.service("web", json!({})).await;
    let placeholder = managed.shows("web", &[]).await;
    assert_eq!((placeholder.len(), placeholder[0].ports.clone().unwrap_or_default().len()), (1, 0));

    managed.pod("a", "web", "es-node-1", "10.1.0.1", true).await;
    managed.pod("b", "web", "es-node-2", "10.1.0.2", false).await;
    let slices = managed.shows("web", &[("10.1.0.1", "rs"), ("10.1.0.2", "")]).await;
    let slice = serde_json::to_value(&slices[0]).unwrap();
    assert_eq!(slice["metadata"]["name"], json!(placeholder[0].metadata.name), "the placeholder is filled");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    assert_eq!((&slice["addressType"], &slice["metadata"]["generateName"]), (&json!("IPv4"), &json!("web-")));
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let endpoint = slice["endpoints"].as_array().unwrap().iter().find(|one| one["targetRef"]["name"] == "a");
    let endpoint = endpoint.unwrap();
    assert_eq!((&endpoint["nodeName"], &endpoint["zone"]), (&json!("es-node-1"), &json!("z1")));

    managed.ready("b", true).await;
    managed.shows("web", &[("10.1.0.1", "rs"), ("10.1.0.2", "rs")]).await;
    managed.mark("a", json!({"phase": "Succeeded"})).await;
    managed.ready("a", false).await;
    managed.shows("web", &[("10.1.0.2", "rs")]).await;

    // A slice that somebody deletes or changes is made right again.
    let name = managed.of("web").await[0].metadata.name.clone().unwrap();
    managed.slices().delete(&name, &DeleteParams::default()).await.unwrap();
    let slices = managed.shows("web", &[("10.1.0.2", "rs")]).await;
    let patch = Patch::Merge(json!({"endpoints": []}));
    let name = slices[0].metadata.name.clone().unwrap();
    managed.slices().patch(&name, &PatchParams::default(), &patch).await.unwrap();
    managed.shows("web", &[("10.1.0.2", "rs")]).await;

    if managed.manager.is_steersman() {
        let (_, metrics) = managed.manager.get("/metrics").await.unwrap();
        // On a real server the manager also has the services of other tests.
        let counts = [
            ("endpoints_desired", "1"),
            ("num_endpoint_slices", "1"),
            ("desired_endpoint_slices", "1"),
            ("changes{operation=\"create\"}", "2"),
        ];
        let is_alone = matches!(managed.cluster.server, Server::Embedded(_));
        for (metric, value) in counts.into_iter().filter(|_| is_alone) {
            let line = format!("endpoint_slice_controller_{metric} {value}\n");
            assert!(metrics.contains(&line), "{line} in {metrics}");
        }
        for metric in [
            "endpoints_added_per_sync_count",
            "endpoints_removed_per_sync_count",
            "changes{operation=\"update\"}",
            "endpointslices_changed_per_sync_count{topology=\"Disabled\",traffic_distribution=\"\"}",
            "syncs{result=\"success\"}",
        ] {
            assert!(
                metrics.contains(&format!("\nendpoint_slice_controller_{metric} ")),
                "{metric} in {metrics}"
            );
        }
    }
}

#[tokio::test]
async fn slices_have_at_most_the_maximum_and_keep_their_endpoints() {
    let managed = Managed::start(&["--max-endpoints-per-slice=3"]).await;
    managed.service("web", json!({})).await;
    managed.shows("web", &[]).await;
    let ips: Vec<String> = (1..=8).map(|at| format!("10.1.0.{at}")).collect();
    for (at, ip) in ips.iter().enumerate() {
        managed.pod(&format!("p{at}"), "web", "es-node-1", ip, true).await;
    }
    let all: Vec<_> = ips.iter().map(|ip| (ip.as_str(), "rs")).collect();
    let before = managed.shows("web", &all).await;
    assert!(before.len() >= 3 && before.iter().all(|slice| slice.endpoints.iter().flatten().count() <= 3));
    let places = |slices: &[EndpointSlice]| -> BTreeSet<(String, String)> {
        let each = slices.iter().flat_map(|slice| {
            let name = slice.metadata.name.clone().unwrap();
            slice
                .endpoints
                .iter()
                .flatten()
                .map(move |endpoint| (name.clone(), endpoint.addresses[0].clone()))
        });
        each.collect()
    };
    managed.ready("p0", false).await;
    let mut changed = all.clone();
    changed[0].1 = "";
    let after = managed.shows("web", &changed).await;
    assert_eq!(places(&before), places(&after), "no endpoint moves");
    let version = |slices: &[EndpointSlice]| -> BTreeSet<_> {
        slices.iter().map(|slice| slice.metadata.resource_version.clone().unwrap()).collect()
    };
    assert_eq!(version(&before).difference(&version(&after)).count(), 1, "one slice is written");
}

#[tokio::test]
async fn traffic_distribution_gives_hints() {
    let managed = Managed::start(&[]).await;
    managed.service("web", json!({"trafficDistribution": "PreferClose"})).await;
    managed.pod("a", "web", "es-node-1", "10.1.0.1", true).await;
    managed.pod("b", "web", "es-node-2", "10.1.0.2", true).await;
    managed.shows("web", &[("10.1.0.1", "rs"), ("10.1.0.2", "rs")]).await;
    let hints = |slices: Vec<EndpointSlice>| -> Vec<String> {
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let mut hints: Vec<String> = endpoints
            .map(|endpoint| {
                let zones = endpoint.hints.iter().flat_map(|hints| hints.for_zones.iter().flatten());
                format!(
                    "{}:{}",
                    endpoint.addresses[0],
                    zones.map(|zone| zone.name.as_str()).collect::<String>()
                )
            })
            .collect();
        hints.sort();
        hints
    };
    assert_eq!(hints(managed.of("web").await), ["10.1.0.1:z1", "10.1.0.2:z2"]);
    let services = Api::<Service>::default_namespaced(managed.client.clone());
    let patch = Patch::Merge(json!({"spec": {"trafficDistribution": null}}));
    services.patch("web", &PatchParams::default(), &patch).await.unwrap();
    eventually("the hints are gone", || async {
        (hints(managed.of("web").await) == ["10.1.0.1:", "10.1.0.2:"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn slices_of_others_and_of_services_without_selector_are_left_alone() {
    let managed = Managed::start(&[]).await;
    let foreign = json!({
        "metadata": {"name": "foreign", "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "me"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.0.1"]}],
    });
    let created = managed
        .slices()
        .create(&PostParams::default(), &serde_json::from_value(foreign).unwrap())
        .await
        .unwrap();
    managed.service("web", json!({})).await;
    managed.service("bare", json!({"selector": null})).await;
    managed.pod("a", "web", "es-node-1", "10.1.0.1", true).await;
    managed.shows("web", &[("10.1.0.1", "rs"), ("10.9.0.1", "")]).await;
    let now = managed.slices().get("foreign").await.unwrap();
    assert_eq!(now.metadata.resource_version, created.metadata.resource_version);
    assert!(managed.of("bare").await.is_empty());
}

#[tokio::test]
async fn endpoints_without_selector_are_mirrored() {
    let managed = Managed::start(&[]).await;
    managed.service("db", json!({"selector": null})).await;
    let endpoints = Api::<Endpoints>::default_namespaced(managed.client.clone());
    let object = json!({
        "metadata": {"name": "db", "labels": {"tier": "data"}, "annotations": {"note": "x"}},
        "subsets": [{
            "addresses": [{"ip": "10.2.0.1"}], "notReadyAddresses": [{"ip": "10.2.0.2"}],
            "ports": [{"name": "http", "port": 5432}],
        }],
    });
    endpoints.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let slices = managed.shows("db", &[("10.2.0.1", "r"), ("10.2.0.2", "")]).await;
    let slice = serde_json::to_value(&slices[0]).unwrap();
    assert_eq!(slice["metadata"]["annotations"], json!({"note": "x"}));
    assert_eq!(slice["metadata"]["labels"]["tier"], "data");
    assert_eq!(
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 5432, "protocol": "TCP"}]));
    let subsets = json!([{"addresses": [{"ip": "10.2.0.3"}], "ports": [{"name": "http", "port": 5432}]}]);
    let patch = Patch::Merge(json!({"subsets": subsets}));
    endpoints.patch("db", &PatchParams::default(), &patch).await.unwrap();
    managed.shows("db", &[("10.2.0.3", "r")]).await;
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    endpoints.patch("db", &PatchParams::default(), &Patch::Merge(skip)).await.unwrap();
    eventually("the mirror is gone", || async { managed.of("db").await.is_empty().then_some(()) }).await;
}

/// The embedded server gives services IPv4 addresses only.
#[tokio::test]
async fn a_dual_stack_service_has_slices_of_both_families() {
    let managed = Managed::start(&[]).await;
    if matches!(managed.cluster.server, Server::Embedded(_)) {
        return;
    }
    managed.service("web", json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    managed.service("six", json!({"selector": {"app": "web"}, "ipFamilies": ["IPv6"]})).await;
    managed.service("four", json!({"selector": {"app": "web"}})).await;
    managed.pod_with("a", "web", "es-node-1", &["10.1.0.1", "fd00:1::1"], true).await;
    managed.pod("b", "web", "es-node-2", "10.1.0.2", true).await;
    let (four, six) = ([("10.1.0.1", "rs"), ("10.1.0.2", "rs")], [("fd00:1::1", "rs")]);
    let slices = managed.shows("web", &[four[0], four[1], six[0]]).await;
    let mut types: Vec<_> = slices.iter().map(|slice| slice.address_type.as_str()).collect();
    types.sort_unstable();
    assert_eq!(types, ["IPv4", "IPv6"]);
    managed.shows("six", &six).await;
    managed.shows("four", &four).await;

    // A service that gives up a family loses the slice of it.
    let services = Api::<Service>::default_namespaced(managed.client.clone());
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}});
    services.patch("web", &PatchParams::default(), &Patch::Merge(single)).await.unwrap();
    assert_eq!(managed.shows("web", &four).await.len(), 1);
}
