//! Identities while the API server restarts, and while one of two managers is killed: none is left out, and nothing that was
//! issued is issued again.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use support::identities::{Identities, files, text};
use support::managed::{Candidates, Managed};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=serviceaccount-controller,serviceaccount-token-controller,\
    root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";
/// So few calls a second of each controller that the test sees its work in the middle.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=4", "--kube-api-burst=4"];
const ROOT_CA: &str = "kube-root-ca.crt";

fn flags(cluster: &Cluster) -> Vec<String> {
    SLOW.iter().map(|flag| (*flag).to_owned()).chain(files(cluster)).collect()
}

/// Numbered namespaces, accounts with a Secret each, and roles that are part of another one.
struct Members {
    client: kube::Client,
    identities: Identities,
    /// Names of what belongs to no namespace begin with it.
    prefix: String,
}

impl Members {
    fn of(cluster: &Cluster) -> Self {
        let client = cluster.client();
        Self { identities: Identities::of(&client), client, prefix: cluster.namespace.clone() }
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn roles(&self) -> Api<ClusterRole> {
        Api::all(self.client.clone())
    }

    /// Creates the role that others are aggregated to.
    async fn create_sum(&self) {
        let role = json!({
            "metadata": { "name": self.prefix }, "rules": null,
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part-of": self.prefix } }] },
        });
        self.create_role(role).await;
    }

    async fn create_role(&self, role: serde_json::Value) {
        let role = serde_json::from_value(role).unwrap();
        self.roles().create(&PostParams::default(), &role).await.unwrap();
    }

    async fn create(&self, numbers: std::ops::Range<usize>) {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        for number in numbers {
            let name = self.name(number);
            let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
            self.identities.create_account(&name, &[]).await;
            self.identities.create_secret(&name, &name, json!({})).await;
            self.create_role(json!({
                "metadata": { "name": name, "labels": { "part-of": self.prefix } },
                "rules": [{ "apiGroups": [""], "resources": [name], "verbs": ["get"] }],
            }))
            .await;
        }
    }

    /// The versions of all that was made for the first so many members, by kind and number; what is missing is left out.
    async fn made(&self, count: usize) -> BTreeMap<String, String> {
        let mut made = BTreeMap::new();
        for number in 0..count {
            let name = self.name(number);
            let account =
                Api::<ServiceAccount>::namespaced(self.client.clone(), &name).get_opt("default").await;
            let map = Api::<ConfigMap>::namespaced(self.client.clone(), &name).get_opt(ROOT_CA).await;
            let secret = self.identities.secrets.get(&name).await;
            let versions = [
                ("account", account.ok().flatten().and_then(|account| account.resource_version())),
                ("root CA", map.ok().flatten().and_then(|map| map.resource_version())),
                ("token", secret.ok().and_then(|secret| text(&secret, "token"))),
            ];
            let versions = versions.into_iter().filter_map(|(kind, version)| Some((kind, version?)));
            made.extend(versions.map(|(kind, version)| (format!("{kind} {number}"), version)));
        }
        made
    }

    /// Waits until the first so many members have all that is theirs, and returns the versions of it.
    async fn complete(&self, count: usize) -> BTreeMap<String, String> {
        let made = eventually("each member has all that is its own", || async {
            let made = self.made(count).await;
            (made.len() == 3 * count).then_some(made)
        })
        .await;
        eventually("all roles are aggregated", || async {
            let sum = self.roles().get(&self.prefix).await.ok()?;
            (sum.rules.unwrap_or_default().len() == count).then_some(())
        })
        .await;
        made
    }

    /// Deletes what would outlive the test in the server that other tests use.
    async fn delete_roles(&self, count: usize) {
        for number in 0..count {
            self.roles().delete(&self.name(number), &DeleteParams::default()).await.unwrap();
        }
        self.roles().delete(&self.prefix, &DeleteParams::default()).await.unwrap();
    }
}

/// Whether all that was there before is there unchanged.
fn holds(after: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> bool {
    before.iter().all(|(what, version)| after.get(what) == Some(version))
}

#[tokio::test]
async fn an_api_server_that_restarts_leaves_no_member_out_and_repeats_nothing() {
    let cluster = Cluster::start_own().await;
    let flags = flags(&cluster);
    let Managed { cluster, .. } =
        &Managed::on(cluster, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let members = Members::of(cluster);
    members.create_sum().await;
    let mut before = BTreeMap::new();
    for (round, away) in [500, 1000, 100].into_iter().enumerate() {
        let count = 6 * (round + 1);
        members.create(6 * round..count).await;
        let made = members.made(count).await;
        assert!(made.len() < 3 * count, "the managers were in the middle: {made:?}");
        assert!(holds(&made, &before), "{made:?} {before:?}");
        cluster.restart(Duration::from_millis(away)).await;
        before = members.made(count).await;
    }
    let complete = members.complete(18).await;
    assert!(holds(&complete, &before), "{complete:?} {before:?}");
    let token = &complete["token 17"];
    assert_eq!(members.identities.review(token).await.authenticated, Some(true));
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_leaves_no_member_out() {
    let cluster = Cluster::start_alone().await;
    let flags = flags(&cluster);
    let mut managers =
        Candidates::start(&cluster, &flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let members = Members::of(&cluster);
    members.create_sum().await;
    members.create(0..10).await;
    managers.kill_leader();
    let before = members.made(10).await;
    assert!(before.len() < 30, "the leader was in the middle: {before:?}");
    let complete = members.complete(10).await;
    assert!(managers.has_changed().await);
    assert!(holds(&complete, &before), "{complete:?} {before:?}");
    members.delete_roles(10).await;
}
