//! `/debug/controllers`, and the readiness of single controllers: what is stuck is named.

#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use support::jobs::{self, job};
use support::manager::Manager;
use support::{Cluster, eventually, until};
use tokio::time::{sleep, timeout};

/// How soon readiness shows a fault.
const SOON: Duration = Duration::from_secs(60);

async fn report(manager: &Manager) -> Option<Value> {
    let (status, text) = manager.get("/debug/controllers?format=json").await?;
    assert_eq!(status, 200, "{text}");
    Some(serde_json::from_str(&text).unwrap())
}

/// The entry of a list that has this member.
fn entry<'a>(list: &'a Value, member: &str, value: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[member] == value);
    found.unwrap_or_else(|| panic!("no {value} in {list:#}"))
}

/// Waits until the controller of jobs runs.
async fn runs(manager: &Manager) {
    eventually("the controller runs", || async {
        let report = report(manager).await?;
        (entry(&report["controllers"], "name", "job-controller")["state"] == "running").then_some(())
    })
    .await;
}

/// Waits until `/readyz/job-controller` fails, at most [`SOON`], and returns its reason.
async fn turns_red(manager: &Manager) -> String {
    let red = async {
        loop {
            match manager.get("/readyz/job-controller").await {
                Some((500, why)) => return why,
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    };
    timeout(SOON, red).await.expect("the controller must be reported in time")
}

#[tokio::test]
async fn the_page_shows_every_controller_and_every_cache() {
    let cluster = Cluster::start().await;
    let manager = Manager::start(&cluster.kubeconfig(), &["--controllers=job,ttl"]);
    runs(&manager).await;
    jobs::create(&cluster.client(), &job("pi", json!({}))).await;
    let report = eventually("the caches have the job", || async {
        let report = report(&manager).await?;
        let jobs = entry(&report["caches"], "resource", "jobs.batch");
        (jobs["objects"].as_u64()? > 0).then_some(report)
    })
    .await;

    let controllers = &report["controllers"];
    let ran = entry(controllers, "name", "job-controller");
    assert_eq!((&ran["faults"], &ran["waitingFor"]), (&json!([]), &json!([])), "{ran:#}");
    let queue = &entry(&ran["loops"], "name", "job")["queue"];
    assert_eq!(queue["workers"], 5, "{ran:#}");
    assert!(ran["caches"].as_array().unwrap().contains(&json!("pods")), "{ran:#}");
    for (name, reason) in [
        ("deployment-controller", "--controllers does not enable it"),
        ("service-lb-controller", "--controllers does not enable it"),
    ] {
        let disabled = entry(controllers, "name", name);
        assert_eq!((&disabled["state"], &disabled["reason"]), (&json!("disabled"), &json!(reason)));
    }
    let cache = entry(&report["caches"], "resource", "jobs.batch");
    assert_eq!(
        (&cache["synced"], &cache["watch"], &cache["relists"]),
        (&json!(true), &json!("watching"), &json!(0))
    );
    assert!(cache["bytes"].as_u64().unwrap() > 100, "{cache:#}");
    assert!(cache["stalenessSeconds"].is_f64(), "{cache:#}");

    let (status, page) = manager.get("/debug/controllers").await.unwrap();
    assert!(status == 200 && page.starts_with("<!doctype html>"), "{status} {page}");
    assert!(page.contains("job-controller") && page.contains("jobs.batch"), "{page}");
}

#[tokio::test]
async fn a_call_that_hangs_turns_its_controller_red_and_is_named() {
    let cluster = Cluster::start_embedded().await;
    let creates = Calls::to("pods").verb(Verb::Create);
    cluster.embedded().faults().fail(usize::MAX, creates, Failure::Hang);
    let manager = Manager::start(&cluster.kubeconfig(), &["--controllers=job,ttl"]);
    runs(&manager).await;
    jobs::create(&cluster.client(), &job("hung", json!({}))).await;
    let faults = cluster.embedded().faults();
    until("the sync hangs", || faults.pending() < usize::MAX).await;

    let key = format!("{}/hung", cluster.namespace);
    let why = turns_red(&manager).await;
    assert!(why.contains(&format!("of job has been on {key} for ")), "{why}");
    assert_eq!(manager.get("/readyz/ttl-controller").await.unwrap().0, 200, "it is not concerned");
    let report = report(&manager).await.unwrap();
    let controller = entry(&report["controllers"], "name", "job-controller");
    let busy = &entry(&controller["loops"], "name", "job")["busy"][0];
    assert_eq!(busy["key"], key, "{controller:#}");
    assert!(busy["withoutProgressSeconds"].as_f64().unwrap() > 25.0, "{controller:#}");
    let (_, page) = manager.get("/debug/controllers").await.unwrap();
    assert!(page.contains("<p class=\"fault\"><b>job-controller</b>: worker "), "{page}");
}

#[tokio::test]
async fn a_cache_without_a_watch_turns_its_controllers_red_and_is_named() {
    let cluster = Cluster::start_embedded().await;
    let manager = Manager::start(&cluster.kubeconfig(), &["--controllers=job,ttl"]);
    runs(&manager).await;
    let faults = cluster.embedded().faults();
    faults.fail(usize::MAX, Calls::to("jobs"), Failure::InternalError);
    faults.cut_watches(Calls::to("jobs"));
    let why = turns_red(&manager).await;
    assert!(why.contains("the cache of jobs.batch is stale: ") && why.contains("s without a watch"), "{why}");
    assert_eq!(manager.get("/readyz/ttl-controller").await.unwrap().0, 200, "it reads no jobs");
    let report = report(&manager).await.unwrap();
    let cache = entry(&report["caches"], "resource", "jobs.batch");
    assert!(cache["stale"].is_string() && cache["failures"].as_u64().unwrap() > 0, "{cache:#}");
    assert!(cache["lastError"].as_str().unwrap().contains("API server answered"), "{cache:#}");

    faults.clear();
    eventually("the cache has caught up", || async {
        (manager.get("/readyz/job-controller").await?.0 == 200).then_some(())
    })
    .await;
}
