//! The factory of API clients: one way to the server, and a client with its own limit and name for each who asks.

use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service, ServiceExt, util::BoxCloneSyncService};

use crate::{
    attempt::Attempts,
    gate::{GateLayer, WriteGate},
    limits::{Limiter, Limits},
    metrics::Metrics,
    retry::{Retries, Retrying},
    service::{BaseService, box_body},
    traffic::Traffic,
    transport::{self, Transport},
};

/// What a [`Clients`] is made with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The limits of [`component`](Clients::component) clients. Default: 20 a second, 30 at once.
    pub limits: Limits,
    /// Where requests are counted. Default: families of their own, not registered.
    pub metrics: Metrics,
    /// How connections are made and kept. Not used by [`Clients::over`].
    pub transport: transport::Options,
}

/// Makes API clients that share their connections and metrics.
///
/// A clone makes clients over the same connections. None of the clients has kube's built-in retry: each attempt is
/// limited, counted, and repeated by the rules of [`retry`](crate::retry) only. Clients must be made within a tokio
/// runtime.
#[derive(Clone)]
pub struct Clients {
    shared: Arc<Shared>,
    gate: Option<Arc<dyn WriteGate>>,
}

struct Shared {
    service: BaseService,
    /// Absent where the service is not ours.
    transport: Option<Transport>,
    /// The label `host` of metrics.
    host: Arc<str>,
    default_namespace: String,
    options: Options,
}

/// What a client is made of, beyond what all share.
struct Recipe {
    limits: Limits,
    retries: Retries,
    /// Overrides what the request itself would tell.
    traffic: Option<Traffic>,
    gate: Option<Arc<dyn WriteGate>>,
}

impl Clients {
    /// Clients for the server of `config`, over connections of our own; see [`transport`]. Nothing is connected yet.
    ///
    /// # Errors
    /// When credentials or certificates of `config` can't be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(config: kube::Config, options: Options) -> Result<Self, transport::Error> {
        let host = config.cluster_url.authority().map_or("none", |authority| authority.as_str()).into();
        let default_namespace = config.default_namespace.clone();
        let (transport, service) = transport::connect(config, options.transport.clone())?;
        let shared = Shared { service, transport: Some(transport), host, default_namespace, options };
        Ok(Self { shared: Arc::new(shared), gate: None })
    }

    /// Clients over any service that answers API requests, for instance a server in the same process.
    ///
    /// Requests carry path and query only; limits, retries and metrics (with host `none`) hold as over connections.
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

    /// As [`over`](Self::over), with other limits or metrics.
    pub fn over_with<S, B>(service: S, options: Options) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = BoxCloneSyncService::new(service.map_err(Into::into).map_response(box_body));
        let host = "none".into();
        let shared =
            Shared { service, transport: None, host, default_namespace: "default".to_owned(), options };
        Self { shared: Arc::new(shared), gate: None }
    }

    /// The same clients, but those of components may write only while `gate` admits it.
    ///
    /// [`watch_client`](Self::watch_client) and [`lease_client`](Self::lease_client) are never gated. Whoever needs
    /// ungated writes keeps the factory this was called on.
    #[must_use]
    pub fn gated(&self, gate: Arc<dyn WriteGate>) -> Self {
        Self { shared: self.shared.clone(), gate: Some(gate) }
    }

    /// The client of the controller or other part called `name`: its own limit, its own user agent.
    pub fn component(&self, name: &str) -> kube::Client {
        self.component_with(name, self.shared.options.limits)
    }

    /// As [`component`](Self::component), with limits of its own.
    pub fn component_with(&self, name: &str, limits: Limits) -> kube::Client {
        let gate = self.gate.clone();
        self.make(name, Recipe { limits, retries: Retries::Obedient, traffic: None, gate })
    }

    /// A client for reflectors: no limit and no retries, since a reflector has a back-off of its own.
    pub fn watch_client(&self) -> kube::Client {
        let limits = Limits::UNLIMITED;
        self.make("shared-informers", Recipe { limits, retries: Retries::None, traffic: None, gate: None })
    }

    /// A client for leases, with connections that nothing else shares: no limit, no gate, and no retries, since they
    /// would hide the lease's deadlines from whoever renews it.
    pub fn lease_client(&self, name: &str) -> kube::Client {
        let (limits, traffic) = (Limits::UNLIMITED, Some(Traffic::Lease));
        self.make(name, Recipe { limits, retries: Retries::None, traffic, gate: None })
    }

    /// The families that all clients count into.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.options.metrics
    }

    /// Closes all connections at once and waits until their tasks have ended. Requests under way fail, later ones too.
    pub async fn close(&self) {
        if let Some(transport) = &self.shared.transport {
            transport.close().await;
        }
    }

    fn make(&self, name: &str, recipe: Recipe) -> kube::Client {
        let Shared { service, host, default_namespace, options, .. } = &*self.shared;
        let limiter = Limiter::new(recipe.limits);
        let attempts = Attempts::new(
            service.clone(),
            limiter,
            recipe.gate.clone(),
            options.metrics.clone(),
            host.clone(),
        );
        let retrying = Retrying::new(attempts, recipe.retries, options.metrics.clone(), host.clone());
        let gated = GateLayer::new(recipe.gate).layer(retrying);
        let agent = user_agent(name);
        let service = gated.map_request(move |mut request: Request<Body>| {
            request.headers_mut().insert(http::header::USER_AGENT, agent.clone());
            if let Some(traffic) = recipe.traffic {
                request.extensions_mut().insert(traffic);
            }
            request
        });
        kube::Client::new(service, default_namespace.clone())
    }
}

/// Upstream's form, `binary/version (os/arch) kubernetes/...`, with the component where upstream appends it.
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
