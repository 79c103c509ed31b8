//! Large heads, many at a time on one connection, each with a token that the server must have reviewed.

use bytes::Bytes;
use clap::Args;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use super::Answers;
use crate::Error;
use crate::connect::Target;

#[derive(Args, Debug)]
pub(crate) struct Heads {
    /// Connections at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Requests at a time on each connection, as far as the server lets them.
    #[arg(long, default_value_t = 250)]
    streams: usize,
    /// How large each head is, in bytes.
    #[arg(long, default_value_t = 240_000)]
    head: usize,
    #[arg(skip)]
    pub(super) answers: Answers,
}

impl Heads {
    pub(super) async fn run(&self, target: &Target) -> Result<(), Error> {
        let target = target.with_http2();
        let connections = (0..self.connections).map(|at| self.connection(&target, at));
        join_all(connections).await;
        Ok(())
    }

    /// Connects again whenever the server ends the connection.
    async fn connection(&self, target: &Target, at: usize) {
        loop {
            if self.requests(target, at).await.is_none() {
                self.answers.count("no connection");
            }
            tokio::task::yield_now().await;
        }
    }

    /// Keeps as many requests under way as asked for, until the connection ends.
    async fn requests(&self, target: &Target, at: usize) -> Option<()> {
        let stream = target.connect().await.ok()?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.ok()?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let streams = (0..self.streams).map(|stream| {
            let (sender, name) = (sender.clone(), format!("{at}-{stream}"));
            async move { self.stream(target, sender, &name).await }
        });
        tokio::select! {
            _ = join_all(streams) => {}
            _ = driver.join_next() => self.answers.count("connection ended"),
        }
        Some(())
    }

    /// One request after another; each token is a new one, so that no answer to an earlier review serves.
    async fn stream(&self, target: &Target, mut sender: SendRequest<Empty<Bytes>>, name: &str) -> Option<()> {
        let uri = format!("{}://{}/pods", target.scheme(), target.host());
        for turn in 0_u64.. {
            sender.ready().await.ok()?;
            let mut request = Request::get(&uri)
                .header("authorization", format!("Bearer {name}-{turn}"))
                .body(Empty::new())
                .ok()?;
            // One header may be as large as a head, but many tables of headers hold only smaller ones.
            for part in 0..self.head / PART {
                let header = http::HeaderName::try_from(format!("x-{part}")).ok()?;
                let value = http::HeaderValue::try_from("a".repeat(PART)).ok()?;
                request.headers_mut().insert(header, value);
            }
            match sender.send_request(request).await {
                Ok(answer) => {
                    self.answers.count(answer.status().as_str());
                    _ = answer.into_body().collect().await;
                }
                Err(_) => self.answers.count("reset"),
            }
        }
        Some(())
    }
}

/// How large one header of a head is, in bytes.
const PART: usize = 6_000;
