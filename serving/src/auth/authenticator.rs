//! Finds the user who makes a request.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::Instant;

use super::client_ca::ClientCa;
use super::client_certificates::ClientCertificates;
use super::metrics::Metrics;
use super::request_headers::RequestHeaders;
use super::token::{CachedTokens, TokenReviewer};
use super::turns::NoReview;
use super::user::User;
use crate::origin::Origin;
use crate::peer::Peer;

/// Which credentials count.
#[derive(Default)]
pub struct AuthenticationConfig {
    /// Whether requests without credentials are those of `system:anonymous`, instead of being refused. Default: no.
    pub anonymous: bool,
    /// Proxies that name users in headers. Default: none.
    pub request_headers: Option<Arc<RequestHeaders>>,
    /// The authorities of client certificates. Default: none.
    pub client_ca: Option<Arc<ClientCa>>,
    /// The reviewer of tokens. Default: none, and tokens count as no credentials.
    pub tokens: Option<Tokens>,
    /// Where authentications are counted. Default: metrics that nobody sees.
    pub metrics: Metrics,
}

/// A reviewer of tokens.
pub struct Tokens {
    /// The reviewer.
    pub reviewer: Arc<dyn TokenReviewer>,
    /// How long a valid token is remembered. Invalid tokens are never remembered.
    pub ttl: Duration,
}

/// Finds the user who makes a request.
pub struct Authenticator {
    anonymous: bool,
    request_headers: Option<Arc<RequestHeaders>>,
    client_ca: Option<Arc<ClientCa>>,
    tokens: Option<CachedTokens>,
    metrics: Metrics,
}

/// Why a request has no user.
#[derive(Debug, PartialEq, Eq)]
pub enum Unauthenticated {
    /// Its credentials are missing or invalid. The reason is for the log only.
    Unauthorized(String),
    /// Too many tokens are being reviewed. The client should try again later.
    Busy,
}

impl Authenticator {
    /// An authenticator that remembers nothing yet.
    pub fn new(config: AuthenticationConfig) -> Self {
        Self {
            anonymous: config.anonymous,
            request_headers: config.request_headers,
            client_ca: config.client_ca,
            tokens: config.tokens.map(|tokens| CachedTokens::new(tokens.reviewer, tokens.ttl)),
            metrics: config.metrics,
        }
    }

    /// The authorities of all client certificates that count.
    pub(crate) fn client_authorities(&self) -> impl Iterator<Item = Arc<ClientCa>> {
        let of_proxies = self.request_headers.as_ref().map(|headers| Arc::clone(headers.authorities()));
        of_proxies.into_iter().chain(self.client_ca.clone())
    }

    /// Whether an authority that counts has signed the certificates of a connection.
    pub(crate) async fn is_verified(&self, certificates: &ClientCertificates) -> bool {
        if certificates.is_empty() {
            return false;
        }
        if let Some(authority) = &self.client_ca
            && authority.user(certificates).await.is_ok_and(|user| user.is_some())
        {
            return true;
        }
        match &self.request_headers {
            Some(headers) => headers.is_proxy(certificates).await,
            None => false,
        }
    }

    /// Finds the user who makes a request: the one that a proxy names, that the connection's certificate names, or that
    /// the token belongs to, in this order. A request without credentials is the anonymous user's, if that is allowed; a
    /// request with only invalid ones has no user (upstream: `DelegatingAuthenticatorConfig`).
    ///
    /// # Errors
    /// If the request has no user.
    pub async fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Unauthenticated> {
        let began = Instant::now();
        let result = self.find(peer, headers).await;
        self.metrics.authenticated(&result, began.elapsed());
        result
    }

    async fn find(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Unauthenticated> {
        let certificates = &peer.certificates;
        let mut refused = Vec::new();
        if let Some(proxies) = self.request_headers.as_ref().filter(|_| !certificates.is_empty()) {
            match proxies.user(certificates, headers).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(error) => refused.push(format!("proxy's certificate: {error}")),
            }
        }
        if let Some(authority) = self.client_ca.as_ref().filter(|_| !certificates.is_empty()) {
            match authority.user(certificates).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(error) => refused.push(format!("client certificate: {error}")),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer_token(headers)) {
            match tokens.user(token, Origin::of(peer.address)).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => refused.push("invalid bearer token".to_owned()),
                Err(NoReview::Busy) => return Err(Unauthenticated::Busy),
                Err(NoReview::Failed(error)) => refused.push(format!("bearer token: {error}")),
            }
        }
        match refused.as_slice() {
            [] if self.anonymous => Ok(User::anonymous()),
            [] => Err(Unauthenticated::Unauthorized("no credentials".to_owned())),
            _ => Err(Unauthenticated::Unauthorized(refused.join("; "))),
        }
    }
}

/// The token in the headers of a request. If there are two such headers, neither counts.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let mut words = value.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = words.next()?;
    words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_token_follows_the_word_bearer() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc rest", Some("abc")),
            (" BEARER abc", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  abc", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            assert_eq!(bearer_token(&headers), None);
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer_token(&headers), token, "{value:?}");
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer other"));
            assert_eq!(bearer_token(&headers), None, "two headers");
        }
    }
}
