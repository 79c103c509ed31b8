//! The ports of the controller manager and of standalone: metrics, health, settings, version. Plain HTTP asks for no
//! credentials; HTTPS authorizes each request.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
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
pub(crate) mod controllers;
pub(crate) mod health;
mod limits;
mod listen;
pub(crate) mod process;
pub(crate) mod secure;
pub(crate) mod slis;
#[cfg(test)]
mod tests;
pub(crate) mod zpages;

use controllers::Reporter;
use health::{Checks, Reasons};
use limits::Limits;
use slis::Slis;

/// The contents of the pages of both ports.
#[derive(Clone)]
pub(crate) struct Served {
    /// The families that `/metrics` shows.
    pub metrics: Registry,
    /// The names of the families that it does not show.
    pub disabled_metrics: Arc<BTreeSet<String>>,
    /// The checks of `/livez`, and of `/healthz`, which the manifests of the Go components probe. If one fails, a
    /// restart may help.
    pub live: Arc<Checks>,
    /// The checks of `/readyz`. One fails while the process does not do its work.
    pub ready: Arc<Checks>,
    /// The results of the checks.
    pub slis: Slis,
    /// The settings that `/configz` shows.
    pub configz: Value,
    /// Reports what `/debug/controllers` shows.
    pub controllers: Reporter,
    /// The pages under `/debug/controllers`.
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

/// Serves plain HTTP until `stop` is cancelled and the answers under way are sent, at most a second later. [`Limits`] bound
/// the number of connections and their time.
pub(crate) async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    let limits = Limits::of_process();
    listen::serve(listener, plain(served), limits, stop).await;
}

/// The pages of plain HTTP, which asks for no credentials.
fn plain(served: Served) -> Router {
    let debug = get(local_debug_page).with_state(served.debug.clone());
    let controllers = get(controllers::local_page).with_state(Arc::clone(&served.controllers));
    common(served, Reasons::Shown)
        .route(controllers::PATH, controllers)
        .route("/debug/controllers/{controller}/{page}", debug)
        .fallback(not_found)
}

/// The pages that both ports have.
fn common(served: Served, reasons: Reasons) -> Router {
    let Served { metrics, disabled_metrics, live, ready, slis, configz, controllers: _, debug: _ } = served;
    let page = slis.clone();
    Router::new()
        .route("/metrics", get(gather).with_state((metrics, disabled_metrics)))
        .route("/metrics/slis", get(move || std::future::ready(page.page())))
        .merge(health::routes("healthz", Arc::clone(&live), reasons, slis.clone()))
        .merge(health::routes("livez", live, reasons, slis.clone()))
        .merge(health::routes("readyz", ready, reasons, slis))
        .route("/configz", get(move || std::future::ready(json(&configz))))
        .route("/version", get(async || json(&version::info())))
}

/// Go's answer to a path that leads nowhere.
async fn not_found() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::NOT_FOUND, headers, "404 page not found\n").into_response()
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

/// A debugging page of a controller, over plain HTTP. Such pages show names of any object, so only clients on the same
/// machine get them there.
async fn local_debug_page(
    pages: State<DebugPages>,
    path: Path<(String, String)>,
    query: Query<Vec<(String, String)>>,
    peer: Option<Extension<SocketAddr>>,
) -> Response {
    if !is_local(peer) {
        return StatusCode::FORBIDDEN.into_response();
    }
    debug_page(pages, path, query).await
}

/// Whether a client is on the same machine.
fn is_local(peer: Option<Extension<SocketAddr>>) -> bool {
    peer.is_some_and(|Extension(peer)| peer.ip().to_canonical().is_loopback())
}

/// A debugging page of a controller.
async fn debug_page(
    State(pages): State<DebugPages>,
    Path((controller, page)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    match pages.show(&controller, &page, &debug::Query(query)) {
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
