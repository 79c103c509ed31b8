//! Tokens that Secrets keep: who may use them, and how the server notes their use.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use steersman_apiserver::{Options, Server};

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// A server with a service account whose token is in a Secret.
struct Cluster {
    server: Server,
    _folder: tempfile::TempDir,
    client: Client,
    uid: String,
    token: String,
}

impl Cluster {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(Options::new(folder.path()));
        let server = server.await.unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(server.kubeconfig(), &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let mut cluster = Self { server, _folder: folder, client, uid: String::new(), token: String::new() };
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "listed"}]});
        let account = cluster.accounts().create(&PostParams::default(), &object(account)).await.unwrap();
        cluster.uid = account.metadata.uid.unwrap();
        cluster.token = cluster.sign(&cluster.claims("token"));
        cluster.keep("token", &cluster.token).await;
        cluster
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn claims(&self, secret: &str) -> Value {
        json!({
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": secret,
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": self.uid,
            "sub": "system:serviceaccount:default:robot",
        })
    }

    fn sign(&self, claims: &Value) -> String {
        let pem = std::fs::read_to_string(self.server.token_key()).unwrap();
        let der = rcgen::KeyPair::from_pem(&pem).unwrap().serialize_der();
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
        let encoded = |text: String| URL_SAFE_NO_PAD.encode(text);
        let signed =
            format!("{}.{}", encoded(json!({"alg": "ES256"}).to_string()), encoded(claims.to_string()));
        let signature = key.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// Creates a Secret that keeps a token.
    async fn keep(&self, name: &str, token: &str) {
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let secret = json!({
            "metadata": {"name": name, "annotations": annotations, "finalizers": ["example.com/kept"]},
            "type": "kubernetes.io/service-account-token",
            "data": {"token": STANDARD.encode(token)},
        });
        self.secrets().create(&PostParams::default(), &object(secret)).await.unwrap();
    }

    async fn label(&self, name: &str, labels: Value) {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        self.secrets().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn last_used(&self, name: &str) -> Option<String> {
        self.secrets().get(name).await.unwrap().metadata.labels.unwrap_or_default().remove(LAST_USED)
    }

    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let review = object(json!({"metadata": {}, "spec": {"token": token, "audiences": audiences}}));
        let reviewed = reviews.create(&PostParams::default(), &review).await.unwrap();
        serde_json::to_value(reviewed.status.unwrap()).unwrap()
    }

    /// The answer to a request by the token's owner: its code and its warnings.
    async fn use_it(&self, token: &str) -> (u16, Vec<String>) {
        let mut kubeconfig = self.server.kubeconfig();
        let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
        *user = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        let warnings = answer.headers().get_all("warning").iter();
        (answer.status().as_u16(), warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect())
    }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn today() -> String {
    jiff::Timestamp::now().to_string()[..10].to_owned()
}

#[tokio::test]
async fn a_token_stands_for_its_account_and_its_use_is_noted() {
    let cluster = Cluster::start().await;
    let reviewed = cluster.review(&cluster.token, &[]).await;
    let expected = json!({
        "authenticated": true,
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
        "user": {
            "username": "system:serviceaccount:default:robot",
            "uid": cluster.uid,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        },
    });
    assert_eq!(reviewed, expected);
    assert_eq!(cluster.last_used("token").await, Some(today()));
    assert_eq!(cluster.use_it(&cluster.token).await, (200, vec![]));
    let secret = cluster.secrets().get("token").await.unwrap();
    let managers = secret.metadata.managed_fields.unwrap();
    assert!(managers.iter().any(|one| one.manager.as_deref() == Some("kube-apiserver")), "{managers:?}");

    cluster.label("token", json!({LAST_USED: "2020-01-01"})).await;
    assert_eq!(cluster.use_it(&cluster.token).await, (200, vec![]));
    assert_eq!(cluster.last_used("token").await, Some(today()));
    let version = cluster.secrets().get("token").await.unwrap().metadata.resource_version;
    cluster.use_it(&cluster.token).await;
    assert_eq!(
        cluster.secrets().get("token").await.unwrap().metadata.resource_version,
        version,
        "once a day"
    );
}

#[tokio::test]
async fn a_token_that_the_account_lists_is_warned_of() {
    let cluster = Cluster::start().await;
    let token = cluster.sign(&cluster.claims("listed"));
    cluster.keep("listed", &token).await;
    let (code, warnings) = cluster.use_it(&token).await;
    assert_eq!(code, 200);
    assert_eq!(
        warnings,
        [
            "299 - \"Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.\""
        ]
    );
}

#[tokio::test]
async fn a_token_that_is_marked_as_invalid_is_refused_and_its_use_noted() {
    let cluster = Cluster::start().await;
    cluster.label("token", json!({INVALID_SINCE: today()})).await;
    assert_eq!(cluster.use_it(&cluster.token).await, (401, vec![]));
    assert_eq!(cluster.last_used("token").await, Some(today()));
    let error = cluster.review(&cluster.token, &[]).await["error"].to_string();
    assert!(
        error.contains("default/token for service account default/robot has been marked invalid"),
        "{error}"
    );
    cluster.label("token", json!({INVALID_SINCE: null})).await;
    assert_eq!(cluster.use_it(&cluster.token).await.0, 200);
}

#[tokio::test]
async fn only_the_token_that_the_secret_has_is_valid_and_only_for_the_api_server() {
    let cluster = Cluster::start().await;
    let with = |key: &str, value: &str| {
        let mut claims = cluster.claims("token");
        claims[key] = value.into();
        cluster.sign(&claims)
    };
    for token in [
        cluster.sign(&cluster.claims("token")),
        cluster.sign(&cluster.claims("absent")),
        with("iss", "somebody"),
        with("sub", "system:serviceaccount:kube-system:robot"),
        with("kubernetes.io/serviceaccount/service-account.uid", "other"),
        with("kubernetes.io/serviceaccount/namespace", ""),
    ] {
        assert_eq!(cluster.use_it(&token).await.0, 401, "{token}");
    }
    assert_eq!(cluster.last_used("token").await, None);
    let elsewhere = cluster.review(&cluster.token, &["vault"]).await;
    assert!(elsewhere["authenticated"].is_null(), "{elsewhere}");
}

#[tokio::test]
async fn a_token_ends_with_its_secret_and_with_its_account() {
    let cluster = Cluster::start().await;
    cluster.secrets().delete("token", &DeleteParams::default()).await.unwrap();
    assert!(cluster.secrets().get("token").await.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(cluster.use_it(&cluster.token).await.0, 401);

    let cluster = Cluster::start().await;
    cluster.accounts().delete("robot", &DeleteParams::default()).await.unwrap();
    assert_eq!(cluster.use_it(&cluster.token).await.0, 401);
    let account = object(json!({"metadata": {"name": "robot"}}));
    cluster.accounts().create(&PostParams::default(), &account).await.unwrap();
    assert_eq!(cluster.use_it(&cluster.token).await.0, 401, "another account of the name");
}

#[tokio::test]
async fn the_server_says_since_when_it_tracks_uses() {
    let cluster = Cluster::start().await;
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), "kube-system");
    let map = maps.get("kube-apiserver-legacy-service-account-token-tracking").await.unwrap();
    assert_eq!(map.data.unwrap(), [("since".to_owned(), today())].into());
}
