//! Bootstrap tokens, and a kubelet that joins with one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use ring::hmac;
use serde_json::{Value, json};
use steersman_api::Time;

use super::{eventually, until};

/// The secret part of each token.
pub const SECRET_PART: &str = "0123456789abcdef";

/// The bootstrap tokens of a cluster, and the ConfigMap that they sign.
pub struct Tokens {
    pub secrets: Api<Secret>,
    pub maps: Api<ConfigMap>,
}

impl Tokens {
    pub fn of(client: kube::Client) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), "kube-system"),
            maps: Api::namespaced(client, "kube-public"),
        }
    }

    /// Removes what other tests have left.
    pub async fn clear(&self) {
        let tokens = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        self.secrets.delete_collection(&DeleteParams::default(), &tokens).await.unwrap();
        let _ = self.maps.delete("cluster-info", &DeleteParams::default()).await;
    }

    /// Makes a token that signs and authenticates.
    pub async fn create(&self, id: &str, expiration: Option<Time>) {
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

    pub async fn patch(&self, id: &str, data: Value) {
        let patch = Patch::Merge(json!({"stringData": data}));
        self.secrets.patch(&format!("bootstrap-token-{id}"), &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn exists(&self, id: &str) -> bool {
        self.secrets.get_opt(&format!("bootstrap-token-{id}")).await.unwrap().is_some()
    }

    pub async fn goes(&self, id: &str) {
        eventually(&format!("the token {id} goes"), || async { (!self.exists(id).await).then_some(()) })
            .await;
    }

    pub async fn publish(&self, kubeconfig: &str) {
        let map =
            json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig, "other": "o"}});
        self.maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }

    /// Waits until these tokens and no others have signed this text.
    pub async fn are_signatures_of(&self, kubeconfig: &str, ids: &[&str]) {
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

/// The time in so many seconds, or before now.
pub fn in_seconds(seconds: i64) -> Option<Time> {
    Some(Time::from_seconds(Time::now().seconds() + seconds))
}

/// Prepares a cluster for nodes that join with tokens, as kubeadm does.
pub async fn let_nodes_join(client: &kube::Client) {
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

/// The name of the node that joins by [`join`].
pub const NODE: &str = "joining-node";

/// Has the kubelet of `assets` join with a token, and returns the file with its certificate and key.
///
/// The kubelet has no runtime: it gets its certificate, and then can't go on. `cluster` is a kubeconfig of the API server; the
/// kubelet's files are put in `folder`.
pub async fn join(assets: &Path, mut cluster: Value, token: &str, folder: &Path) -> PathBuf {
    cluster["users"][0]["user"] = json!({"token": format!("{token}.{SECRET_PART}")});
    let bootstrap = folder.join("bootstrap");
    std::fs::write(&bootstrap, cluster.to_string()).expect("the kubeconfig must be written");
    let mut kubelet = Kubelet::start(assets, folder, &bootstrap);
    let issued = folder.join("pki/kubelet-client-current.pem");
    until("the kubelet has its certificate, or has ended", || issued.exists() || kubelet.has_ended()).await;
    assert!(issued.exists(), "{}", std::fs::read_to_string(folder.join("kubelet.log")).unwrap_or_default());
    issued
}

/// A client that has the certificate in this file. `cluster` is a kubeconfig of the API server.
pub async fn client_with(certificate: &Path, mut cluster: Value) -> kube::Client {
    cluster["users"][0]["user"] = json!({"client-certificate": certificate, "client-key": certificate});
    let kubeconfig = serde_json::from_value(cluster).expect("it is a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.expect("the kubeconfig must be complete")).expect("it must make a client")
}

/// A kubelet. It is killed when this is dropped.
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
        std::fs::write(folder.join("kubelet.json"), configuration.to_string())
            .expect("the configuration must be written");
        let mut command = Command::new(assets.join("kubelet"));
        command.arg("--bootstrap-kubeconfig").arg(bootstrap);
        command.arg("--kubeconfig").arg(folder.join("kubelet.conf"));
        command.arg("--config").arg(folder.join("kubelet.json"));
        command.arg("--cert-dir").arg(folder.join("pki")).arg("--root-dir").arg(folder.join("root"));
        command.arg(format!("--hostname-override={NODE}"));
        let log = std::fs::File::create(folder.join("kubelet.log")).expect("a log file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().expect("the kubelet must start"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("its end can be waited for").is_some()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
