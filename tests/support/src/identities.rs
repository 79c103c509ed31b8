//! Service accounts and the Secrets with their tokens.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewStatus};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Cluster, eventually};

/// The annotation that names the service account of a token.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The annotation with the uid of that account.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The file with the certificate authority that managers publish.
pub const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/ca.crt");
/// A file with another one.
pub const OTHER_CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/other-ca.crt");

/// The service accounts and Secrets of a namespace.
pub struct Identities {
    pub accounts: Api<ServiceAccount>,
    pub secrets: Api<Secret>,
    reviews: Api<TokenReview>,
}

impl Identities {
    pub fn of(client: &kube::Client) -> Self {
        Self {
            accounts: Api::default_namespaced(client.clone()),
            secrets: Api::default_namespaced(client.clone()),
            reviews: Api::all(client.clone()),
        }
    }

    /// Creates a service account with these Secrets in its list, and returns its uid.
    pub async fn create_account(&self, name: &str, secrets: &[&str]) -> String {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({ "name": name })).collect();
        let account = json!({ "metadata": { "name": name }, "secrets": secrets });
        let account = serde_json::from_value(account).expect("it is a service account");
        let created = self.accounts.create(&PostParams::default(), &account).await;
        created.expect("an account must be made").metadata.uid.expect("a created object has a uid")
    }

    /// Creates a Secret for a token of an account.
    pub async fn create_secret(&self, name: &str, account: &str, more: Value) {
        let mut secret = json!({
            "metadata": { "name": name, "annotations": { ACCOUNT_NAME: account } },
            "type": "kubernetes.io/service-account-token",
        });
        json_merge(&mut secret, &more);
        let secret = serde_json::from_value(secret).expect("it is a Secret");
        self.secrets.create(&PostParams::default(), &secret).await.expect("a Secret must be made");
    }

    pub async fn patch_secret(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.secrets.patch(name, &PatchParams::default(), &patch).await.expect("a Secret must be patched");
    }

    /// Waits until a Secret has a token.
    pub async fn filled(&self, name: &str) -> Secret {
        eventually(&format!("{name} has a token"), || async {
            let secret = self.secrets.get(name).await.ok()?;
            text(&secret, "token").is_some().then_some(secret)
        })
        .await
    }

    /// Waits until a Secret is gone.
    pub async fn gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), || async {
            matches!(self.secrets.get_opt(name).await, Ok(None)).then_some(())
        })
        .await;
    }

    /// What the API server says of a token.
    pub async fn review(&self, token: &str) -> TokenReviewStatus {
        let review = json!({ "metadata": {}, "spec": { "token": token } });
        let review = serde_json::from_value(review).expect("it is a review");
        let reviewed = self.reviews.create(&PostParams::default(), &review).await;
        reviewed.expect("the API server must answer").status.expect("a review has a status")
    }
}

/// A value of a Secret's data.
pub fn text(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?.get(key)?;
    String::from_utf8(data.0.clone()).ok()
}

/// The flags that name the key of the cluster's tokens, and the certificate authority.
pub fn files(cluster: &Cluster) -> [String; 2] {
    let key = cluster.token_key();
    [format!("--service-account-private-key-file={}", key.display()), format!("--root-ca-file={CA}")]
}

fn json_merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                json_merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}
