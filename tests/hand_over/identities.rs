//! Service accounts, tokens and root CAs: neither manager changes what the other left, and both write the same tokens.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::assets;
use support::identities::{Identities, files, text};
use support::manager::Manager;
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,legacy-serviceaccount-token-cleaner-controller";

#[tokio::test]
async fn tokens_are_handed_over_and_back_unchanged_and_both_managers_write_the_same() {
    let Some(assets) = assets() else { return };
    tokens_there_and_back(&assets, Cluster::start_own().await).await;
}

#[tokio::test]
async fn kube_controller_manager_takes_tokens_over_on_the_embedded_server_too() {
    let Some(assets) = assets() else { return };
    tokens_there_and_back(&assets, Cluster::start_embedded().await).await;
}

/// The version of each object that the controllers keep, but those of `marker`.
async fn versions(client: &kube::Client, identities: &Identities, marker: &str) -> BTreeMap<String, String> {
    let all = ListParams::default();
    let mut metas = Vec::new();
    let secrets = identities.secrets.list(&all).await.unwrap().items;
    metas.extend(secrets.into_iter().map(|secret| ("secret", secret.metadata)));
    let accounts = identities.accounts.list(&all).await.unwrap().items;
    metas.extend(accounts.into_iter().map(|account| ("account", account.metadata)));
    let maps = Api::<ConfigMap>::default_namespaced(client.clone()).list(&all).await.unwrap().items;
    metas.extend(maps.into_iter().map(|map| ("map", map.metadata)));
    let versions = metas
        .into_iter()
        .map(|(kind, meta)| (format!("{kind} {}", meta.name.unwrap()), meta.resource_version.unwrap()));
    versions.filter(|(name, _)| !name.contains(marker)).collect()
}

/// Has the manager make one more token and serve one more namespace, which shows that it has seen what was there.
async fn one_more(client: &kube::Client, identities: &Identities, name: &str) {
    identities.create_secret(name, "robot", json!({})).await;
    identities.filled(name).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "generateName": "marker-" } })).unwrap();
    let namespace =
        namespaces.create(&PostParams::default(), &namespace).await.unwrap().metadata.name.unwrap();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    eventually("the namespace has a root CA", || async { maps.get_opt("kube-root-ca.crt").await.ok()? })
        .await;
}

/// Removes the token from the Secret `first`, and returns what the manager writes in its place.
async fn signed_again(identities: &Identities) -> String {
    identities.patch_secret("first", json!({ "data": { "token": null } })).await;
    text(&identities.filled("first").await, "token").unwrap()
}

/// What a token says, without its signature.
fn signed_part(token: &str) -> &str {
    token.rsplit_once('.').unwrap().0
}

async fn tokens_there_and_back(assets: &Path, cluster: Cluster) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let identities = Identities::of(&client);
    let [key, ca] = files(&cluster);
    let flags = [CONTROLLERS, &key, &ca];
    identities.create_account("robot", &["first"]).await;
    identities.create_secret("first", "robot", json!({})).await;
    let mut ours = Manager::start(&kubeconfig, &flags);
    let by_us = text(&identities.filled("first").await, "token").unwrap();
    one_more(&client, &identities, "second").await;
    ours.stop().await;
    let left = versions(&client, &identities, "third").await;

    let upstream = Manager::start_upstream(assets, &kubeconfig, &flags);
    one_more(&client, &identities, "third").await;
    assert_eq!(versions(&client, &identities, "third").await, left, "upstream changed what we left");
    let by_upstream = signed_again(&identities).await;
    assert_eq!(signed_part(&by_us), signed_part(&by_upstream));
    if matches!(cluster.server, support::Server::Real(_)) {
        assert_eq!(by_us, by_upstream, "RSA signs the same claims alike");
    }
    drop(upstream);
    let left = versions(&client, &identities, "fourth").await;

    let _ours = Manager::start(&kubeconfig, &flags);
    one_more(&client, &identities, "fourth").await;
    assert_eq!(versions(&client, &identities, "fourth").await, left, "we changed what upstream left");
    assert_eq!(signed_part(&signed_again(&identities).await), signed_part(&by_upstream));
}
