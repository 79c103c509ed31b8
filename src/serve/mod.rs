//! The HTTP port of the controller manager and of standalone: metrics, health, settings, version.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use prometheus::{Encoder, Registry, TextEncoder};
use serde_json::Value;
use steersman_controller::debug::{self, DebugPages};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::Address;
use crate::version;

mod activity;
pub(crate) mod caches;
pub(crate) mod health;
mod limits;
mod listen;
pub(crate) mod process;
#[cfg(test)]
mod tests;

use health::Checks;
use limits::Limits;

/// The contents of the port's pages.
pub(crate) struct Served {
    /// The families that `/metrics` shows.
    pub metrics: Registry,
    /// The names of the families that it does not show.
    pub disabled_metrics: BTreeSet<String>,
    /// The checks of `/livez`, and of `/healthz`, which the manifests of the Go components probe. If one fails, a
    /// restart may help.
    pub live: Checks,
    /// The checks of `/readyz`. One fails while the process does not do its work.
    pub ready: Checks,
    /// The settings that `/configz` shows.
    pub configz: Value,
    /// The pages under `/debug/controllers`, for clients on this machine only.
    pub debug: DebugPages,
}

/// Binds a listener to the first of the addresses that is free.
///
/// # Errors
/// If none is free: the error of the last one.
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

/// Serves until `stop` is cancelled and the answers under way are sent, at most a second later. [`Limits`] bound the
/// number of connections and their time.
pub(crate) async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    listen::serve(listener, router(served), Limits::of_process(), stop).await;
}

fn router(served: Served) -> Router {
    let Served { metrics, disabled_metrics, live, ready, configz, debug } = served;
    let live = Arc::new(live);
    Router::new()
        .route("/metrics", get(gather).with_state((metrics, Arc::new(disabled_metrics))))
        .merge(health::routes("healthz", Arc::clone(&live)))
        .merge(health::routes("livez", live))
        .merge(health::routes("readyz", Arc::new(ready)))
        .route("/configz", get(move || std::future::ready(json(&configz))))
        .route("/debug/controllers/{controller}/{page}", get(debug_page).with_state(debug))
        .route("/version", get(async || json(&version::info())))
}

async fn gather(State((registry, disabled)): State<(Registry, Arc<BTreeSet<String>>)>) -> Response {
    let mut families = registry.gather();
    families.retain(|family| !disabled.contains(family.name()));
    let mut text = Vec::new();
    match TextEncoder::new().encode(&families, &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A debugging page of a controller. The port asks for no credentials, and such pages show names of any object, so only
/// clients on the same machine get them. (Upstream serves them on its secure port.)
async fn debug_page(
    State(pages): State<DebugPages>,
    Path((controller, page)): Path<(String, String)>,
    query: axum::extract::Query<Vec<(String, String)>>,
    peer: Option<Extension<SocketAddr>>,
) -> Response {
    if !peer.is_some_and(|Extension(peer)| peer.ip().to_canonical().is_loopback()) {
        return StatusCode::FORBIDDEN.into_response();
    }
    match pages.show(&controller, &page, &debug::Query(query.0)) {
        Some(debug::Page { media_type, text }) => {
            let headers = [(header::CONTENT_TYPE, media_type), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
            (headers, text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
