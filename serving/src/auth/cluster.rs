//! Settings for authentication that the API server publishes in the cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout};

use super::api::told;
use super::client_ca::ClientCa;
use super::request_headers::{HeaderNames, RequestHeaders};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Pauses between two attempts to read the ConfigMap, doubled from the first to the last (client-go: `Backoff` of reflectors).
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// How long the API server may take to return the ConfigMap at the start.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one watch lasts, in seconds. Less than the most that kube accepts.
const WATCH: u32 = 270;

/// The settings that the API server publishes in the ConfigMap `extension-apiserver-authentication`: the authorities of client
/// certificates, and the proxies that may name users. A server takes what its own flags do not set from there.
pub struct ClusterSettings {
    api: Api<ConfigMap>,
    client_ca: Option<Arc<ClientCa>>,
    request_headers: Option<Arc<RequestHeaders>>,
}

/// The ConfigMap can't be read, or is invalid. Retry, or start without these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The API server did not return it.
    #[error("{0}")]
    Read(String),
    /// A value is not a list of texts in JSON.
    #[error("{key}: {message}")]
    Malformed {
        /// The key of the value.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
}

impl ClusterSettings {
    /// Settings that are not known yet. `client` must be allowed to get, list and watch the ConfigMap, as the Role
    /// `extension-apiserver-authentication-reader` allows it.
    pub fn new(client: Client) -> Self {
        Self { api: Api::namespaced(client, NAMESPACE), client_ca: None, request_headers: None }
    }

    /// The authorities of client certificates, from now on part of the settings.
    pub fn client_ca(&mut self) -> Arc<ClientCa> {
        Arc::clone(self.client_ca.get_or_insert_with(|| Arc::new(ClientCa::unknown())))
    }

    /// The proxies that may name users, from now on part of the settings.
    pub fn request_headers(&mut self) -> Arc<RequestHeaders> {
        let unknown = || Arc::new(RequestHeaders::new(Arc::new(ClientCa::unknown()), HeaderNames::default()));
        Arc::clone(self.request_headers.get_or_insert_with(unknown))
    }

    /// Reads the settings once. A ConfigMap that does not exist changes nothing.
    ///
    /// # Errors
    /// If it can't be read or is invalid.
    pub async fn look_up(&self) -> Result<(), LookupError> {
        let found = timeout(PATIENCE, self.api.get_opt(NAME)).await;
        let found = found.map_err(|_| LookupError::Read(format!("no answer in {PATIENCE:?}")))?;
        let found = found.map_err(|error| LookupError::Read(told(&error)))?;
        found.map_or(Ok(()), |found| self.apply(&found))
    }

    /// Follows the settings forever. What can't be read, or is invalid, leaves the settings as they are.
    pub async fn follow(self) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            match self.watch().await {
                Ok(()) => {}
                Err(error) => {
                    let error = told(&error);
                    tracing::warn!(
                        namespace = NAMESPACE,
                        name = NAME,
                        error,
                        "Failed to watch the ConfigMap"
                    );
                }
            }
            if began.elapsed() > LAST_PAUSE {
                pause = FIRST_PAUSE;
            }
            sleep(pause.mul_f64(1.0 + rand::random::<f64>())).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Lists the ConfigMap, and applies its changes until the watch ends.
    async fn watch(&self) -> Result<(), kube::Error> {
        let selector = format!("metadata.name={NAME}");
        let listed = self.api.list(&ListParams::default().fields(&selector)).await?;
        listed.items.iter().for_each(|found| self.apply_or_log(found));
        let version = listed.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().fields(&selector).timeout(WATCH);
        let mut events = pin!(self.api.watch(&parameters, &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(found) | WatchEvent::Modified(found) => self.apply_or_log(&found),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                // As upstream, a ConfigMap that is gone changes nothing.
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
        Ok(())
    }

    fn apply_or_log(&self, found: &ConfigMap) {
        if found.name_any() != NAME {
            return;
        }
        if let Err(error) = self.apply(found) {
            tracing::error!(namespace = NAMESPACE, name = NAME, %error, "Invalid settings for authentication");
        }
    }

    /// Applies the settings. As upstream, authorities that are missing or invalid leave those that were known.
    fn apply(&self, found: &ConfigMap) -> Result<(), LookupError> {
        let empty = BTreeMap::new();
        let data = found.data.as_ref().unwrap_or(&empty);
        let authorities = |authorities: &ClientCa, key: &str| {
            let pem = data.get(key).map(String::as_str).unwrap_or_default();
            if let Err(error) = authorities.set(pem.as_bytes()) {
                tracing::warn!(namespace = NAMESPACE, name = NAME, key, %error, "Keeping the last authorities");
            }
        };
        if let Some(client_ca) = &self.client_ca {
            authorities(client_ca, "client-ca-file");
        }
        if let Some(request_headers) = &self.request_headers {
            request_headers.set_names(header_names(data)?);
            authorities(request_headers.authorities(), "requestheader-client-ca-file");
        }
        Ok(())
    }
}

fn header_names(data: &BTreeMap<String, String>) -> Result<HeaderNames, LookupError> {
    let list = |key: &'static str| match data.get(key).map(String::as_str) {
        None | Some("") => Ok(Vec::new()),
        Some(text) => serde_json::from_str::<Option<Vec<String>>>(text)
            .map(Option::unwrap_or_default)
            .map_err(|error| LookupError::Malformed { key, message: error.to_string() }),
    };
    Ok(HeaderNames {
        users: list("requestheader-username-headers")?,
        uids: list("requestheader-uid-headers")?,
        groups: list("requestheader-group-headers")?,
        extra_prefixes: list("requestheader-extra-headers-prefix")?,
        allowed_proxies: list("requestheader-allowed-names")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_json() {
        let names = |pairs: &[(&str, &str)]| {
            header_names(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let read = names(&[
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-allowed-names", r#"["a","b"]"#),
            ("requestheader-group-headers", ""),
            ("requestheader-uid-headers", "null"),
        ]);
        let expected = HeaderNames {
            users: vec!["X-Remote-User".to_owned()],
            allowed_proxies: vec!["a".to_owned(), "b".to_owned()],
            ..HeaderNames::default()
        };
        assert_eq!(read, Ok(expected));
        let refused = names(&[("requestheader-allowed-names", "a,b")]).unwrap_err();
        assert!(refused.to_string().starts_with("requestheader-allowed-names: "), "{refused}");
    }
}
