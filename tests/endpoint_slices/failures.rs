//! Slices under managers that are killed, and with caches that lag.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use steersman_apiserver::{Calls, Verb};

use super::{CONTROLLERS, Managed};
use support::manager::Manager;
use support::slices::{Slices, endpoints};
use support::{Cluster, eventually};

/// So few calls a second that a manager can be killed in the middle of its work.
const SLOW: &[&str] = &["--kube-api-qps=10", "--kube-api-burst=10"];

fn name(number: usize) -> String {
    format!("web-{number}")
}

/// Makes services with one pod each.
async fn services(slices: &Slices, numbers: std::ops::Range<usize>) {
    for number in numbers {
        slices.service(&name(number), json!({})).await;
        let (pod, ip) = (format!("pod-{number}"), format!("10.1.1.{number}"));
        slices.pod(&pod, &name(number), "es-node-1", &ip, true).await;
    }
}

/// The number of slices that services have.
async fn count(slices: &Slices) -> usize {
    slices.slices().list(&Default::default()).await.unwrap().items.len()
}

/// Waits until each service has its endpoint. Each must have one slice then.
async fn each_has_one(slices: &Slices, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let of_service = slices.shows(&name(number), &[(&format!("10.1.1.{number}"), "rs")]).await;
        assert_eq!(of_service.len(), 1, "{}: {of_service:?}", name(number));
    }
}

#[tokio::test]
async fn managers_that_are_killed_leave_one_slice_for_each_service() {
    let mut managed = Managed::start(SLOW).await;
    services(&managed, 1..41).await;
    for made in [5, 15, 25, 35] {
        eventually(&format!("{made} slices"), || async { (count(&managed).await >= made).then_some(()) })
            .await;
        managed.manager.kill();
        managed.manager = Manager::start(&managed.cluster.kubeconfig(), &[&[CONTROLLERS], SLOW].concat());
    }
    each_has_one(&managed, 1..41).await;
    assert_eq!(count(&managed).await, 40);
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let slices = Slices::start(cluster.client()).await;
    services(&slices, 1..31).await;
    let (mut first, _second) = two_managers(&cluster, SLOW).await;
    eventually("some slices", || async { (count(&slices).await >= 5).then_some(()) }).await;
    first.kill();
    each_has_one(&slices, 1..31).await;
    assert_eq!(count(&slices).await, 30);
}

/// Starts a manager, waits until it leads, and starts a second candidate.
async fn two_managers(cluster: &Cluster, flags: &[&str]) -> (Manager, Manager) {
    let lease = format!("slices-{}", cluster.namespace);
    let resource = format!("--leader-elect-resource-name={lease}");
    let terms = [
        CONTROLLERS,
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=400ms",
        &resource,
    ];
    let flags = [&terms, flags].concat();
    let leases = Api::<Lease>::namespaced(cluster.client(), "kube-system");
    let first = Manager::start_candidate(&cluster.kubeconfig(), &flags);
    eventually("the first leads", || async {
        leases.get(&lease).await.ok()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
    })
    .await;
    (first, Manager::start_candidate(&cluster.kubeconfig(), &flags))
}

#[tokio::test]
async fn a_watch_that_lags_leads_to_no_slice_too_many() {
    let managed = Managed::on(Cluster::start_embedded().await, &[]).await;
    let server = managed.cluster.embedded();
    server.faults().delay_watches(Calls::to("endpointslices"), Duration::from_secs(2));
    let recording = server.record();
    services(&managed, 1..6).await;
    // Each change comes before the manager's cache shows what came of the one before.
    for number in 1..6 {
        let (service, ip) = (name(number), format!("10.1.1.{number}"));
        managed.shows(&service, &[(&ip, "rs")]).await;
        managed.ready(&format!("pod-{number}"), false).await;
        managed.shows(&service, &[(&ip, "")]).await;
        managed.ready(&format!("pod-{number}"), true).await;
    }
    each_has_one(&managed, 1..6).await;
    server.faults().clear();
    assert_eq!(recording.count(&Calls::to("endpointslices").verb(Verb::Create)), 5);
    assert_eq!(recording.count(&Calls::to("endpointslices").verb(Verb::Delete)), 0);
}

/// Upstream's manager does not tell when its caches have synced, and trusts them at once.
#[tokio::test]
async fn a_new_leader_whose_cache_lags_makes_no_second_slice() {
    if Manager::is_upstream() {
        return;
    }
    let cluster = Cluster::start_embedded().await;
    let slices = Slices::start(cluster.client()).await;
    let server = cluster.embedded();
    let (mut first, mut second) = two_managers(&cluster, &[]).await;
    // The second has its caches by now, and hears nothing more of slices for a while.
    eventually("the second is ready", || async {
        let (code, _) = second.get("/readyz").await?;
        (code == 200).then_some(())
    })
    .await;
    server.faults().delay_watches(Calls::to("endpointslices"), Duration::from_secs(30));
    let recording = server.record();
    services(&slices, 1..11).await;
    each_has_one(&slices, 1..11).await;
    first.kill();
    // Slices of a service that is new to both show that the second leads, and has seen the others.
    services(&slices, 11..12).await;
    for number in 1..11 {
        slices.ready(&format!("pod-{number}"), false).await;
    }
    each_has_one(&slices, 11..12).await;
    for number in 1..11 {
        let of_service = slices.shows(&name(number), &[(&format!("10.1.1.{number}"), "")]).await;
        assert_eq!(of_service.len(), 1, "{}: {of_service:?}", name(number));
        assert_eq!(endpoints(&of_service[0]).count(), 1);
    }
    assert_eq!(recording.count(&Calls::to("endpointslices").verb(Verb::Create)), 11);
    assert_eq!(recording.count(&Calls::to("endpointslices").verb(Verb::Delete)), 0);
    server.faults().clear();
    second.kill();
}
