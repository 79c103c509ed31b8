//! Tokens of service accounts, bound to pods.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use rand::Rng;
use steersman_client::fault::told;

#[cfg(test)]
mod tests;

/// A token is replaced once it is this old, however long it is good for.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Replacements come earlier by up to this, at random, so that those of many nodes spread.
const MAX_JITTER: Duration = Duration::from_secs(10);
/// How often tokens that are good no longer are forgotten.
const SWEEP: Duration = Duration::from_secs(60);

/// What the wall clock shows.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where tokens come from.
#[async_trait]
pub trait TokenSource: Send + Sync + 'static {
    /// Asks for a token of a service account; gives the request back with its status.
    ///
    /// # Errors
    /// In words, for the event.
    async fn request(
        &self,
        namespace: &str,
        service_account: &str,
        request: &TokenRequest,
    ) -> Result<TokenRequest, String>;
}

/// Tokens from the API server, by the `token` subresource of service accounts.
pub struct ApiTokens(kube::Client);

impl ApiTokens {
    /// By way of `client`.
    pub fn new(client: kube::Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl TokenSource for ApiTokens {
    async fn request(
        &self,
        namespace: &str,
        service_account: &str,
        request: &TokenRequest,
    ) -> Result<TokenRequest, String> {
        let api = Api::<ServiceAccount>::namespaced(self.0.clone(), namespace);
        let answer = api.create_token_request(service_account, &PostParams::default(), request).await;
        answer.map_err(|error| told(&error).to_string())
    }
}

/// A node without API server has no tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokens;

#[async_trait]
impl TokenSource for NoTokens {
    async fn request(&self, _: &str, _: &str, _: &TokenRequest) -> Result<TokenRequest, String> {
        Err("cannot use TokenManager when kubelet is in standalone mode".to_owned())
    }
}

/// Which token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    namespace: String,
    service_account: String,
    audience: String,
    expiration_seconds: Option<i64>,
    pod_name: String,
    pod_uid: String,
}

#[derive(Debug, Clone)]
struct Kept {
    token: String,
    expires: Timestamp,
    /// For how long it was given, if that was said: without it nobody can tell its age, and it is kept to its end.
    seconds: Option<i64>,
}

/// The tokens of the node's pods: asked for when first needed, kept, replaced in time (`Manager` of `pkg/kubelet/token`).
pub struct TokenManager {
    source: Arc<dyn TokenSource>,
    now: WallClock,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    tokens: HashMap<Key, Kept>,
    /// When what is good no longer was last forgotten.
    swept: Option<Timestamp>,
}

impl TokenManager {
    /// Without tokens yet.
    pub fn new(source: Arc<dyn TokenSource>, now: WallClock) -> Self {
        Self { source, now, cache: Mutex::default() }
    }

    /// The pod's token for an audience (the empty one: the API server), the one at hand unless it is time for another:
    /// past 80 % of its life, or a day after it was given. If there is no other to be had, the old one serves to its end.
    ///
    /// # Errors
    /// There is none that is good; in words, for the event.
    pub async fn token(
        &self,
        pod: &Pod,
        audience: &str,
        expiration_seconds: Option<i64>,
    ) -> Result<String, String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let account = pod.spec.as_ref().map(|spec| text(&spec.service_account_name)).unwrap_or_default();
        let key = Key {
            namespace: text(&pod.metadata.namespace),
            service_account: account,
            audience: audience.to_owned(),
            expiration_seconds,
            pod_name: text(&pod.metadata.name),
            pod_uid: text(&pod.metadata.uid),
        };
        let kept = self.cache.lock().tokens.get(&key).cloned();
        let jitter = MAX_JITTER.mul_f64(rand::rng().random());
        if let Some(kept) = kept.as_ref().filter(|kept| !needs_replacement(kept, (self.now)(), jitter)) {
            return Ok(kept.token.clone());
        }
        let answer = self.source.request(&key.namespace, &key.service_account, &request(&key)).await;
        let now = (self.now)();
        match (answer.and_then(|answer| read(&answer)), kept) {
            (Ok(new), _) => {
                let token = new.token.clone();
                let mut cache = self.cache.lock();
                cache.sweep(now);
                cache.tokens.insert(key, new);
                Ok(token)
            }
            (Err(why), None) => Err(format!("failed to fetch token: {why}")),
            (Err(why), Some(old)) if now > old.expires => Err(format!(
                "token of {}/{} expired and refresh failed: {why}",
                key.namespace, key.service_account
            )),
            (Err(why), Some(old)) => {
                let (namespace, account) = (&key.namespace, &key.service_account);
                tracing::error!(%namespace, %account, pod = %key.pod_name, error = %why, "Couldn't update token");
                Ok(old.token)
            }
        }
    }

    /// The pod is at its end: its tokens are forgotten.
    pub fn forget(&self, pod_uid: &str) {
        self.cache.lock().tokens.retain(|key, _| key.pod_uid != pod_uid);
    }

    /// How many tokens are kept.
    pub fn len(&self) -> usize {
        self.cache.lock().tokens.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Cache {
    fn sweep(&mut self, now: Timestamp) {
        let due = |swept: Timestamp| seconds_between(swept, now) >= SWEEP.as_secs_f64();
        if self.swept.is_none_or(due) {
            self.tokens.retain(|_, kept| now <= kept.expires);
            self.swept = Some(now);
        }
    }
}

fn request(key: &Key) -> TokenRequest {
    let spec = TokenRequestSpec {
        audiences: (!key.audience.is_empty()).then(|| vec![key.audience.clone()]),
        expiration_seconds: key.expiration_seconds,
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(key.pod_name.clone()),
            uid: Some(key.pod_uid.clone()),
        }),
    };
    TokenRequest { spec: Some(spec), ..TokenRequest::default() }
}

fn read(answer: &TokenRequest) -> Result<Kept, String> {
    let status = answer.status.as_ref();
    let token = status.and_then(|status| status.token.clone()).filter(|token| !token.is_empty());
    let expires = status.and_then(|status| Some(status.expiration_timestamp.as_ref()?.0));
    Ok(Kept {
        token: token.ok_or("the API server's answer has no token")?,
        expires: expires.ok_or("the API server's answer does not say how long its token is good for")?,
        seconds: answer.spec.as_ref().and_then(|spec| spec.expiration_seconds),
    })
}

/// Whether it is time for another token. `jitter` makes it earlier.
fn needs_replacement(kept: &Kept, now: Timestamp, jitter: Duration) -> bool {
    let Some(seconds) = kept.seconds else { return false };
    let left = seconds_between(now, kept.expires);
    // Seconds of life are far below what a float holds exactly.
    #[allow(clippy::cast_precision_loss)]
    let life = seconds as f64;
    let (age, jitter) = (life - left, jitter.as_secs_f64());
    age > MAX_AGE.as_secs_f64() - jitter || left < life * 0.2 + jitter
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
