//! Puts the server together.

use std::sync::Arc;

use steersman_serving::tls::ServingCertificates;
use steersman_serving::{Serving, Streams};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::service::{Parts, Server};

/// Maximum number of concurrent requests on a connection. Only the API server has a verified client certificate, as a rule, and
/// it multiplexes the requests of all its clients.
const STREAMS: Streams = Streams { verified: 250, unverified: Streams::UNVERIFIED };

/// Serves until `stop` is cancelled. Answers under way then have a second to end.
///
/// # Errors
/// If TLS can't be set up as configured. Nothing was served then.
pub async fn serve(listener: TcpListener, parts: Parts, stop: CancellationToken) -> Result<(), Error> {
    let serving = Serving {
        authenticator: Arc::clone(parts.auth.authenticator()),
        certificates: Arc::new(ServingCertificates::one(parts.certificate)),
        spoken: parts.tls,
        streams: STREAMS,
        max_connections: parts.max_connections,
        service: Arc::new(Server {
            host: parts.host,
            runtime: parts.runtime,
            auth: parts.auth,
            metrics: parts.metrics,
            registry: parts.registry,
            probe_registry: parts.probe_registry,
            handlers: parts.handlers,
        }),
    };
    steersman_serving::serve(listener, serving, stop).await
}
