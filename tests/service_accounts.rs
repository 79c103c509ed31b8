//! Service accounts, the tokens in their Secrets, and the root certificate authority of each namespace, kept by the manager,
//! as a process.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::identities::{ACCOUNT_NAME, ACCOUNT_UID, CA, Identities, OTHER_CA, files, text};
use support::manager::Manager;
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller";
const CLEANER: &str = "--controllers=legacy-serviceaccount-token-cleaner-controller";
const ROOT_CA: &str = "kube-root-ca.crt";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    identities: Identities,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let manager = manage(&cluster, &files(&cluster));
        let client = cluster.client();
        Self { identities: Identities::of(&client), client, manager, cluster }
    }
}

fn manage(cluster: &Cluster, flags: &[String]) -> Manager {
    let mut all = vec![CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
    all.extend(flags.iter().map(String::as_str));
    Manager::start(&cluster.kubeconfig(), &all)
}

fn ca(file: &str) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// Creates a namespace, and returns its service accounts and ConfigMaps.
async fn namespace(client: &kube::Client, prefix: &str) -> (String, Api<ServiceAccount>, Api<ConfigMap>) {
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "generateName": prefix } })).unwrap();
    let created = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let name = created.metadata.name.unwrap();
    let accounts = Api::namespaced(client.clone(), &name);
    let maps = Api::namespaced(client.clone(), &name);
    (name, accounts, maps)
}

async fn has_account(accounts: &Api<ServiceAccount>) -> ServiceAccount {
    eventually("the account `default` exists", || async { accounts.get_opt("default").await.ok()? }).await
}

/// Waits until a namespace has the ConfigMap with this authority alone, and with a description.
async fn has_root_ca(maps: &Api<ConfigMap>, ca: &str) -> ConfigMap {
    eventually("the namespace has the root CA", || async {
        let map = maps.get_opt(ROOT_CA).await.ok()??;
        let is_described = map.metadata.annotations.as_ref()?.get("kubernetes.io/description")?;
        let wanted = [("ca.crt".to_owned(), ca.to_owned())].into();
        (map.data.as_ref() == Some(&wanted) && !is_described.is_empty()).then_some(map)
    })
    .await
}

#[tokio::test]
async fn each_namespace_has_its_account_and_its_root_ca_again_after_their_deletion() {
    let managed = Managed::start().await;
    let (_, accounts, maps) = namespace(&managed.client, "served-").await;
    let account = has_account(&accounts).await;
    assert_eq!((account.secrets, account.image_pull_secrets), (None, None));
    let map = has_root_ca(&maps, &ca(CA)).await;
    let description = &map.metadata.annotations.unwrap()["kubernetes.io/description"];
    assert_eq!(
        description,
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
    );

    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    maps.delete(ROOT_CA, &DeleteParams::default()).await.unwrap();
    eventually("another account", || async {
        let again = accounts.get_opt("default").await.ok()??;
        (again.metadata.uid != account.metadata.uid).then_some(())
    })
    .await;
    has_root_ca(&maps, &ca(CA)).await;
}

#[tokio::test]
async fn a_changed_root_ca_is_restored_and_keeps_what_users_added() {
    let managed = Managed::start().await;
    let (_, _, maps) = namespace(&managed.client, "restored-").await;
    has_root_ca(&maps, &ca(CA)).await;
    for data in [
        json!({ "data": { "ca.crt": "other", "more": "x" } }),
        json!({ "data": null }),
        json!({ "metadata": { "annotations": { "kubernetes.io/description": "" } } }),
    ] {
        let meta = json!({ "labels": { "mine": "kept" }, "annotations": { "mine": "kept" } });
        for patch in [json!({ "metadata": meta }), data] {
            maps.patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
        let map = has_root_ca(&maps, &ca(CA)).await;
        assert_eq!(map.metadata.labels.unwrap()["mine"], "kept");
        assert_eq!(map.metadata.annotations.unwrap()["mine"], "kept");
    }
    // Another description is as good as upstream's.
    let words = json!({ "metadata": { "annotations": { "kubernetes.io/description": "in other words" } } });
    let patched = maps.patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(words)).await.unwrap();
    let (_, _, others) = namespace(&managed.client, "marker-").await;
    has_root_ca(&others, &ca(CA)).await;
    let left = maps.get(ROOT_CA).await.unwrap();
    assert_eq!(left.metadata.resource_version, patched.metadata.resource_version);
}

#[tokio::test]
async fn a_manager_with_another_root_ca_publishes_that_everywhere() {
    let mut managed = Managed::start().await;
    let (_, accounts, maps) = namespace(&managed.client, "changed-").await;
    has_root_ca(&maps, &ca(CA)).await;
    has_account(&accounts).await;
    managed.identities.create_account("robot", &[]).await;
    managed.identities.create_secret("token", "robot", json!({})).await;
    let before = managed.identities.filled("token").await;
    managed.manager.stop().await;
    let [key, _] = files(&managed.cluster);
    let _manager = manage(&managed.cluster, &[key, format!("--root-ca-file={OTHER_CA}")]);
    has_root_ca(&maps, &ca(OTHER_CA)).await;
    let after = eventually("the Secret has the other authority", || async {
        let secret = managed.identities.secrets.get("token").await.ok()?;
        (text(&secret, "ca.crt")? == ca(OTHER_CA)).then_some(secret)
    })
    .await;
    assert_eq!(text(&after, "token"), text(&before, "token"), "the token stays");
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_gets_nothing_more() {
    let managed = Managed::start().await;
    let (name, accounts, maps) = namespace(&managed.client, "ending-").await;
    has_account(&accounts).await;
    has_root_ca(&maps, &ca(CA)).await;
    let namespaces = Api::<Namespace>::all(managed.client.clone());
    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    maps.delete(ROOT_CA, &DeleteParams::default()).await.unwrap();
    let (_, other_accounts, other_maps) = namespace(&managed.client, "marker-").await;
    has_account(&other_accounts).await;
    has_root_ca(&other_maps, &ca(CA)).await;
    assert!(accounts.get_opt("default").await.unwrap().is_none());
    assert!(maps.get_opt(ROOT_CA).await.unwrap().is_none());
}

/// The JSON of one of the first two parts of a token, and the text that it is.
fn part(token: &str, at: usize) -> (String, Value) {
    let part = token.split('.').nth(at).unwrap();
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

#[tokio::test]
async fn a_secret_gets_a_token_that_the_api_server_accepts() {
    let managed = Managed::start().await;
    let (identities, namespace) = (&managed.identities, &managed.cluster.namespace);
    let uid = identities.create_account("robot", &[]).await;
    let more = json!({ "metadata": { "labels": { "mine": "kept" } }, "data": { "extra": "eA==" } });
    identities.create_secret("token", "robot", more).await;
    let secret = identities.filled("token").await;
    assert_eq!(text(&secret, "namespace").as_ref(), Some(namespace));
    assert_eq!(text(&secret, "ca.crt").unwrap(), ca(CA));
    assert_eq!(text(&secret, "extra").unwrap(), "x");
    assert_eq!(secret.metadata.labels.as_ref().unwrap()["mine"], "kept");
    let annotations = secret.metadata.annotations.as_ref().unwrap();
    assert_eq!((annotations[ACCOUNT_NAME].as_str(), &annotations[ACCOUNT_UID]), ("robot", &uid));

    let token = text(&secret, "token").unwrap();
    let claims = format!(
        r#"{{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"{namespace}","kubernetes.io/serviceaccount/secret.name":"token","kubernetes.io/serviceaccount/service-account.name":"robot","kubernetes.io/serviceaccount/service-account.uid":"{uid}","sub":"system:serviceaccount:{namespace}:robot"}}"#
    );
    assert_eq!(part(&token, 1).0, claims);
    let (header, parsed) = part(&token, 0);
    let (alg, kid) = (parsed["alg"].as_str().unwrap(), parsed["kid"].as_str().unwrap());
    assert_eq!(header, format!(r#"{{"alg":"{alg}","kid":"{kid}"}}"#));

    let reviewed = identities.review(&token).await;
    assert_eq!(reviewed.authenticated, Some(true), "{:?}", reviewed.error);
    let user = reviewed.user.unwrap();
    assert_eq!(user.username, Some(format!("system:serviceaccount:{namespace}:robot")));
    assert_eq!(user.uid, Some(uid));
    eventually("the API server notes the token's use", || async {
        identities.secrets.get("token").await.ok()?.metadata.labels?.remove(LAST_USED)
    })
    .await;
}

#[tokio::test]
async fn lost_parts_of_a_secret_come_back_and_users_own_stay() {
    let managed = Managed::start().await;
    let identities = &managed.identities;
    identities.create_account("robot", &[]).await;
    identities.create_secret("token", "robot", json!({ "data": { "namespace": "bWluZQ==" } })).await;
    let first = identities.filled("token").await;
    assert_eq!(text(&first, "namespace").unwrap(), "mine");
    identities.patch_secret("token", json!({ "data": { "ca.crt": null, "namespace": null } })).await;
    let second = eventually("the parts are back", || async {
        let secret = identities.secrets.get("token").await.ok()?;
        (text(&secret, "ca.crt")? == ca(CA) && text(&secret, "namespace").is_some()).then_some(secret)
    })
    .await;
    assert_eq!(text(&second, "namespace").as_ref(), Some(&managed.cluster.namespace));
    assert_eq!(text(&second, "token"), text(&first, "token"), "the token stays");
    identities.patch_secret("token", json!({ "data": null })).await;
    let third = identities.filled("token").await;
    assert_eq!(third.data.unwrap().len(), 3);
    // A Secret that brings a token of its own keeps it, valid or not.
    identities.create_secret("own", "robot", json!({ "data": { "token": "eA==" } })).await;
    let own = eventually("the Secret is filled", || async {
        let secret = identities.secrets.get("own").await.ok()?;
        text(&secret, "ca.crt").is_some().then_some(secret)
    })
    .await;
    assert_eq!(text(&own, "token").unwrap(), "x");
}

#[tokio::test]
async fn the_secrets_of_a_deleted_account_go_and_so_do_those_of_nobody() {
    let managed = Managed::start().await;
    let identities = &managed.identities;
    identities.create_secret("early", "robot", json!({})).await;
    identities.gone("early").await;
    let uid = identities.create_account("robot", &[]).await;
    let of = |uid: &str| json!({ "metadata": { "annotations": { ACCOUNT_UID: uid } } });
    identities.create_secret("another", "robot", of("0c7b3b1e-0000-4f0e-9e53-3a4d6f2b8c11")).await;
    identities.gone("another").await;
    identities.create_secret("with-uid", "robot", of(&uid)).await;
    identities.create_secret("without-uid", "robot", json!({})).await;
    identities.create_account("other", &[]).await;
    identities.create_secret("of-other", "other", json!({})).await;
    let opaque = json!({ "type": "Opaque" });
    identities.create_secret("opaque", "robot", opaque).await;
    for name in ["with-uid", "without-uid", "of-other"] {
        identities.filled(name).await;
    }
    let token = text(&identities.filled("with-uid").await, "token").unwrap();
    identities.accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    for name in ["with-uid", "without-uid"] {
        identities.gone(name).await;
    }
    for name in ["of-other", "opaque"] {
        identities.secrets.get(name).await.unwrap();
    }
    assert_ne!(identities.review(&token).await.authenticated, Some(true));
}

#[tokio::test]
async fn accounts_that_go_while_no_manager_runs_lose_their_secrets_to_the_next_one() {
    let mut managed = Managed::start().await;
    let identities = &managed.identities;
    for name in ["goes", "returns", "stays"] {
        identities.create_account(name, &[]).await;
        identities.create_secret(name, name, json!({})).await;
        identities.filled(name).await;
    }
    managed.manager.kill();
    for name in ["goes", "returns"] {
        identities.accounts.delete(name, &DeleteParams::default()).await.unwrap();
    }
    identities.create_account("returns", &[]).await;
    let _manager = manage(&managed.cluster, &files(&managed.cluster));
    for name in ["goes", "returns"] {
        identities.gone(name).await;
    }
    identities.secrets.get("stays").await.unwrap();
}

#[tokio::test]
async fn an_account_loses_its_reference_to_a_deleted_secret() {
    let managed = Managed::start().await;
    let identities = &managed.identities;
    identities.create_account("robot", &["token", "other"]).await;
    let patch = json!({
        "metadata": { "labels": { "mine": "kept" } },
        "imagePullSecrets": [{ "name": "token" }], "automountServiceAccountToken": false,
    });
    identities.accounts.patch("robot", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    identities.create_secret("token", "robot", json!({})).await;
    identities.filled("token").await;
    identities.secrets.delete("token", &DeleteParams::default()).await.unwrap();
    let account = eventually("the reference is removed", || async {
        let account = identities.accounts.get("robot").await.ok()?;
        (account.secrets.as_ref().map(Vec::len) == Some(1)).then_some(account)
    })
    .await;
    assert_eq!(account.secrets.unwrap()[0].name.as_deref(), Some("other"));
    assert_eq!(account.image_pull_secrets.unwrap().len(), 1);
    assert_eq!(account.automount_service_account_token, Some(false));
    assert_eq!(account.metadata.labels.unwrap()["mine"], "kept");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_ends_the_start_and_is_named() {
    let cluster = Cluster::start_alone().await;
    let [key, ca] = files(&cluster);
    let absent = |flag: &str| format!("{flag}=/nowhere/file.pem");
    let wrong = |flag: &str| format!("{flag}={}", cluster.kubeconfig().display());
    let key_flag = "--service-account-private-key-file";
    for (flags, file) in [
        ([absent(key_flag), ca.clone()], "/nowhere/file.pem"),
        ([wrong(key_flag), ca], "kubeconfig"),
        ([key.clone(), absent("--root-ca-file")], "/nowhere/file.pem"),
        ([key, wrong("--root-ca-file")], "kubeconfig"),
    ] {
        let mut manager = manage(&cluster, &flags);
        assert!(!manager.ended().await.success(), "{flags:?}");
        let log = manager.log();
        let line = log.lines().rev().find(|line| line.contains(file));
        assert!(line.is_some(), "{flags:?}: {log}");
        if manager.is_steersman() {
            let flag = flags.iter().find(|flag| flag.contains(file)).unwrap().split('=').next().unwrap();
            assert!(line.unwrap().contains(flag), "{log}");
        }
    }
}

#[tokio::test]
async fn without_a_key_no_token_is_made_and_the_rest_goes_on() {
    let cluster = Cluster::start_alone().await;
    let manager = manage(&cluster, &[format!("--root-ca-file={CA}")]);
    let (client, identities) = (cluster.client(), Identities::of(&cluster.client()));
    identities.create_account("robot", &[]).await;
    identities.create_secret("token", "robot", json!({})).await;
    let (_, accounts, maps) = namespace(&client, "keyless-").await;
    has_account(&accounts).await;
    has_root_ca(&maps, &ca(CA)).await;
    assert_eq!(identities.secrets.get("token").await.unwrap().data, None);
    assert!(manager.log().contains("private key"), "{}", manager.log());
}

/// Lets the API server say that it has tracked the use of tokens since this day.
async fn tracked_since(client: &kube::Client, day: &str) {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "since": day },
    });
    let params = PatchParams::apply("test").force();
    maps.patch(name, &params, &Patch::Apply(map)).await.unwrap();
}

fn invalid_since(secret: &Secret) -> Option<&String> {
    secret.metadata.labels.as_ref()?.get(INVALID_SINCE)
}

#[tokio::test]
async fn old_tokens_that_nobody_uses_are_marked_and_then_deleted() {
    let cluster = Cluster::start_alone().await;
    let (client, identities) = (cluster.client(), Identities::of(&cluster.client()));
    tracked_since(&client, "2020-01-01").await;
    let today = jiff::Timestamp::now().to_string()[..10].to_owned();
    let listed = ["unused", "marked", "badly-marked", "mounted", "pulled", "used", "unclear", "just-marked"];
    identities.create_account("robot", &listed).await;
    let invalid = |since: &str| json!({ "metadata": { "labels": { INVALID_SINCE: since } } });
    let used = |on: &str| json!({ "metadata": { "labels": { LAST_USED: on } } });
    for (name, more) in [
        ("unused", json!({})),
        ("marked", invalid("2021-01-01")),
        ("badly-marked", invalid("2021-13-01")),
        ("mounted", invalid("2021-01-01")),
        ("pulled", json!({})),
        ("used", used(&today)),
        ("unclear", used("2021-1-1")),
        ("just-marked", invalid(&today)),
        ("manual", invalid("2021-01-01")),
    ] {
        identities.create_secret(name, "robot", more).await;
    }
    let pod = json!({
        "metadata": { "name": "user" },
        "spec": {
            "imagePullSecrets": [{ "name": "pulled" }],
            "containers": [{ "name": "c", "image": "i" }],
            "volumes": [{ "name": "v", "projected": { "sources": [{ "secret": { "name": "mounted" } }] } }],
        },
    });
    let pods = Api::<Pod>::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    // Their age is in whole seconds, and must be more than the period.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let period = "--legacy-service-account-token-clean-up-period=1s";
    let manager = Manager::start(&cluster.kubeconfig(), &[CLEANER, period]);
    identities.gone("marked").await;
    for name in ["unused", "badly-marked"] {
        eventually(&format!("{name} is marked"), || async {
            let secret = identities.secrets.get(name).await.ok()?;
            (invalid_since(&secret) == Some(&today)).then_some(())
        })
        .await;
    }
    drop(manager);
    for (name, label) in [
        ("mounted", Some("2021-01-01")),
        ("pulled", None),
        ("used", None),
        ("unclear", None),
        ("just-marked", Some(today.as_str())),
        ("manual", Some("2021-01-01")),
    ] {
        let secret = identities.secrets.get(name).await.unwrap();
        assert_eq!(invalid_since(&secret).map(String::as_str), label, "{name}");
    }

    // A marked token is refused, until an administrator removes the label.
    let token_manager = manage(&cluster, &files(&cluster));
    let token = text(&identities.filled("unused").await, "token").unwrap();
    assert_ne!(identities.review(&token).await.authenticated, Some(true));
    identities.patch_secret("unused", json!({ "metadata": { "labels": { INVALID_SINCE: null } } })).await;
    eventually("the token is accepted", || async {
        (identities.review(&token).await.authenticated == Some(true)).then_some(())
    })
    .await;
    drop(token_manager);
}

#[tokio::test]
async fn nothing_is_cleaned_up_before_uses_were_tracked_for_long_enough() {
    let cluster = Cluster::start_alone().await;
    let (client, identities) = (cluster.client(), Identities::of(&cluster.client()));
    identities.create_account("robot", &["unused"]).await;
    identities.create_secret("unused", "robot", json!({})).await;
    let today = jiff::Timestamp::now().to_string()[..10].to_owned();
    tracked_since(&client, &today).await;
    let version = identities.secrets.get("unused").await.unwrap().metadata.resource_version;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let period = "--legacy-service-account-token-clean-up-period=1s";
    // The round begins when the controller does: another controller's work shows that it is over.
    let controllers =
        "--controllers=legacy-serviceaccount-token-cleaner-controller,serviceaccount-controller";
    let _manager = Manager::start(&cluster.kubeconfig(), &[controllers, period]);
    let (_, accounts, _) = namespace(&client, "marker-").await;
    has_account(&accounts).await;
    assert_eq!(identities.secrets.get("unused").await.unwrap().metadata.resource_version, version);
}
