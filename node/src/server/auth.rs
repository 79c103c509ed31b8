//! Who a request comes from, and whether that user may make it.

use std::sync::Arc;

use http::{HeaderMap, Method};
use steersman_serving::Peer;
pub use steersman_serving::auth::{
    AccessReviewer, ApiReviewer, Attributes, Authorization, ClientCa, Decision, ResourceAttributes,
    ReviewError, TokenReviewer, Tokens, User,
};
use steersman_serving::auth::{AuthenticationConfig, Authenticator, Authorizer, NoReview, Unauthenticated};

use super::attributes::{subresources, verb};

/// Which users the server knows, and what they may do.
#[derive(Default)]
pub struct AuthConfig {
    /// The name of this node, about which reviewers are asked.
    pub node: String,
    /// Whether requests without credentials are those of `system:anonymous`, instead of being refused
    /// (`authentication.anonymous.enabled`, by default off).
    pub anonymous: bool,
    /// The authorities of client certificates (`authentication.x509.clientCAFile`). Default: none.
    pub client_ca: Option<Arc<ClientCa>>,
    /// The reviewer of tokens (`authentication.webhook.enabled`), and how long a valid token is remembered
    /// (`authentication.webhook.cacheTTL`, by default 2 minutes). Default: none.
    pub tokens: Option<Tokens>,
    /// What users may do (`authorization.mode`). By default a permission is remembered for 5 minutes
    /// (`authorization.webhook.cacheAuthorizedTTL`), a refusal for 30 seconds
    /// (`authorization.webhook.cacheUnauthorizedTTL`).
    pub authorization: Authorization,
}

/// Decides on requests.
pub struct Auth {
    node: String,
    authenticator: Arc<Authenticator>,
    authorizer: Authorizer,
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
    /// Remembers nothing yet.
    pub fn new(config: AuthConfig) -> Self {
        let AuthConfig { node, anonymous, client_ca, tokens, authorization } = config;
        let authentication =
            AuthenticationConfig { anonymous, client_ca, tokens, ..AuthenticationConfig::default() };
        Self {
            node,
            authenticator: Arc::new(Authenticator::new(authentication)),
            authorizer: Authorizer::new(authorization),
        }
    }

    /// What finds the users of requests.
    pub(super) fn authenticator(&self) -> &Arc<Authenticator> {
        &self.authenticator
    }

    /// The user who makes a request, by the certificates of its connection or by its token.
    pub(super) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        self.authenticator.authenticate(peer, headers).await
    }

    /// Whether an authorized request of `user` makes its connection a known one.
    pub(super) fn makes_known(&self, user: &User) -> bool {
        self.authorizer.makes_known(user)
    }

    /// Whether `user` may make a request to `path` (decoded).
    pub(super) async fn authorize(&self, user: &User, method: &Method, path: &str) -> Result<(), Refusal> {
        let (verb, subresources) = (verb(method), subresources(path));
        for subresource in subresources {
            let node = ResourceAttributes { verb, resource: "nodes", subresource, name: self.node.clone() };
            match self.authorizer.authorize(user, &Attributes::Resource(node)).await {
                Ok(decision) if decision.allowed => return Ok(()),
                Ok(_) => {}
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
        Err(Refusal::Forbidden(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            user.name,
            subresources.join(" ")
        )))
    }
}
