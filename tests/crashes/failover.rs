//! Leadership passes to the standby: when the leader is stopped, when its network is cut, and where the standby may not watch
//! the lease.

use serde_json::json;
use steersman_api::Status;
use steersman_apiserver::{Calls, Failure, Verb};

use crate::{JOB, candidate, indexed};
use support::audit::{action, requests};
use support::jobs::{self, Kubelet, job};
use support::manager::Manager;
use support::real::MANAGER_TOKEN;
use support::{Cluster, eventually, until};

/// Terms whose candidates poll so seldom that only the watch can tell them of a released lease before the test ends.
const SELDOM_POLLS: &[&str] = &[
    "--leader-elect-lease-duration=3600s",
    "--leader-elect-renew-deadline=3000s",
    "--leader-elect-retry-period=1000s",
    "--leader-elect-resource-name=failover-test",
];

/// Waits until a manager knows that another one leads.
async fn stands_by(manager: &Manager) {
    until("the standby sees the leader", || manager.log().contains("New leader elected")).await;
}

async fn leads(manager: &Manager) {
    until("it leads", || manager.log().contains("Successfully acquired lease")).await;
}

#[tokio::test]
async fn a_standby_leads_at_once_when_the_leader_is_stopped_again_and_again() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let start = || Manager::start_candidate(&cluster.kubeconfig(), &[JOB, SELDOM_POLLS].concat());
    let mut leader = start();
    leads(&leader).await;
    for round in 1..=5 {
        let standby = start();
        stands_by(&standby).await;
        assert!(leader.stop().await.success(), "{}", leader.log());
        jobs::create(&client, &job(&format!("round-{round}"), json!({}))).await;
        eventually("the standby makes the pod", || async {
            (jobs::pods(&client).await.len() >= round).then_some(())
        })
        .await;
        leader = standby;
    }
    assert_eq!(jobs::pods(&client).await.len(), 5, "one pod for each job");
}

#[tokio::test]
async fn a_leader_whose_network_is_cut_makes_nothing_twice_and_may_lead_again() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    let (relayed, relay) = cluster.kubeconfig_with_relay().await;
    let mut first = Manager::start_candidate(&relayed, &candidate());
    jobs::create(&client, &job("inherited", indexed(40, 4))).await;
    until("some indexes have succeeded", || kubelet.ended().len() >= 8).await;
    let mut second = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    stands_by(&second).await;

    relay.cut();
    jobs::create(&client, &job("unheard-of", indexed(10, 5))).await;
    for name in ["inherited", "unheard-of"] {
        jobs::wait_for(&client, name, "Complete").await;
    }
    until("the first knows that its lease is lost", || first.log().contains("Lost lease")).await;
    relay.heal();
    jobs::create(&client, &job("after", indexed(10, 5))).await;
    jobs::wait_for(&client, "after", "Complete").await;

    // The first has not ended: it stands by, and leads again.
    until("the first sees its successor", || first.log().matches("New leader elected").count() == 2).await;
    eventually("the first is ready", || async {
        (first.get("/readyz").await? == (200, "ok".to_owned())).then_some(())
    })
    .await;
    assert!(second.stop().await.success(), "{}", second.log());
    jobs::create(&client, &job("again", indexed(10, 5))).await;
    jobs::wait_for(&client, "again", "Complete").await;
    assert!(first.stop().await.success(), "{}", first.log());
    for (name, completions) in [("inherited", 40), ("unheard-of", 10), ("after", 10), ("again", 10)] {
        let job = jobs::wait_for(&client, name, "Complete").await;
        assert_eq!(job.status.unwrap().succeeded, Some(completions), "{name}");
    }
    assert_eq!(kubelet.ended().len(), 70, "no index twice");
}

#[tokio::test]
async fn a_standby_that_may_not_watch_the_lease_polls_it_and_says_nothing() {
    let cluster = Cluster::start_embedded().await;
    let client = cluster.client();
    let forbidden = Status::failure(403, "Forbidden", "leases.coordination.k8s.io is forbidden");
    let watches = Calls::to("leases").verb(Verb::Watch);
    let faults = cluster.embedded().faults();
    faults.fail(usize::MAX, watches, Failure::Status(forbidden.into()));
    let mut first = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    leads(&first).await;
    let second = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    stands_by(&second).await;
    until("the standby has asked for the watch", || faults.pending() == usize::MAX - 1).await;
    assert!(first.stop().await.success());
    jobs::create(&client, &job("one", json!({}))).await;
    eventually("the standby makes the pod", || async {
        (jobs::pods(&client).await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(faults.pending(), usize::MAX - 1, "it does not ask again and again");
    let log = second.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}

#[tokio::test]
async fn the_role_of_kube_controller_manager_allows_the_watch_of_the_lease() {
    let Some(cluster) = Cluster::start_audited().await else {
        return println!("no real API server is at hand: not run");
    };
    let kubeconfig = cluster.kubeconfig_with_token(MANAGER_TOKEN);
    let first = Manager::start_candidate(&kubeconfig, JOB);
    leads(&first).await;
    let of_leases = || {
        let log = cluster.audit_log();
        let found = requests(&log).filter(|(_, request)| request["objectRef"]["resource"] == "leases");
        found
            .map(|(_, request)| (action(request), request["responseStatus"]["code"].clone()))
            .collect::<Vec<_>>()
    };
    // The log shows a watch when it ends. A standby may be stopped before it has begun one.
    eventually("the watch of a standby has ended", || async {
        let standby = Manager::start_candidate(&kubeconfig, JOB);
        stands_by(&standby).await;
        drop(standby);
        of_leases().iter().any(|(action, _)| action == "watch leases").then_some(())
    })
    .await;
    let denied: Vec<_> = of_leases().into_iter().filter(|(_, code)| *code == 403).collect();
    assert!(denied.is_empty(), "{denied:?}");
}
