//! Bootstrap tokens: the signatures of `cluster-info`, the end of tokens, and a kubelet that joins with one.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use ring::hmac;
use serde_json::{Value, json};
use steersman_api::Time;
use support::manager::Manager;
use support::real::{self, RealServer};
use support::{Cluster, eventually, until};

const SIGNER: &str = "--controllers=bootstrap-signer-controller";
const CLEANER: &str = "--controllers=token-cleaner-controller";
const SECRET_PART: &str = "0123456789abcdef";

/// The bootstrap tokens of a cluster, and the ConfigMap that they sign.
struct Tokens {
    secrets: Api<Secret>,
    maps: Api<ConfigMap>,
}

impl Tokens {
    fn of(client: kube::Client) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), "kube-system"),
            maps: Api::namespaced(client, "kube-public"),
        }
    }

    /// Removes what other tests have left.
    async fn clear(&self) {
        let tokens = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        self.secrets.delete_collection(&DeleteParams::default(), &tokens).await.unwrap();
        let _ = self.maps.delete("cluster-info", &DeleteParams::default()).await;
    }

    /// Makes a token that signs and authenticates.
    async fn create(&self, id: &str, expiration: Option<Time>) {
        let mut secret = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": SECRET_PART,
                "usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
            },
        });
        if let Some(expiration) = expiration {
            secret["stringData"]["expiration"] = json!(expiration);
        }
        self.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    }

    async fn patch(&self, id: &str, data: Value) {
        let patch = Patch::Merge(json!({"stringData": data}));
        self.secrets.patch(&format!("bootstrap-token-{id}"), &PatchParams::default(), &patch).await.unwrap();
    }

    async fn exists(&self, id: &str) -> bool {
        self.secrets.get_opt(&format!("bootstrap-token-{id}")).await.unwrap().is_some()
    }

    async fn goes(&self, id: &str) {
        eventually(&format!("the token {id} goes"), || async { (!self.exists(id).await).then_some(()) })
            .await;
    }

    async fn publish(&self, kubeconfig: &str) {
        let map =
            json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig, "other": "o"}});
        self.maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }

    /// Waits until these tokens and no others have signed this text.
    async fn are_signatures_of(&self, kubeconfig: &str, ids: &[&str]) {
        let mut expected: Vec<_> =
            ids.iter().map(|id| (format!("jws-kubeconfig-{id}"), signature(kubeconfig, id))).collect();
        expected
            .extend([("kubeconfig".to_owned(), kubeconfig.to_owned()), ("other".to_owned(), "o".to_owned())]);
        expected.sort();
        eventually(&format!("{ids:?} sign"), || async {
            let data = self.maps.get("cluster-info").await.unwrap().data.unwrap();
            (data.into_iter().collect::<Vec<_>>() == expected).then_some(())
        })
        .await;
    }
}

/// A detached signature, as kubeadm checks it.
fn signature(content: &str, id: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET_PART.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref()))
}

fn in_seconds(seconds: i64) -> Option<Time> {
    Some(Time::from_seconds(Time::now().seconds() + seconds))
}

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

/// Prepares a cluster for nodes that join with tokens, as kubeadm does.
async fn let_nodes_join(client: &kube::Client) {
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    for role in
        ["system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"]
    {
        let binding = json!({
            "metadata": {"generateName": "kubeadm-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{
                "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers",
            }],
        });
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }
}

/// A kubelet that has no runtime: it gets its certificate, and then can't go on. It is killed when this is dropped.
struct Kubelet(Child);

impl Kubelet {
    fn start(assets: &Path, folder: &Path, bootstrap: &Path) -> Self {
        // With `rotateCertificates`, the kubelet would look for its runtime before it asks for a certificate.
        let configuration = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///nowhere/runtime.sock",
            "address": "127.0.0.1", "port": 0, "healthzPort": 0, "failSwapOn": false, "failCgroupV1": false,
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
        });
        std::fs::write(folder.join("kubelet.json"), configuration.to_string()).unwrap();
        let mut command = Command::new(assets.join("kubelet"));
        command.arg("--bootstrap-kubeconfig").arg(bootstrap);
        command.arg("--kubeconfig").arg(folder.join("kubelet.conf"));
        command.arg("--config").arg(folder.join("kubelet.json"));
        command.arg("--cert-dir").arg(folder.join("pki")).arg("--root-dir").arg(folder.join("root"));
        command.arg("--hostname-override=joining-node");
        let log = std::fs::File::create(folder.join("kubelet.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().expect("the kubelet must start"))
    }
}

impl Kubelet {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

    let mut bootstrap = server.kubeconfig();
    bootstrap["users"][0]["user"] = json!({"token": format!("abcdef.{SECRET_PART}")});
    let bootstrap_file = folder.path().join("bootstrap");
    std::fs::write(&bootstrap_file, bootstrap.to_string()).unwrap();
    let mut kubelet = Kubelet::start(&assets, folder.path(), &bootstrap_file);
    let issued = folder.path().join("pki/kubelet-client-current.pem");
    let log = folder.path().join("kubelet.log");
    until("the kubelet has its certificate, or has ended", || issued.exists() || kubelet.has_ended()).await;
    assert!(issued.exists(), "{}", std::fs::read_to_string(&log).unwrap());
    drop(kubelet);

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
    let mut node = server.kubeconfig();
    node["users"][0]["user"] = json!({"client-certificate": issued, "client-key": issued});
    let node = serde_json::from_value(node).unwrap();
    let node = kube::Config::from_custom_kubeconfig(node, &Default::default()).await.unwrap();
    let node = kube::Client::try_from(node).unwrap();
    assert!(Api::<Node>::all(node.clone()).get_opt("joining-node").await.unwrap().is_none());
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
    let reviews = Api::<SelfSubjectReview>::all(node);
    let who = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let who = who.status.unwrap().user_info.unwrap();
    assert_eq!(who.username.as_deref(), Some("system:node:joining-node"));
    assert!(who.groups.unwrap().contains(&"system:nodes".to_owned()));
}
