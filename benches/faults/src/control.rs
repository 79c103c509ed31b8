//! The control port: `PUT /fault/NAME` switches to another fault, `GET /counts` tells what came until now.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use clap::ValueEnum;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::fault::Fault;
use crate::proxy::Proxy;

/// Serves the control port, one connection after the other.
///
/// # Errors
/// No more connections can be accepted.
pub(crate) async fn serve(proxy: Arc<Proxy>, listener: TcpListener) -> io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service_fn(|request: Request<Incoming>| {
            let (code, text) = answer(&proxy, request.method(), request.uri().path());
            let mut response = Response::new(Full::<Bytes>::from(text));
            *response.status_mut() = code;
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // Who controls may hang up.
        drop(http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await);
    }
}

fn answer(proxy: &Proxy, method: &Method, path: &str) -> (StatusCode, String) {
    match (method, path.strip_prefix("/fault/")) {
        (&Method::PUT, Some(name)) => match Fault::from_str(name, false).map(|fault| proxy.switch(fault)) {
            Ok(Ok(())) => (StatusCode::OK, format!("{name}\n")),
            Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            Err(_) => (StatusCode::NOT_FOUND, format!("there is no fault {name}\n")),
        },
        (&Method::GET, None) if path == "/counts" => {
            let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let text =
                format!("requests {}\nconnections {}\n", count(&proxy.requests), count(&proxy.accepted));
            (StatusCode::OK, text)
        }
        _ => (StatusCode::NOT_FOUND, "PUT /fault/NAME, GET /counts\n".to_owned()),
    }
}
