//! Who asks, and whether they may.

mod access;
mod api;
mod cache;
mod client_ca;
mod client_certificates;
mod subject;
mod token;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};

pub use super::attributes::Attributes;
use super::attributes::{subresources, verb};
pub use access::AccessReviewer;
pub use api::ApiReviewer;
pub use client_ca::ClientCa;
pub(super) use client_certificates::ClientCertificates;
pub use token::TokenReviewer;

use access::CachedAccess;
use token::CachedTokens;
use turns::NoReview;

/// Everybody whose credentials were good is in it.
const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid, where one is known; else empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known, sorted by name.
    pub extra: Vec<(String, Vec<String>)>,
}

/// A review that came to no result. The request that needed it fails; the next one tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Who may ask the server, and what.
#[derive(Default)]
pub struct AuthConfig {
    /// The name of this node, about which reviewers are asked.
    pub node: String,
    /// Requests without any credentials are those of `system:anonymous`, instead of being refused
    /// (`authentication.anonymous.enabled`, by default off).
    pub anonymous: bool,
    /// Whose client certificates are believed (`authentication.x509.clientCAFile`); by default nobody's.
    pub client_ca: Option<Arc<ClientCa>>,
    /// Who knows tokens (`authentication.webhook.enabled`); by default nobody.
    pub tokens: Option<Tokens>,
    /// Who decides what users may.
    pub authorization: Authorization,
}

/// Who knows tokens.
pub struct Tokens {
    /// Whom to ask.
    pub reviewer: Arc<dyn TokenReviewer>,
    /// How long a token that was good stays so (`authentication.webhook.cacheTTL`, by default 2 minutes). That one was not
    /// is never remembered.
    pub ttl: Duration,
}

/// Who decides what users may (`authorization.mode`).
#[derive(Default)]
pub enum Authorization {
    /// Nobody: no user may do anything.
    #[default]
    Nobody,
    /// Everybody who is known may do everything.
    AlwaysAllow,
    /// A reviewer is asked.
    Webhook {
        /// Whom to ask.
        reviewer: Arc<dyn AccessReviewer>,
        /// How long yes is remembered (`authorization.webhook.cacheAuthorizedTTL`, by default 5 minutes).
        allowed_ttl: Duration,
        /// How long no is remembered (`authorization.webhook.cacheUnauthorizedTTL`, by default 30 seconds).
        denied_ttl: Duration,
    },
}

/// Decides on requests.
pub struct Auth {
    node: String,
    anonymous: bool,
    client_ca: Option<Arc<ClientCa>>,
    tokens: Option<CachedTokens>,
    access: Access,
}

enum Access {
    Nobody,
    Everybody,
    Reviewed(Box<CachedAccess>),
}

/// Why a request has no user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unauthenticated {
    /// Its credentials are missing or do not count. The reason is for the log alone.
    Unauthorized(String),
    /// Too many tokens are being reviewed.
    Busy,
}

/// Why a user's request is refused. The text is for the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The user may not do that.
    Forbidden(String),
    /// The reviewer failed.
    Unknown(String),
    /// Too many reviews are under way.
    Busy,
}

impl Auth {
    /// With nothing remembered yet.
    pub fn new(config: AuthConfig) -> Self {
        Self {
            node: config.node,
            anonymous: config.anonymous,
            client_ca: config.client_ca,
            tokens: config.tokens.map(|tokens| CachedTokens::new(tokens.reviewer, tokens.ttl)),
            access: match config.authorization {
                Authorization::Nobody => Access::Nobody,
                Authorization::AlwaysAllow => Access::Everybody,
                Authorization::Webhook { reviewer, allowed_ttl, denied_ttl } => {
                    Access::Reviewed(Box::new(CachedAccess::new(reviewer, allowed_ttl, denied_ttl)))
                }
            },
        }
    }

    /// Whose client certificates are believed.
    pub(super) fn client_ca(&self) -> Option<&Arc<ClientCa>> {
        self.client_ca.as_ref()
    }

    /// Whether a connection's certificates name a user of a trusted authority.
    pub(super) async fn is_verified(&self, certificates: &ClientCertificates) -> bool {
        match &self.client_ca {
            Some(authority) if !certificates.is_empty() => {
                authority.user(certificates).await.is_ok_and(|user| user.is_some())
            }
            _ => false,
        }
    }

    /// The user who makes a request, by the certificates of its connection or by its token. Credentials that do not count
    /// are as good as none, except that the request is not even an anonymous user's then.
    pub(super) async fn authenticate(
        &self,
        certificates: &ClientCertificates,
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        let mut refused = Vec::new();
        if let Some(authority) = self.client_ca.as_ref().filter(|_| !certificates.is_empty()) {
            match authority.user(certificates).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => {}
                Err(error) => refused.push(format!("client certificate: {error}")),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer_token(headers)) {
            match tokens.user(token).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => refused.push("invalid bearer token".to_owned()),
                Err(NoReview::Busy) => return Err(Unauthenticated::Busy),
                Err(NoReview::Failed(error)) => refused.push(format!("bearer token: {error}")),
            }
        }
        match refused.as_slice() {
            [] if self.anonymous => Ok(User {
                name: ANONYMOUS.to_owned(),
                groups: vec![UNAUTHENTICATED.to_owned()],
                ..User::default()
            }),
            [] => Err(Unauthenticated::Unauthorized("no credentials".to_owned())),
            _ => Err(Unauthenticated::Unauthorized(refused.join("; "))),
        }
    }

    /// Whether the connection of a user who may do something is no stranger's any more. Anybody may be anonymous, so what a
    /// reviewer lets that user do gives no claim to a place; where everybody may do everything, nobody is a stranger.
    pub(super) fn makes_known(&self, user: &User) -> bool {
        user.name != ANONYMOUS || matches!(self.access, Access::Everybody)
    }

    /// Whether `user` may do what a request to `path` (decoded) asks for.
    pub(super) async fn authorize(&self, user: &User, method: &Method, path: &str) -> Result<(), Refusal> {
        let (verb, subresources) = (verb(method), subresources(path));
        let access = match &self.access {
            Access::Everybody => return Ok(()),
            Access::Nobody => None,
            Access::Reviewed(access) => Some(access),
        };
        if let Some(access) = access {
            for subresource in subresources {
                let attributes = Attributes { verb, subresource, node: self.node.clone() };
                match access.allows(user, &attributes).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(NoReview::Busy) => return Err(Refusal::Busy),
                    Err(NoReview::Failed(error)) => {
                        tracing::error!(user = user.name, verb, subresource, %error, "Authorization error");
                        return Err(Refusal::Unknown(format!(
                            "Authorization error (user={}, verb={verb}, resource=nodes, subresource={subresource})",
                            user.name
                        )));
                    }
                }
            }
        }
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            user.name,
            subresources.join(" ")
        )))
    }
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The token that a request carries. Of two headers neither counts.
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
