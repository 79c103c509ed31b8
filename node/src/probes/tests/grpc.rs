use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::outcome;
use crate::probes::grpc::{self, HealthCheckRequest, HealthCheckResponse};
use crate::probes::prober::State;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a server says of a service: its status, or the code of a refusal.
fn says(service: &str) -> Result<i32, i32> {
    match service {
        "" => Ok(1),
        "ill" => Ok(2),
        "none" => Err(12),
        _ => Err(5),
    }
}

async fn server() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                let io = TokioIo::new(stream);
                let _ =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(io, service_fn(answer)).await;
            });
        }
    });
    (address, tasks)
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
    assert!(request.headers()["user-agent"].to_str().unwrap().starts_with("kube-probe/1.36"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked = HealthCheckRequest::decode(body.slice(5..)).unwrap();
    if asked.service == "slow" {
        std::future::pending::<()>().await;
    }
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    let said = says(&asked.service);
    if let Ok(status) = said {
        let message = HealthCheckResponse { status }.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap();
        frames.push(Ok(Frame::data([&[0][..], &length.to_be_bytes(), &message].concat().into())));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", said.err().unwrap_or(0).into());
    trailers.insert("grpc-message", "words".parse().unwrap());
    frames.push(Ok(Frame::trailers(trailers)));
    let body = StreamBody::new(futures::stream::iter(frames));
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

#[tokio::test]
async fn a_server_says_how_its_services_are() {
    let (address, _server) = server().await;
    for (service, state, output) in [
        ("", State::Success, "service healthy"),
        ("ill", State::Failure, "service unhealthy (responded with \"NOT_SERVING\")"),
        (
            "none",
            State::Failure,
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): words",
        ),
        (
            "unknown",
            State::Failure,
            "error: health rpc probe failed: rpc error: code = NotFound desc = words",
        ),
    ] {
        let probed = grpc::probe("127.0.0.1", service, address.port(), PATIENCE).await;
        assert_eq!(probed, Ok(outcome(state, output)), "{service}");
    }
}

#[tokio::test]
async fn time_that_is_up_fails() {
    let (address, _server) = server().await;
    let probed = grpc::probe("127.0.0.1", "slow", address.port(), Duration::from_secs(1)).await;
    let late = "timeout: health rpc did not complete within 1s";
    assert_eq!(probed, Ok(outcome(State::Failure, late)));
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let probed = grpc::probe("127.0.0.1", "", port, Duration::from_millis(50)).await;
    let late = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 50ms: context deadline exceeded"
    );
    assert_eq!(probed, Ok(outcome(State::Failure, &late)));
}
