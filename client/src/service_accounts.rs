//! Identities for the components of a process: tokens of service accounts.
//!
//! kube-controller-manager does the same with `--use-service-account-credentials` (client-go's
//! `DynamicControllerClientBuilder`): each controller's client has the token of a service account in `kube-system`. The
//! process itself needs the rights to create service accounts there and to request tokens for them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header::AUTHORIZATION};
use kube::client::Body;
use parking_lot::Mutex;
use steersman_api::ArcStr;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use crate::{
    Sender,
    fault::told,
    service::{BaseService, RawBody},
    transport::Transport,
};
use requests::{Granted, Requests};

mod requests;
#[cfg(test)]
mod tests;

/// The lifetime that a token is requested for; client-go: `defaultExpirationSeconds`.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The shortest lifetime that an answer can mean; client-go, and the API server, have the same minimum.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(600);
/// The part of its lifetime after which a token is replaced; client-go: all but `defaultLeewayPercent`.
const REPLACE_AFTER: f64 = 0.8;
/// The wait after a failed replacement, while the current token is still valid.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// There is no token for a service account, so the request was not sent. Try again later.
#[derive(Debug, thiserror::Error)]
#[error("no token for service account {namespace}/{name}: {}", told(source))]
pub struct Error {
    /// The namespace of the service account.
    pub namespace: ArcStr,
    /// Its name.
    pub name: ArcStr,
    /// Why the account could not be created, or the token not be requested.
    #[source]
    pub source: kube::Error,
}

/// Service accounts of one namespace, as identities of components. Cheap to clone.
///
/// Creates an account that does not exist when a component first needs its token, and again if it was deleted meanwhile.
#[derive(Clone)]
pub(crate) struct ServiceAccounts {
    shared: Arc<Shared>,
}

struct Shared {
    namespace: ArcStr,
    requests: Requests,
    /// Sends requests without credentials. A client certificate would take precedence over the token.
    anonymous: BaseService,
    /// The connections below `anonymous`. `None` if the service is not ours.
    transport: Option<Transport>,
    accounts: Mutex<BTreeMap<ArcStr, Arc<Account>>>,
}

impl ServiceAccounts {
    /// The accounts of `namespace`. `sender` creates them and requests their tokens; `anonymous` sends requests without
    /// credentials.
    pub(crate) fn new(
        namespace: &str,
        sender: Sender,
        anonymous: BaseService,
        transport: Option<Transport>,
    ) -> Self {
        let namespace = ArcStr::from(namespace);
        let requests = Requests::new(namespace.clone(), sender);
        Self {
            shared: Arc::new(Shared {
                namespace,
                requests,
                anonymous,
                transport,
                accounts: Mutex::default(),
            }),
        }
    }

    /// The user name of the account `name`.
    pub(crate) fn user(&self, name: &str) -> String {
        format!("system:serviceaccount:{}:{name}", self.shared.namespace)
    }

    /// The service that sends requests as the account `name`. Services of the same account share its token.
    pub(crate) fn service(&self, name: &str) -> BaseService {
        let mut accounts = self.shared.accounts.lock();
        let account = accounts.entry(name.into()).or_insert_with_key(|name| {
            Arc::new(Account { name: name.clone(), token: tokio::sync::Mutex::default() })
        });
        BaseService::new(AsAccount { accounts: self.clone(), account: account.clone() })
    }

    /// Closes the connections of all accounts.
    pub(crate) async fn close(&self) {
        if let Some(transport) = &self.shared.transport {
            transport.close().await;
        }
    }
}

/// One service account.
struct Account {
    name: ArcStr,
    /// Locked while a token is requested, so that concurrent requests share one.
    token: tokio::sync::Mutex<Option<Token>>,
}

/// A token that the API server granted.
struct Token {
    header: HeaderValue,
    requested_at: Instant,
    /// When the next request replaces the token.
    replace_at: Instant,
    /// From when on the token is invalid.
    expires_at: Instant,
}

impl Token {
    fn of(granted: Granted, requested_at: Instant) -> Self {
        // The time from the request on, as the API server granted it: the clocks of both machines may differ.
        let lifetime = granted.lifetime.max(SHORTEST_LIFETIME);
        Self {
            header: granted.header,
            requested_at,
            replace_at: requested_at + lifetime.mul_f64(REPLACE_AFTER),
            expires_at: requested_at + lifetime,
        }
    }
}

impl Account {
    /// The `Authorization` header, from a new token if the current one is old or refused.
    async fn header(&self, requests: &Requests) -> Result<HeaderValue, kube::Error> {
        let mut current = self.token.lock().await;
        let now = Instant::now();
        if let Some(token) = current.as_ref().filter(|token| now < token.replace_at) {
            return Ok(token.header.clone());
        }
        match (requests.token(&self.name).await, &mut *current) {
            (Ok(granted), _) => Ok(current.insert(Token::of(granted, now)).header.clone()),
            (Err(error), Some(token)) if now < token.expires_at => {
                let account = &*self.name;
                tracing::warn!(account, error = %told(&error), "Keeping the token of a service account, can't replace it");
                token.replace_at = now + RETRY_AFTER;
                Ok(token.header.clone())
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Discards the token if it is the one that the API server refused in a request sent at `sent_at`.
    async fn refused(&self, sent_at: Instant) {
        let mut current = self.token.lock().await;
        if current.as_ref().is_some_and(|token| token.requested_at <= sent_at) {
            *current = None;
        }
    }
}

/// Sends requests as one account.
#[derive(Clone)]
struct AsAccount {
    accounts: ServiceAccounts,
    account: Arc<Account>,
}

impl Service<Request<Body>> for AsAccount {
    type Response = Response<RawBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<RawBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Self { accounts, account } = self.clone();
        Box::pin(async move {
            let Shared { namespace, requests, anonymous, .. } = &*accounts.shared;
            let header = account.header(requests).await.map_err(|source| Error {
                namespace: namespace.clone(),
                name: account.name.clone(),
                source,
            })?;
            request.headers_mut().insert(AUTHORIZATION, header);
            let sent_at = Instant::now();
            let response = anonymous.clone().oneshot(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                account.refused(sent_at).await;
            }
            Ok(response)
        })
    }
}
