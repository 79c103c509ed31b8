//! Managers that are killed, stopped, frozen or cut off: nothing is made twice, and nothing is lost.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "crashes/failover.rs"]
mod failover;
#[path = "crashes/together.rs"]
mod together;

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use steersman_apiserver::Calls;
use support::jobs::{self, Kubelet, job};
use support::manager::Manager;
use support::{Cluster, eventually, until};

const JOB: &[&str] = &["--controllers=job", "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// Short terms, so that a test sees several; the same proportions as the defaults.
const QUICK_LEASE: &[&str] = &[
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=400ms",
    "--leader-elect-resource-name=crash-test",
];

fn candidate() -> Vec<&'static str> {
    [JOB, QUICK_LEASE].concat()
}

fn indexed(completions: u32, parallelism: u32) -> serde_json::Value {
    json!({ "completions": completions, "parallelism": parallelism, "completionMode": "Indexed", "backoffLimit": 0 })
}

/// How often each index was ended.
fn counts(kubelet: &Kubelet) -> BTreeMap<String, usize> {
    kubelet.ended().into_iter().fold(BTreeMap::new(), |mut counts, ended| {
        *counts.entry(ended).or_default() += 1;
        counts
    })
}

#[tokio::test]
async fn every_index_succeeds_once_though_the_manager_is_killed_again_and_again() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    jobs::create(&client, &job("killed", indexed(50, 10))).await;
    // Kills come at moments that the progress of the job decides, and a little chance within it.
    for round in 0..8_u64 {
        let mut manager = Manager::start(&cluster.kubeconfig(), JOB);
        let before = kubelet.ended().len();
        let progress = async {
            while kubelet.ended().len() < before + 4 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(20), progress).await;
        tokio::time::sleep(Duration::from_millis((round * 37) % 23)).await;
        manager.kill();
    }
    let _manager = Manager::start(&cluster.kubeconfig(), JOB);
    let job = jobs::wait_for(&client, "killed", "Complete").await;
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.completed_indexes.as_deref()), (Some(50), Some("0-49")));
    let counts = counts(&kubelet);
    assert_eq!(counts.len(), 50);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let kubelet = Kubelet::start(client.clone(), |_| "Succeeded");
    let mut first = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    until("the first leads", || {
        first.log().contains("became leader") || first.log().contains("acquired lease")
    })
    .await;
    let _second = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    jobs::create(&client, &job("inherited", indexed(40, 4))).await;
    until("some indexes have succeeded", || kubelet.ended().len() >= 8).await;
    first.kill();
    jobs::wait_for(&client, "inherited", "Complete").await;
    let counts = counts(&kubelet);
    assert_eq!(counts.len(), 40);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_within_its_lease() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let mut first = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    jobs::create(&client, &job("one", json!({}))).await;
    eventually("the first makes a pod", || async { (jobs::pods(&client).await.len() == 1).then_some(()) })
        .await;
    let _second = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    assert!(first.stop().await.success());
    jobs::create(&client, &job("two", json!({}))).await;
    eventually("the second makes a pod", || async { (jobs::pods(&client).await.len() == 2).then_some(()) })
        .await;
}

#[tokio::test]
async fn a_leader_frozen_beyond_its_lease_writes_nothing_when_it_thaws() {
    let cluster = Cluster::start_embedded().await;
    let client = cluster.client();
    let first = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    jobs::create(&client, &job("first", json!({ "parallelism": 2, "completions": 2 }))).await;
    eventually("the first makes pods", || async { (jobs::pods(&client).await.len() == 2).then_some(()) })
        .await;

    first.signal(Signal::STOP);
    let second = Manager::start_candidate(&cluster.kubeconfig(), &candidate());
    // Work that the frozen one has not heard of, and that it would do on waking.
    jobs::create(&client, &job("second", json!({ "parallelism": 5, "completions": 5 }))).await;
    eventually("the second makes pods", || async { (jobs::pods(&client).await.len() == 7).then_some(()) })
        .await;

    let recording = cluster.embedded().record();
    first.signal(Signal::CONT);
    jobs::create(&client, &job("third", json!({ "parallelism": 5, "completions": 5 }))).await;
    eventually("pods of the third job", || async { (jobs::pods(&client).await.len() == 12).then_some(()) })
        .await;
    // It stands as a candidate again: it lives, and does not lead.
    let (_, ready) = eventually("the thawed one answers", || first.get("/readyz?verbose")).await;
    assert!(!ready.is_empty());
    until("its leadership is known to be lost", || {
        first.log().contains("lost") || first.log().contains("stopped leading")
    })
    .await;
    let creates = recording.count(&Calls::to("pods").verb(steersman_apiserver::Verb::Create));
    assert_eq!(creates, 5, "the third job's pods, once");
    assert_eq!(jobs::pods(&client).await.len(), 12);
    drop(second);
}
