//! The situations of upstream's `TestServiceAccountCreation`: by table, and with a server whose time is paused.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::plan::Plan;
use steersman_controller::testing::{Cluster, eventually, settle};

use super::construct;
use super::plan::{Observed, Step, plan};

#[test]
fn only_an_active_namespace_without_the_account_gets_it() {
    for (is_active, has_account, expected) in [
        (true, false, Plan::step(Step::Create)),
        (true, true, Plan::done()),
        (false, false, Plan::done()),
        (false, true, Plan::done()),
    ] {
        assert_eq!(plan(Observed { is_active, has_account }), expected, "{is_active} {has_account}");
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn account(namespace: &str, name: &str) -> Value {
    let meta = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
}

async fn appears(cluster: &Cluster, key: &str) -> Value {
    eventually(&format!("{key} is made"), || {
        let account = cluster.peek("serviceaccounts", key);
        account.is_object().then_some(account)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn each_active_namespace_gets_the_account_and_gets_it_again_after_its_deletion() {
    let cluster = Cluster::start().await;
    cluster.create(&namespace("early")).await;
    let running = cluster.run(construct);
    appears(&cluster, "early/default").await;
    cluster.create(&namespace("late")).await;
    let first = appears(&cluster, "late/default").await;

    cluster.create(&account("late", "other")).await;
    cluster.delete("ServiceAccount", "late/other").await;
    settle().await;
    assert!(cluster.peek("serviceaccounts", "late/other").is_null());

    cluster.delete("ServiceAccount", "late/default").await;
    let again = appears(&cluster, "late/default").await;
    assert_ne!(first["metadata"]["uid"], again["metadata"]["uid"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_gets_no_account() {
    let cluster = Cluster::start().await;
    cluster.create(&namespace("ending")).await;
    cluster.delete("Namespace", "ending").await;
    let calls = cluster.server.record();
    let running = cluster.run(construct);
    appears(&cluster, "default/default").await;
    settle().await;
    assert!(cluster.peek("serviceaccounts", "ending/default").is_null());
    assert_eq!(calls.count(&Calls::to("serviceaccounts").verb(Verb::Create).namespace("ending")), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_create_is_tried_until_it_succeeds() {
    let cluster = Cluster::start().await;
    let creates = Calls::to("serviceaccounts").verb(Verb::Create).namespace("stubborn");
    cluster.server.faults().fail(20, creates, Failure::InternalError);
    cluster.create(&namespace("stubborn")).await;
    let running = cluster.run(construct);
    // Upstream gives up after no number of failures. The waits grow to a thousand seconds.
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    appears(&cluster, "stubborn/default").await;
    running.stop().await;
}
