//! Bootstrap tokens: the signatures of `cluster-info`, the end of tokens, and a kubelet that joins with one.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::json;
use support::bootstrap::{NODE, SECRET_PART, Tokens, client_with, in_seconds, join, let_nodes_join};
use support::manager::Manager;
use support::real::{self, RealServer};
use support::{Cluster, eventually};

const SIGNER: &str = "--controllers=bootstrap-signer-controller";
const CLEANER: &str = "--controllers=token-cleaner-controller";

#[tokio::test]
async fn each_token_signs_cluster_info() {
    let cluster = Cluster::start_alone().await;
    let tokens = Tokens::of(cluster.client());
    tokens.clear().await;
    tokens.create("aaaaaa", None).await;
    tokens.create("bbbbbb", in_seconds(3600)).await;
    tokens.create("cccccc", in_seconds(-60)).await;
    let manager = Manager::start(&cluster.kubeconfig(), &[SIGNER]);
    tokens.publish("first").await;
    tokens.are_signatures_of("first", &["aaaaaa", "bbbbbb"]).await;

    let patch = Patch::Merge(json!({"data": {"kubeconfig": "second", "jws-kubeconfig-zzzzzz": "forged"}}));
    tokens.maps.patch("cluster-info", &PatchParams::default(), &patch).await.unwrap();
    tokens.are_signatures_of("second", &["aaaaaa", "bbbbbb"]).await;
    tokens.create("dddddd", None).await;
    tokens.are_signatures_of("second", &["aaaaaa", "bbbbbb", "dddddd"]).await;
    tokens.patch("dddddd", json!({"usage-bootstrap-signing": "false"})).await;
    tokens.are_signatures_of("second", &["aaaaaa", "bbbbbb"]).await;
    tokens.secrets.delete("bootstrap-token-aaaaaa", &DeleteParams::default()).await.unwrap();
    tokens.are_signatures_of("second", &["bbbbbb"]).await;
    if manager.is_steersman() {
        // kube-controller-manager leaves this to the token cleaner.
        tokens.patch("bbbbbb", json!({"expiration": in_seconds(2)})).await;
        tokens.are_signatures_of("second", &[]).await;
    }
    tokens.clear().await;
}

#[tokio::test]
async fn tokens_go_when_they_expire() {
    let cluster = Cluster::start_alone().await;
    let tokens = Tokens::of(cluster.client());
    tokens.clear().await;
    let _manager = Manager::start(&cluster.kubeconfig(), &[CLEANER]);
    tokens.create("forevr", None).await;
    tokens.create("latera", in_seconds(3600)).await;
    tokens.create("prolon", in_seconds(4)).await;
    tokens.create("short1", in_seconds(3600)).await;
    tokens.create("sooner", in_seconds(2)).await;
    tokens.create("exprd1", in_seconds(-5)).await;
    tokens.create("notime", None).await;
    tokens.patch("prolon", json!({"expiration": in_seconds(3600)})).await;
    tokens.patch("short1", json!({"expiration": in_seconds(3)})).await;
    tokens.patch("notime", json!({"expiration": "some day"})).await;
    for id in ["exprd1", "notime", "sooner", "short1"] {
        tokens.goes(id).await;
    }
    // By then the first expiration of the prolonged token is over.
    tokens.create("marker", in_seconds(5)).await;
    tokens.goes("marker").await;
    for id in ["forevr", "latera", "prolon"] {
        assert!(tokens.exists(id).await, "{id}");
    }
    tokens.clear().await;
}

#[tokio::test]
async fn a_hand_over_and_back_changes_neither_tokens_nor_signatures() {
    let Some(assets) = real::assets().filter(|assets| assets.join("kube-controller-manager").exists()) else {
        println!("no kube-controller-manager is at hand: not run");
        return;
    };
    let cluster = Cluster::start_alone().await;
    let tokens = Tokens::of(cluster.client());
    tokens.clear().await;
    let controllers = "--controllers=bootstrap-signer-controller,token-cleaner-controller";
    tokens.create("aaaaaa", None).await;
    tokens.publish("text").await;
    let version = async || tokens.maps.get("cluster-info").await.unwrap().metadata.resource_version;

    let steersman = Manager::start(&cluster.kubeconfig(), &[controllers]);
    tokens.are_signatures_of("text", &["aaaaaa"]).await;
    let before = version().await;
    drop(steersman);
    let upstream = Manager::start_upstream(&assets, &cluster.kubeconfig(), &[controllers]);
    tokens.create("expire", in_seconds(-1)).await;
    tokens.goes("expire").await;
    assert_eq!(version().await, before, "upstream changed what we left");
    tokens.create("bbbbbb", None).await;
    tokens.are_signatures_of("text", &["aaaaaa", "bbbbbb"]).await;
    drop(upstream);
    let before = version().await;
    let _steersman = Manager::start(&cluster.kubeconfig(), &[controllers]);
    tokens.create("expire", in_seconds(-1)).await;
    tokens.goes("expire").await;
    assert_eq!(version().await, before, "we changed what upstream left");
    tokens.clear().await;
}

#[tokio::test]
async fn a_kubelet_joins_with_a_token_and_gets_its_certificate() {
    let Some(assets) = real::assets().filter(|assets| assets.join("kubelet").exists()) else {
        println!("no kubelet is at hand: not run");
        return;
    };
    let server = RealServer::start_for_nodes(&assets).await;
    let client = kube::Client::try_from(server.config()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("administrator");
    std::fs::write(&kubeconfig, server.kubeconfig().to_string()).unwrap();
    let certificate = format!("--cluster-signing-cert-file={}", server.folder().join("ca.crt").display());
    let key = format!("--cluster-signing-key-file={}", server.folder().join("ca.key").display());
    let controllers = "--controllers=csrsigning,csrapproving,csrcleaner,bootstrapsigner,tokencleaner";
    let _manager = Manager::start(&kubeconfig, &[controllers, &certificate, &key]);

    let_nodes_join(&client).await;
    let tokens = Tokens::of(client.clone());
    tokens.create("abcdef", in_seconds(3600)).await;
    tokens.publish("a kubeconfig").await;
    tokens.are_signatures_of("a kubeconfig", &["abcdef"]).await;

    let issued = join(&assets, server.kubeconfig(), "abcdef", folder.path()).await;
    let requests = Api::<CertificateSigningRequest>::all(client);
    let [request] = &requests.list(&ListParams::default()).await.unwrap().items[..] else {
        panic!("one request")
    };
    assert_eq!(request.spec.username.as_deref(), Some("system:bootstrap:abcdef"));
    let [approved] = &request.status.as_ref().unwrap().conditions.as_ref().unwrap()[..] else { panic!() };
    assert_eq!(
        approved.message.as_deref(),
        Some("Auto approving kubelet client certificate after SubjectAccessReview.")
    );
    // The certificate is good for the node, and for nothing else.
    let node = client_with(&issued, server.kubeconfig()).await;
    assert!(Api::<Node>::all(node.clone()).get_opt(NODE).await.unwrap().is_none());
    let denied = Api::<Secret>::all(node).list(&ListParams::default()).await.unwrap_err();
    assert!(denied.to_string().contains("system:node:joining-node"), "{denied}");
}

/// `steersman standalone` at work. It is killed when this is dropped.
struct Standalone(Child);

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of a standalone cluster that says who it is by `user`.
async fn client_of(kubeconfig: &Path, user: Option<AuthInfo>) -> Option<kube::Client> {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig).ok()?;
    if let Some(user) = user {
        kubeconfig.auth_infos[0].auth_info = Some(user);
    }
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.ok()?;
    kube::Client::try_from(config).ok()
}

#[tokio::test]
async fn a_node_joins_a_standalone_cluster() {
    if Manager::is_upstream() {
        println!("upstream has no standalone cluster: not run");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_steersman"));
    command.args(["standalone", "--https-address=127.0.0.1:0", "--node-name=n", "--data-dir"]);
    command
        .arg(folder.path().join("data"))
        .arg("--controllers=*,bootstrap-signer-controller,token-cleaner-controller");
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let _standalone = Standalone(command.spawn().unwrap());
    let kubeconfig = folder.path().join("data/kubeconfig");
    let client = eventually("the API server answers", || async {
        let client = client_of(&kubeconfig, None).await?;
        Api::<Node>::all(client.clone()).list(&ListParams::default()).await.ok()?;
        Some(client)
    })
    .await;
    let_nodes_join(&client).await;
    let tokens = Tokens::of(client.clone());
    tokens.create("abcdef", in_seconds(3600)).await;
    tokens.publish("a kubeconfig").await;
    tokens.are_signatures_of("a kubeconfig", &["abcdef"]).await;

    // What a kubelet does.
    let token = AuthInfo { token: Some(format!("abcdef.{SECRET_PART}").into()), ..AuthInfo::default() };
    let joining = client_of(&kubeconfig, Some(token)).await.unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, "system:node:joining-node");
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({
        "metadata": {"name": "joins"},
        "spec": {
            "request": k8s_openapi::ByteString(pem.into_bytes()),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["digital signature", "client auth"],
        },
    });
    let requests = Api::<CertificateSigningRequest>::all(joining);
    requests.create(&PostParams::default(), &serde_json::from_value(request).unwrap()).await.unwrap();
    let issued = eventually("the certificate is issued", || async {
        requests.get("joins").await.ok()?.status?.certificate.map(|certificate| certificate.0)
    })
    .await;
    let user = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(issued)),
        client_key_data: Some(STANDARD.encode(key.serialize_pem()).into()),
        ..AuthInfo::default()
    };
    let node = client_of(&kubeconfig, Some(user)).await.unwrap();
    let reviews = Api::<SelfSubjectReview>::all(node.clone());
    let who = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let who = who.status.unwrap().user_info.unwrap();
    assert_eq!(who.username.as_deref(), Some("system:node:joining-node"));
    assert!(who.groups.unwrap().contains(&"system:nodes".to_owned()));

    // It has the rights of that node, and of no other.
    let nodes = Api::<Node>::all(node.clone());
    let named = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    nodes.create(&PostParams::default(), &named(NODE)).await.unwrap();
    nodes.get(NODE).await.unwrap();
    for denied in [
        nodes.create(&PostParams::default(), &named("another")).await.map(drop),
        nodes.get("n").await.map(drop),
        Api::<Secret>::all(node).list(&ListParams::default()).await.map(drop),
    ] {
        let denied = denied.unwrap_err().to_string();
        assert!(denied.contains("is forbidden"), "{denied}");
    }
}
