//! Probes by the gRPC health protocol.

use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::prober::{Attempt, Outcome, State};
use crate::configuration::GoDuration;
use crate::container::port;
use crate::grpc::{Connection, decoded};
use crate::runtime::Error;

/// How long to wait before a connection is tried again: whoever is asked may only be starting.
const RECONNECT: Duration = Duration::from_millis(250);

/// More than an answer about health ever has, in bytes.
const MAX_MESSAGE_SIZE: usize = 4 * 1024 * 1024;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HealthCheckRequest {
    /// Which of the server's services; empty for the server itself.
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HealthCheckResponse {
    /// A `ServingStatus`.
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

const SERVING: i32 = 1;

/// Asks the server at `host` for the health of one of its services.
pub(super) async fn probe(host: &str, service: &str, port: u16, timeout: Duration) -> Attempt {
    let deadline = Instant::now() + timeout;
    let address = port::join(host, port);
    let limit = GoDuration(timeout);
    let failure = |text: String| Ok(Outcome::new(State::Failure, text));
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .and_then(|endpoint| endpoint.user_agent(super::prober::USER_AGENT));
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return failure(format!("error: failed to connect service at {address:?}: {error}")),
    };
    let Ok(channel) = timeout_at(deadline, connected(&endpoint)).await else {
        return failure(format!(
            "timeout: failed to connect service {address:?} within {limit}: context deadline exceeded"
        ));
    };
    let checked = timeout_at(deadline, check(channel, service)).await;
    match checked.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded(""))) {
        Ok(SERVING) => Ok(Outcome::new(State::Success, "service healthy")),
        Ok(status) => failure(format!("service unhealthy (responded with {:?})", name(status))),
        Err(status) => failure(match status.code() {
            Code::Unimplemented => format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                status.message()
            ),
            Code::DeadlineExceeded => format!("timeout: health rpc did not complete within {limit}"),
            _ => format!("error: health rpc probe failed: {}", Error::from(status)),
        }),
    }
}

/// A connection, however long it takes to get one.
async fn connected(endpoint: &Endpoint) -> Channel {
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => tracing::trace!(%error, "Failed to connect grpc service"),
        }
        sleep(RECONNECT).await;
    }
}

async fn check(channel: Channel, service: &str) -> Result<i32, tonic::Status> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let health = Connection::new(channel, MAX_MESSAGE_SIZE);
    let answer = health.unary("/grpc.health.v1.Health/Check", request.encode_to_vec().into()).await?;
    Ok(decoded::<HealthCheckResponse>(answer)?.status)
}

fn name(status: i32) -> String {
    match status {
        0 => "UNKNOWN".to_owned(),
        1 => "SERVING".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}
