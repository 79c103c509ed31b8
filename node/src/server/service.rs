//! From a request to its answer.

use std::sync::Arc;

use http::{Method, Request, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use steersman_serving::auth::Unauthenticated;
use steersman_serving::{Peer, Service};

use super::answers::{self, Answer, error, json, keeping, last, not_found, text};
use super::auth::{Auth, Refusal};
use super::container_logs::container_logs;
use super::health;
use super::host::Host;
use super::metrics::Metrics;
use super::pods::{pod_list, running_pods};
use super::query::{Query, is_upgrade};
use super::resource_metrics::{Told, resource_metrics};
use super::route::{Check, Route, route, route_without_debugging};
use super::streaming;
use super::tls::{ServingCertificate, Spoken};
use super::tunnel::{Dialed, Upgrade, dial};
use crate::blocking::blocking;
use crate::cri::v1;
use crate::runtime::RuntimeService;

/// What the server is made of.
pub struct Parts {
    /// The agent.
    pub host: Arc<dyn Host>,
    /// What runs containers.
    pub runtime: Arc<dyn RuntimeService>,
    /// Who may ask.
    pub auth: Auth,
    /// What the server shows clients.
    pub certificate: Arc<ServingCertificate>,
    /// The TLS it speaks.
    pub tls: Spoken,
    /// Where requests are counted.
    pub metrics: Metrics,
    /// What `/metrics` shows.
    pub registry: Registry,
    /// What `/metrics/probes` shows.
    pub probe_registry: Registry,
    /// What is served.
    pub handlers: Handlers,
    /// Maximum number of open connections, tunnels included. Beyond it, a new connection closes another one from the address
    /// that has the most of them: the oldest one on which no user was let in or, if there are none, the one that has been idle
    /// longest. If all others have requests under way, the new connection waits. Some 1,000 is plenty.
    pub max_connections: usize,
}

/// What is served (`enableDebuggingHandlers`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Handlers {
    /// Everything, the default.
    #[default]
    All,
    /// Nothing that looks into containers.
    WithoutDebugging,
}

/// [`Parts`] at work.
pub(super) struct Server {
    pub(super) host: Arc<dyn Host>,
    pub(super) runtime: Arc<dyn RuntimeService>,
    pub(super) auth: Auth,
    pub(super) metrics: Metrics,
    pub(super) registry: Registry,
    pub(super) probe_registry: Registry,
    pub(super) handlers: Handlers,
}

impl Service for Server {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Answer {
        self.answer_any(peer, request).await
    }
}

impl Server {
    /// Answers a request, whatever its body is.
    async fn answer_any<B: Body>(&self, peer: &Peer, request: Request<B>) -> Answer {
        let Ok(path) = percent_decode_str(request.uri().path()).decode_utf8() else {
            return last(text(StatusCode::BAD_REQUEST, "the path must be UTF-8"));
        };
        let path = path.into_owned();
        let under_way = (peer.activity.begin(), self.metrics.begin(request.method(), &path));
        let answer = self.answer_path(peer, request, &path).await;
        let mut tunnel = peer.tunnel.lock();
        match tunnel.take_if(|_| answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
            Some(carrying) => {
                *tunnel = Some(Box::pin(async move {
                    carrying.await;
                    drop(under_way);
                }));
                answer
            }
            None => keeping(answer, under_way),
        }
    }

    async fn answer_path<B: Body>(&self, peer: &Peer, request: Request<B>, path: &str) -> Answer {
        let leads_to = match self.handlers {
            Handlers::All => route(request.method(), path),
            Handlers::WithoutDebugging => route_without_debugging(request.method(), path),
        };
        if leads_to == Route::Healthz {
            return self.healthz(request.uri().query().unwrap_or_default());
        }
        match self.admit(peer, &request, path).await {
            Ok(()) => self.serve(peer, request, leads_to).await,
            Err(refusal) => refusal,
        }
    }

    fn healthz(&self, query: &str) -> Answer {
        let checks = [("ping", Ok(())), ("log", Ok(())), ("syncloop", self.host.sync_loop_health())];
        health::healthz(&checks, &Query::parse(query))
    }

    /// Checks that the request is a user's who may make it.
    ///
    /// # Errors
    /// The answer that refuses the request.
    async fn admit<B>(&self, peer: &Peer, request: &Request<B>, path: &str) -> Result<(), Answer> {
        let method: &Method = request.method();
        let user = match self.auth.authenticate(peer, request.headers()).await {
            Ok(user) => user,
            Err(refusal) => {
                let answer = match refusal {
                    Unauthenticated::Unauthorized(reason) => {
                        tracing::debug!(peer = %peer.address, path, reason, "Unauthorized");
                        text(StatusCode::UNAUTHORIZED, "Unauthorized")
                    }
                    Unauthenticated::Busy => too_many_requests(peer, path),
                };
                // Strangers ask once. HTTP/2 has no such header; there it is the idle connection that is closed.
                return Err(if request.version() < Version::HTTP_2 { last(answer) } else { answer });
            }
        };
        self.auth.authorize(&user, method, path).await.map_err(|refusal| match refusal {
            Refusal::Forbidden(message) => text(StatusCode::FORBIDDEN, message),
            Refusal::Unknown(message) => text(StatusCode::INTERNAL_SERVER_ERROR, message),
            Refusal::Busy => too_many_requests(peer, path),
        })?;
        if self.auth.makes_known(&user) {
            peer.activity.admitted();
        }
        Ok(())
    }

    async fn serve<B: Body>(&self, peer: &Peer, request: Request<B>, leads_to: Route) -> Answer {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let internal = |message: String| text(StatusCode::INTERNAL_SERVER_ERROR, message);
        match leads_to {
            Route::Healthz => self.healthz(request.uri().query().unwrap_or_default()),
            Route::HealthzCheck(Check::Ping | Check::Log) => health::check(Ok(())),
            Route::HealthzCheck(Check::SyncLoop) => health::check(self.host.sync_loop_health()),
            Route::Pods => match pod_list(&self.host.pods()) {
                Ok(list) => json(list),
                Err(error) => internal(error.to_string()),
            },
            Route::RunningPods => match running_pods(&*self.runtime).await {
                Ok(pods) => pod_list(&pods).map_or_else(|error| internal(error.to_string()), json),
                Err(error) => internal(error.to_string()),
            },
            Route::Configz => {
                json(serde_json::json!({ "kubeletconfig": self.host.configuration() }).to_string())
            }
            Route::Metrics => metrics_of(&self.registry),
            Route::ProbeMetrics => metrics_of(&self.probe_registry),
            Route::ResourceMetrics => self.resource_metrics().await,
            Route::ContainerLogs(path) => container_logs(self, &path, &query).await,
            Route::Run(path) => streaming::run(self, &path, &query).await.unwrap_or_else(|refusal| *refusal),
            Route::Exec(path) => {
                let url = streaming::exec(self, &path, &query).await;
                upgrade(peer, request, url).await
            }
            Route::Attach(path) => {
                let url = streaming::attach(self, &path, &query).await;
                upgrade(peer, request, url).await
            }
            Route::PortForward(path) => {
                let url = streaming::port_forward(self, &path, &query, request.headers()).await;
                upgrade(peer, request, url).await
            }
            Route::Disabled(words) => error(StatusCode::METHOD_NOT_ALLOWED, words),
            Route::WrongMethod => text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"),
            Route::NotFound => not_found(),
        }
    }

    async fn resource_metrics(&self) -> Answer {
        let host = Arc::clone(&self.host);
        let (node, pods) = blocking(move || (host.node_usage(), host.pods())).await;
        let node = node.inspect_err(|error| tracing::warn!(error, "The node's usage is not known")).ok();
        let sandboxes = self.runtime.list_pod_sandbox_stats(&v1::PodSandboxStatsFilter::default()).await;
        let sandboxes =
            sandboxes.inspect_err(|error| tracing::warn!(%error, "The usage of pods is not known")).ok();
        in_text_format(resource_metrics(&Told { node, sandboxes: sandboxes.as_deref(), pods: &pods }))
    }
}

/// Refuses a request whose review would have to wait too long, in the API server's words.
fn too_many_requests(peer: &Peer, path: &str) -> Answer {
    tracing::debug!(peer = %peer.address, path, "Too many reviews are under way");
    let mut answer = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.");
    answer.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    answer
}

fn metrics_of(registry: &Registry) -> Answer {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(metrics) => in_text_format(metrics),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Metrics as they are told.
fn in_text_format(metrics: String) -> Answer {
    let mut answer = text(StatusCode::OK, metrics);
    let format = http::HeaderValue::from_static(TEXT_FORMAT);
    answer.headers_mut().insert(http::header::CONTENT_TYPE, format);
    answer
}

/// Passes an upgrade on to `url`, if there is one to be had. Where it succeeds, `peer` gets what is to follow.
async fn upgrade<B: Body>(peer: &Peer, mut request: Request<B>, url: Result<String, Box<Answer>>) -> Answer {
    let url = match url {
        Ok(url) => url,
        Err(refusal) => return *refusal,
    };
    if !is_upgrade(request.headers()) || request.version() >= Version::HTTP_2 {
        return streaming::upgrade_required();
    }
    let upgrade = Upgrade {
        client: hyper::upgrade::on(&mut request),
        method: request.method().clone(),
        headers: request.headers().clone(),
        address: peer.address,
    };
    match dial(&url, upgrade).await {
        Ok(Dialed::Upgraded(answer, tunnel)) => {
            *peer.tunnel.lock() = Some(tunnel);
            answer
        }
        Ok(Dialed::Refused(answer)) => answer,
        Err(failure) => {
            tracing::error!(error = %failure, "Error while proxying request");
            answers::error(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string())
        }
    }
}
