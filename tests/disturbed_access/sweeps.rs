//! Controllers that look at all objects once in a while: they delete old requests, and tokens that old versions of Kubernetes made.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use steersman_api::Time;

use support::certificates::{OF_KUBELET, Requests};
use support::cron_jobs::minutes_ago;
use support::identities::Identities;
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::{Cluster, eventually, until};

/// The number of old objects of each kind.
const COUNT: usize = 40;

/// The flags of a manager that makes so many calls a second for each controller.
///
/// The controllers start late: kube-controller-manager's cleaner of requests looks before its cache is filled.
fn flags(calls: &str) -> [&str; 5] {
    [
        "--controllers=certificatesigningrequest-cleaner-controller,legacy-serviceaccount-token-cleaner-controller",
        "--controller-start-interval=3s",
        "--legacy-service-account-token-clean-up-period=1s",
        "--kube-api-burst=1",
        calls,
    ]
}

/// Old requests and tokens, and one of each that is not old.
struct Leavings {
    requests: Requests,
    identities: Identities,
}

impl Leavings {
    async fn create(cluster: &Cluster) -> Self {
        let client = cluster.client();
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
        let name = "kube-apiserver-legacy-service-account-token-tracking";
        let tracking = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "since": "2020-01-01" },
        });
        maps.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(tracking)).await.unwrap();

        let leavings = Self { requests: Requests::of(cluster), identities: Identities::of(&client) };
        let Self { requests, identities } = &leavings;
        let old: Vec<_> = (0..COUNT).map(|number| format!("old-{number}")).collect();
        let listed: Vec<_> = old.iter().map(String::as_str).chain(["kept"]).collect();
        identities.create_account("robot", &listed).await;
        let today = jiff::Timestamp::now().to_string()[..10].to_owned();
        for (name, since) in old.iter().map(|name| (name.as_str(), "2021-01-01")).chain([("kept", &*today)]) {
            let label = json!({ "kubernetes.io/legacy-token-invalid-since": since });
            identities.create_secret(name, "robot", json!({ "metadata": { "labels": label } })).await;
        }
        for (name, minutes) in old.iter().map(|name| (name.as_str(), 90)).chain([("kept", 30)]) {
            requests.ask(name, &OF_KUBELET).await;
            requests.decide(name, "Denied", Some(minutes_ago(minutes))).await;
        }
        // A token must be older than the period, in whole seconds.
        let made = Time::now().seconds();
        until("the tokens are older than a second", || Time::now().seconds() > made + 2).await;
        leavings
    }

    /// The number of old requests and of old tokens that are left.
    async fn left(&self) -> Option<[usize; 2]> {
        let requests = self.requests.api.list(&ListParams::default()).await.ok()?;
        let secrets = self.identities.secrets.list(&ListParams::default()).await.ok()?;
        let prefix = self.requests.name("old-");
        let is_old = |name: &Option<String>, prefix: &str| name.as_ref().unwrap().starts_with(prefix);
        Some([
            requests.items.iter().filter(|request| is_old(&request.metadata.name, &prefix)).count(),
            secrets.items.iter().filter(|secret| is_old(&secret.metadata.name, "old-")).count(),
        ])
    }

    /// Waits until there are fewer of both kinds than these, and returns how many there are.
    async fn fall_below(&self, counts: [usize; 2]) -> [usize; 2] {
        eventually(&format!("fewer than {counts:?} are left"), || async {
            let left = self.left().await?;
            (left[0] < counts[0] && left[1] < counts[1]).then_some(left)
        })
        .await
    }

    /// Waits until all that is old is gone. What is not old stays.
    async fn are_gone(&self) {
        eventually("all that is old is gone", || async { (self.left().await? == [0, 0]).then_some(()) })
            .await;
        self.requests.get("kept").await;
        self.identities.secrets.get("kept").await.unwrap();
    }
}

#[tokio::test]
async fn a_sweep_goes_on_after_the_api_server_has_restarted_and_the_next_one_ends_it() {
    let cluster = Cluster::start_own().await;
    let leavings = Leavings::create(&cluster).await;
    let mut managed = Managed::on(cluster, &flags("--kube-api-qps=1"));
    let left = leavings.fall_below([COUNT; 2]).await;
    assert!(left[0] > 0 && left[1] > 0, "they were in the middle: {left:?}");
    managed.cluster.restart(Duration::from_millis(500)).await;
    let left = eventually("the API server answers", || leavings.left()).await;
    leavings.fall_below(left).await;
    // The objects whose turn came while there was no API server wait for the next sweep, which is the first of another manager.
    managed.manager.kill();
    managed.manager = Manager::start(&managed.cluster.kubeconfig(), &flags("--kube-api-qps=1000"));
    leavings.are_gone().await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_in_its_sweep_and_the_other_ends_it() {
    let cluster = Cluster::start_own().await;
    let leavings = Leavings::create(&cluster).await;
    let mut managers = Candidates::start(&cluster, &flags("--kube-api-qps=2")).await;
    let left = leavings.fall_below([COUNT; 2]).await;
    managers.kill_leader();
    assert!(left[0] > 0 && left[1] > 0, "the leader was in the middle: {left:?}");
    leavings.are_gone().await;
    assert!(managers.has_changed().await);
}
