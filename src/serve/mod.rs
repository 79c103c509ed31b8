//! The HTTP that every subcommand has: metrics, health, settings, version.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus::{Encoder, Registry, TextEncoder};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::Address;
use crate::version;

pub(crate) mod caches;
pub(crate) mod health;
pub(crate) mod process;

use health::Checks;

/// What is served.
pub(crate) struct Served {
    /// `/metrics`.
    pub metrics: Registry,
    /// `/livez`, and `/healthz`, by which the manifests of the Go components ask: whether a restart would help.
    pub live: Checks,
    /// `/readyz`: whether this does its work.
    pub ready: Checks,
    /// `/configz`.
    pub configz: Value,
}

/// Takes the address.
///
/// # Errors
/// It can't be had.
pub(crate) async fn bind(address: &Address) -> io::Result<TcpListener> {
    let mut refused = io::Error::other("there is no such address");
    for candidate in address.candidates() {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Serves until `stop` is cancelled and the answers under way are sent.
pub(crate) async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    let Served { metrics, live, ready, configz } = served;
    let live = Arc::new(live);
    let router = Router::new()
        .route("/metrics", get(gather).with_state(metrics))
        .merge(health::routes("healthz", Arc::clone(&live)))
        .merge(health::routes("livez", live))
        .merge(health::routes("readyz", Arc::new(ready)))
        .route("/configz", get(move || std::future::ready(json(&configz))))
        .route("/version", get(async || json(&version::info())));
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "Serving ended");
    }
}

async fn gather(State(registry): State<Registry>) -> Response {
    let mut text = Vec::new();
    match TextEncoder::new().encode(&registry.gather(), &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
