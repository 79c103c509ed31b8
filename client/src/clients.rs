//! The factory of API clients. Its clients share the connections; each component has a rate limit and name of its
//! own.

use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use kube::client::Body;
use steersman_api::ArcStr;
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};

use crate::{
    attempt::Attempts,
    gate::WriteGate,
    host_metrics::HostMetrics,
    limits::{Limiter, Limits},
    metrics::Metrics,
    retry::{Retries, Retrying},
    sender::{self, Sender},
    service::{BaseService, box_body},
    service_accounts::ServiceAccounts,
    traffic::Traffic,
    transport::{self, Transport},
};

/// The settings of a [`Clients`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The rate limit of each [`component`](Clients::component). Default: 20 requests a second, 30 at once.
    pub limits: Limits,
    /// The metrics that requests are counted in. Default: new families, not registered.
    pub metrics: Metrics,
    /// How connections are made and kept. [`Clients::over`] does not use it.
    pub transport: transport::Options,
}

/// Makes API clients that share connections and metrics.
///
/// A clone makes clients over the same connections. Every attempt of a request counts against the client's rate limit
/// and in the metrics, and only the table in [`retry`](crate::retry) decides about repetitions: kube's built-in retry
/// is off. Clients must be made within a tokio runtime.
#[derive(Clone)]
pub struct Clients {
    shared: Arc<Shared>,
    gate: Option<Arc<dyn WriteGate>>,
    /// The service accounts that components can act as. `None`: all clients have the credentials of the configuration.
    accounts: Option<ServiceAccounts>,
    /// The service account that the components of this factory act as.
    account: Option<ArcStr>,
}

struct Shared {
    service: BaseService,
    /// `None` if the service is not ours; see [`Clients::over`].
    transport: Option<Transport>,
    metrics: Arc<HostMetrics>,
    default_namespace: String,
    options: Options,
}

/// How a client differs from the others of its factory.
struct Recipe {
    limits: Limits,
    retries: Retries,
    /// The connections to use, where the request alone does not tell.
    traffic: Option<Traffic>,
    gate: Option<Arc<dyn WriteGate>>,
    /// The service account that the client acts as.
    account: Option<ArcStr>,
}

impl Clients {
    /// Creates a factory of clients for the server of `config`, over connections of our own; see [`transport`].
    /// Connects when the first request is sent.
    ///
    /// # Errors
    /// If the credentials or certificates of `config` can't be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(config: kube::Config, options: Options) -> Result<Self, transport::Error> {
        let host = config.cluster_url.authority().map_or("none", |authority| authority.as_str());
        let metrics = Arc::new(HostMetrics::new(&options.metrics, host));
        let default_namespace = config.default_namespace.clone();
        let (transport, service) = transport::connect(config, options.transport.clone())?;
        let shared = Shared { service, transport: Some(transport), metrics, default_namespace, options };
        Ok(Self::new(shared))
    }

    fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), gate: None, accounts: None, account: None }
    }

    /// Creates a factory of clients for any service that answers API requests, such as a server in the same process.
    ///
    /// The service gets requests whose URI has a path and a query only. Limits, retries and metrics are those of
    /// other clients; the metrics have the host `none`.
    pub fn over<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::over_with(service, Options::default())
    }

    /// Does what [`over`](Self::over) does, with these limits and metrics.
    pub fn over_with<S, B>(service: S, options: Options) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = BoxCloneSyncService::new(service.map_err(Into::into).map_response(box_body));
        let metrics = Arc::new(HostMetrics::new(&options.metrics, "none"));
        let default_namespace = "default".to_owned();
        let shared = Shared { service, transport: None, metrics, default_namespace, options };
        Self::new(shared)
    }

    /// Returns a factory over the same connections whose components may write only while `gate` admits it.
    ///
    /// The [`watch_client`](Self::watch_client) and [`lease_client`](Self::lease_client) are never gated. For ungated
    /// writes, keep the factory that this is called on.
    #[must_use]
    pub fn gated(&self, gate: Arc<dyn WriteGate>) -> Self {
        Self { gate: Some(gate), ..self.clone() }
    }

    /// Returns a factory whose components can act as service accounts of `namespace`, with tokens that this process
    /// requests as itself ([`acting_as`](Self::acting_as)). Their requests go to the server of `config`, over connections
    /// of their own, without the credentials of `config`.
    ///
    /// # Errors
    /// If the certificate authorities of `config` can't be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_service_accounts(
        &self,
        config: &kube::Config,
        namespace: &str,
    ) -> Result<Self, transport::Error> {
        let mut anonymous = config.clone();
        anonymous.auth_info = kube::config::AuthInfo::default();
        let (transport, service) = transport::connect(anonymous, self.shared.options.transport.clone())?;
        Ok(self.with_accounts_over(namespace, service, Some(transport)))
    }

    pub(crate) fn with_accounts_over(
        &self,
        namespace: &str,
        anonymous: BaseService,
        transport: Option<Transport>,
    ) -> Self {
        let accounts = ServiceAccounts::new(namespace, self.sender("token-requests"), anonymous, transport);
        Self { accounts: Some(accounts), ..self.clone() }
    }

    /// Returns a factory whose components act as the service account `name`. Without
    /// [service accounts](Self::with_service_accounts), they keep the credentials of the configuration.
    ///
    /// The [`watch_client`](Self::watch_client) and [`lease_client`](Self::lease_client) always keep these.
    #[must_use]
    pub fn acting_as(&self, name: &str) -> Self {
        Self { account: Some(name.into()), ..self.clone() }
    }

    /// Returns a factory whose components keep the credentials of the configuration, as before
    /// [`acting_as`](Self::acting_as).
    #[must_use]
    pub fn acting_as_process(&self) -> Self {
        Self { account: None, ..self.clone() }
    }

    /// A client for the component `name`, with a rate limit and a user agent of its own.
    pub fn component(&self, name: &str) -> kube::Client {
        self.sender(name).client()
    }

    /// A client for the component `name`, as [`component`](Self::component) makes it, with these limits.
    pub fn component_with(&self, name: &str, limits: Limits) -> kube::Client {
        self.sender_with(name, limits).client()
    }

    /// A sender for the component `name`, with a rate limit and a user agent of its own.
    ///
    /// A component that also needs a `kube::Client` makes it from its sender ([`Sender::client`]), so that both share
    /// one rate limit.
    pub fn sender(&self, name: &str) -> Sender {
        self.sender_with(name, self.shared.options.limits)
    }

    /// A sender for the component `name`, as [`sender`](Self::sender) makes it, with these limits.
    pub fn sender_with(&self, name: &str, limits: Limits) -> Sender {
        let (gate, account) = (self.gate.clone(), self.account.clone());
        self.make(name, Recipe { limits, retries: Retries::Obedient, traffic: None, gate, account })
    }

    /// A client for reflectors. It has no rate limit and no retries, since a reflector has its own backoff.
    pub fn watch_client(&self) -> kube::Client {
        let limits = Limits::UNLIMITED;
        let recipe = Recipe { limits, retries: Retries::None, traffic: None, gate: None, account: None };
        self.make("shared-informers", recipe).client()
    }

    /// A client for leases, with connections that nothing else shares. It has no rate limit, no gate, and no retries:
    /// retries would hide from the caller that the deadline of the lease has passed. Only its watches use the connections
    /// of other watches, since a connection for renewals is replaced when a request on it is dropped.
    pub fn lease_client(&self, name: &str) -> kube::Client {
        let (limits, traffic) = (Limits::UNLIMITED, Some(Traffic::Lease));
        self.make(name, Recipe { limits, retries: Retries::None, traffic, gate: None, account: None })
            .client()
    }

    /// The default rate limit of each component.
    pub fn limits(&self) -> Limits {
        self.shared.options.limits
    }

    /// The metrics that all clients count into.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.options.metrics
    }

    /// Closes all connections at once and waits until their tasks have ended. Requests under way fail, and so do
    /// later ones.
    pub async fn close(&self) {
        if let Some(transport) = &self.shared.transport {
            transport.close().await;
        }
        if let Some(accounts) = &self.accounts {
            accounts.close().await;
        }
    }

    fn make(&self, name: &str, recipe: Recipe) -> Sender {
        let Shared { service, metrics, default_namespace, .. } = &*self.shared;
        let Recipe { limits, retries, traffic, gate, account } = recipe;
        let (service, agent) = match (&self.accounts, account) {
            (Some(accounts), Some(account)) => {
                (accounts.service(&account), user_agent(&accounts.user(&account)))
            }
            _ => (service.clone(), user_agent(name)),
        };
        let attempts =
            Attempts { service, limiter: Limiter::new(limits), gate: gate.clone(), metrics: metrics.clone() };
        Sender::new(sender::Shared {
            user_agent: agent,
            traffic,
            gate,
            retrying: Retrying { attempts, retries, metrics: metrics.clone() },
            default_namespace: default_namespace.clone(),
        })
    }
}

/// The user agent of a component, in upstream's form: `binary/version (os/arch) kubernetes/component`.
fn user_agent(name: &str) -> HeaderValue {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (version, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let agent = format!("steersman/v{version} ({os}/{arch}) kubernetes/{name}");
    HeaderValue::from_str(&agent).unwrap_or_else(|_| HeaderValue::from_static("steersman"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Method;
    use parking_lot::Mutex;
    use tower::service_fn;

    use super::*;
    use crate::testing::request;

    #[tokio::test]
    async fn of_a_lease_client_only_watches_share_the_connections_of_others() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = seen.clone();
        let service = service_fn(move |request: Request<Body>| {
            record.lock().push(Traffic::of(&request));
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
        });
        let client = Clients::over(service).lease_client("leader-election");
        for (method, uri) in
            [(Method::GET, "/leases/a"), (Method::PUT, "/leases/a"), (Method::GET, "/leases?watch=true")]
        {
            client.send(request(method, uri)).await.unwrap();
        }
        assert_eq!(*seen.lock(), [Traffic::Lease, Traffic::Lease, Traffic::Watch]);
    }
}
