//! Managers that are killed, API servers that restart, watches that lag, and kinds that can't be listed.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use steersman_apiserver::{Calls, Failure, Verb};

use super::{Managed, QUICK, SLOW};
use support::manager::Manager;
use support::owned::{Object, count};
use support::{Cluster, eventually};

/// Creates an owner with that many dependents, which block it.
async fn family(client: &kube::Client, owner: &str, dependents: usize) -> Object {
    let owner = Object::config_map(client, owner, &[]).await;
    for at in 0..dependents {
        Object::config_map(client, &format!("of-{}-{at}", owner.name), &[owner.blocking()]).await;
    }
    owner
}

async fn left(client: &kube::Client, owner: &Object) -> usize {
    count(client, &format!("of-{}-", owner.name)).await
}

#[tokio::test]
async fn a_manager_killed_in_the_middle_of_a_foreground_deletion_is_followed_by_another() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let owner = family(&client, "owner", 60).await;
    let mut first = Manager::start(&cluster.kubeconfig(), SLOW);
    owner.delete(Foreground).await;
    eventually("some are gone", || async { (left(&client, &owner).await <= 55).then_some(()) }).await;
    first.kill();
    assert!(left(&client, &owner).await > 0, "it was in the middle");
    assert!(owner.get().await.is_some(), "the owner waits");
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    owner.goes().await;
    assert_eq!(left(&client, &owner).await, 0, "no dependent outlives its owner");
}

#[tokio::test]
async fn a_manager_killed_in_the_middle_of_orphaning_is_followed_by_another() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let owner = family(&client, "owner", 60).await;
    let mut first = Manager::start(&cluster.kubeconfig(), SLOW);
    let one = Object::config_map(&client, "of-owner-last", &[owner.blocking()]).await;
    owner.delete(Orphan).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.kill();
    let managed = Managed::on(cluster).await;
    owner.goes().await;
    one.has_owners(&[]).await;
    managed.works("last").await;
    assert_eq!(left(&client, &owner).await, 61, "all are released, none collected");
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let lease = format!("garbage-{}", cluster.namespace);
    let resource = format!("--leader-elect-resource-name={lease}");
    let terms = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=400ms",
        &resource,
    ];
    let flags = [SLOW, &terms].concat();
    let owner = family(&client, "owner", 60).await;
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let mut first = Manager::start_candidate(&cluster.kubeconfig(), &flags);
    let holder = || async { leases.get(&lease).await.ok()?.spec?.holder_identity.filter(|h| !h.is_empty()) };
    let leader = eventually("the first leads", holder).await;
    let _second = Manager::start_candidate(&cluster.kubeconfig(), &flags);
    owner.delete(Background).await;
    eventually("some are gone", || async { (left(&client, &owner).await <= 55).then_some(()) }).await;
    first.kill();
    assert!(left(&client, &owner).await > 0, "it was in the middle");
    eventually("none is left", || async { (left(&client, &owner).await == 0).then_some(()) }).await;
    assert_ne!(holder().await, Some(leader));
}

#[tokio::test]
async fn an_api_server_that_restarts_holds_nothing_up() {
    let managed = Managed::on(Cluster::start_own().await).await;
    let owner = family(&managed.client, "owner", 20).await;
    let stays = family(&managed.client, "stays", 20).await;
    owner.delete(Foreground).await;
    managed.cluster.restart(Duration::from_secs(1)).await;
    owner.goes().await;
    eventually("none is left", || async { (left(&managed.client, &owner).await == 0).then_some(()) }).await;
    managed.works("last").await;
    assert_eq!(left(&managed.client, &stays).await, 20);
}

/// The manager's caches show owners long after their dependents, or the other way round.
#[tokio::test]
async fn nothing_with_an_owner_goes_while_a_watch_lags() {
    if Manager::is_upstream() {
        println!("the embedded server delays the watches: not run");
        return;
    }
    let managed = Managed::on(Cluster::start_embedded().await).await;
    let faults = managed.cluster.embedded().faults();
    for lagging in ["configmaps", "secrets"] {
        faults.delay_watches(Calls::to(lagging), Duration::from_secs(2));
        let mut dependents = Vec::new();
        for at in 0..10 {
            let owner = managed.config_map(&format!("{lagging}-{at}"), &[]).await;
            let secrets = super::resource("", "v1", "Secret", "secrets");
            let manifest = serde_json::json!({
                "metadata": { "name": owner.name, "ownerReferences": [owner.reference()] },
            });
            dependents.push((Object::create(&managed.client, &secrets, manifest).await, owner));
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        for (dependent, owner) in &dependents {
            assert!(dependent.stays().await, "{lagging} lag");
            owner.delete(Background).await;
        }
        for (dependent, _) in dependents {
            dependent.goes().await;
        }
        faults.clear();
    }
}

/// As a custom resource whose conversion fails.
#[tokio::test]
async fn a_kind_that_cannot_be_listed_holds_up_no_other() {
    if Manager::is_upstream() {
        println!("the embedded server fails the lists: not run");
        return;
    }
    let cluster = Cluster::start_embedded().await;
    let sick = Calls::to("leases").verb(Verb::List);
    cluster.embedded().faults().fail(usize::MAX, sick, Failure::InternalError);
    let sick = Calls::to("leases").verb(Verb::Watch);
    cluster.embedded().faults().fail(usize::MAX, sick, Failure::InternalError);
    let managed = Managed::on(cluster).await;
    let owner = family(&managed.client, "owner", 10).await;
    owner.delete(Background).await;
    eventually("none is left", || async { (left(&managed.client, &owner).await == 0).then_some(()) }).await;
    // These may have dependents of the sick kind.
    let released = family(&managed.client, "released", 3).await;
    released.delete(Orphan).await;
    let waits = family(&managed.client, "waits", 3).await;
    waits.delete(Foreground).await;
    waits.goes().await;
    eventually("the sick kind is named", || async {
        managed.manager.log().contains("Kinds that can't be listed").then_some(())
    })
    .await;
    let (_, metrics) = managed.manager.get("/metrics").await.unwrap();
    assert!(
        metrics.contains("informer_cache_synced{resource=\"leases.coordination.k8s.io\"} 0"),
        "{metrics}"
    );
    assert!(metrics.contains("garbagecollector_controller_resources_sync_error_total 1"), "{metrics}");
    assert!(released.get().await.is_some());
    managed.cluster.embedded().faults().clear();
    released.goes().await;
    assert_eq!(left(&managed.client, &released).await, 3);
}

#[tokio::test]
async fn the_graph_is_shown_to_those_who_debug_it() {
    if Manager::is_upstream() {
        println!("upstream's serves it on its secure port: not run");
        return;
    }
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let dependent = managed.config_map("dependent", &[owner.reference()]).await;
    let other = family(&managed.client, "other", 1).await;
    managed.works("later").await;
    let page = "/debug/controllers/garbage-collector-controller/graph";
    let (status, all) = managed.manager.get(page).await.unwrap();
    assert_eq!(status, 200);
    let edge = format!("  {:?} -> {:?};\n", dependent.uid, owner.uid);
    assert!(all.starts_with("strict digraph full {\n") && all.contains(&edge), "{all}");
    assert!(all.contains(&other.uid));
    let (_, one) = managed.manager.get(&format!("{page}?uid={}", owner.uid)).await.unwrap();
    assert!(one.contains(&edge) && !one.contains(&other.uid), "{one}");
    assert_eq!(managed.manager.get("/debug/controllers/job-controller/graph").await.unwrap().0, 404);
    let (_, metrics) = managed.manager.get("/metrics").await.unwrap();
    assert!(metrics.contains("garbage_collector_graph_bytes{part=\"edges\"} "), "{metrics}");
}
