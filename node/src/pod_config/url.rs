//! The source URL: manifests behind an address.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio_util::sync::CancellationToken;

use super::manifest::{self, MAX_LENGTH, Origin};
use super::mux::SourceHandle;
use super::update::SourcePod;

/// How often the address is asked unless said otherwise (`httpCheckFrequency`).
pub const CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often an answer may point elsewhere, as Go's client has it.
const REDIRECTS: usize = 10;

/// Where the manifests are.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address; part of the pods' uids as it stands.
    pub url: String,
    /// Sent with each request (`--manifest-url-header`).
    pub headers: HeaderMap,
    /// How often it is asked; default [`CHECK_FREQUENCY`].
    pub period: Duration,
}

/// Why an address gave no pods this time. What it gave before stays; the next time may be better, or somebody must mend
/// the manifest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("the URL is not one: {0}")]
    Address(#[source] http::Error),
    /// The machine's root certificates can't be used.
    #[error("reading the root certificates: {0}")]
    Roots(#[source] std::io::Error),
    /// No answer.
    #[error("asking for it: {0}")]
    Call(#[source] Box<hyper_util::client::legacy::Error>),
    /// No answer in time.
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
    /// An answer that is too long, or broke off.
    #[error("reading the answer: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another answer than 200.
    #[error("the answer was {0}")]
    Status(StatusCode),
    /// An answer without a word.
    #[error("zero-length data received")]
    Empty,
    /// An answer that is no manifest.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
}

/// Asks for the manifests and says which pods they give, at once and every period, until `stop`.
///
/// # Errors
/// The source can't begin: the machine's root certificates can't be used.
pub async fn run(
    config: Config,
    node_name: &str,
    handle: SourceHandle,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut address = Address::new(config, node_name)?;
    let mut ticks = tokio::time::interval(address.config.period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let asking = async {
        let mut failures = 0u32;
        loop {
            ticks.tick().await;
            let said = match address.ask().await {
                Ok(said) => {
                    if failures > 0 {
                        tracing::info!(url = address.config.url, "Successfully read pods from URL");
                    }
                    failures = 0;
                    said
                }
                Err(error) => {
                    // The first few are enough to get the point across.
                    if failures < 4 {
                        tracing::warn!(url = address.config.url, %error, "Failed to read pods from URL");
                    } else {
                        tracing::debug!(url = address.config.url, %error, "Failed to read pods from URL");
                    }
                    failures = failures.saturating_add(1);
                    // An empty answer is one: the source was heard.
                    matches!(error, Error::Empty).then(Vec::new)
                }
            };
            if let Some(pods) = said
                && handle.set(pods).await.is_err()
            {
                return;
            }
        }
    };
    stop.run_until_cancelled(asking).await;
    Ok(())
}

/// The address and what it last said.
struct Address {
    config: Config,
    node_name: String,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    last: Option<Bytes>,
}

impl Address {
    fn new(config: Config, node_name: &str) -> Result<Self, Error> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(Error::Roots)?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { config, node_name: node_name.to_owned(), client, last: None })
    }

    /// The pods, or `None` if nothing changed since the last time.
    async fn ask(&mut self) -> Result<Option<Vec<SourcePod>>, Error> {
        let data = tokio::time::timeout(TIMEOUT, self.get()).await.map_err(|_| Error::Timeout)??;
        if data.is_empty() {
            return Err(Error::Empty);
        }
        if self.last.as_ref() == Some(&data) {
            return Ok(None);
        }
        // As upstream: a manifest that is no good is not looked at again until it changes.
        self.last = Some(data.clone());
        let pods = manifest::decode(&data, Origin::Url(&self.config.url), &self.node_name)?;
        Ok(Some(pods.into_iter().map(|pod| SourcePod::Own(Arc::new(pod))).collect()))
    }

    async fn get(&self) -> Result<Bytes, Error> {
        let mut uri: Uri =
            self.config.url.parse().map_err(|error| Error::Address(http::Error::from(error)))?;
        let first = uri.clone();
        for _ in 0..=REDIRECTS {
            let mut request = Request::get(uri.clone()).body(Empty::new()).map_err(Error::Address)?;
            // The headers may hold secrets, so only the configured server gets them.
            if is_same_origin(&uri, &first) {
                request.headers_mut().extend(self.config.headers.clone());
            }
            let answer = self.client.request(request).await.map_err(|error| Error::Call(Box::new(error)))?;
            let elsewhere = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            if answer.status().is_redirection()
                && let Some(location) = elsewhere
            {
                uri = resolved(&uri, location).map_err(Error::Address)?;
                continue;
            }
            if answer.status() != StatusCode::OK {
                return Err(Error::Status(answer.status()));
            }
            let body = Limited::new(answer.into_body(), MAX_LENGTH).collect().await.map_err(Error::Body)?;
            return Ok(body.to_bytes());
        }
        Err(Error::Status(StatusCode::LOOP_DETECTED))
    }
}

/// Whether both addresses have the same scheme, host and port. The scheme counts because HTTP would expose the headers.
fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && one.authority() == other.authority()
}

/// Where an answer points, which may be said as a path on the same server.
fn resolved(from: &Uri, location: &str) -> Result<Uri, http::Error> {
    let to: Uri = location.parse()?;
    if to.authority().is_some() {
        return Ok(to);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = to.into_parts().path_and_query;
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
#[path = "tests/url.rs"]
mod tests;
