//! What lies between a process and the API server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use rand::Rng as _;
use rand::rngs::StdRng;
use steersman_apiserver::ResponseBody;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::api_server::Address;
use crate::hosts::Traffic;
use crate::invariants::Invariants;

/// For how long what was sent waits in the sender's kernel while nothing gets through. It must be less than the margin of a lease,
/// as it is with the socket options of `steersman_client::transport`.
const UNACKNOWLEDGED: Duration = Duration::from_secs(4);
/// How many frames of an answer wait in the receiver's kernel.
const RECEIVED: usize = 16;

/// The connections of one process to the API server.
///
/// A request that was sent goes its way even if its sender dies or no longer waits for the answer.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    /// Whose they are.
    process: String,
    server: Address,
    /// Where requests and answers are on their way, whatever becomes of the process.
    network: Handle,
    line: watch::Sender<Line>,
    weather: Mutex<(Weather, StdRng)>,
    /// The cluster has ended, and with it all that is on its way.
    end: CancellationToken,
    traffic: Traffic,
    invariants: Arc<Invariants>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    /// Whether nothing gets through, either way.
    is_held: bool,
    /// How often all connections were broken.
    breaks: u64,
}

/// How a network is today.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    /// The longest time that a request, an answer, or an event of a watch takes.
    pub(crate) delay: Duration,
    /// Of how many requests one is lost on its way, or its answer is.
    pub(crate) loses_one_in: Option<u32>,
    /// Of how many requests one gets through twice, as by a proxy that tries again. No create does: it would make another object.
    pub(crate) doubles_one_in: Option<u32>,
}

/// A connection broke.
#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
pub(crate) struct Broken;

/// The delays and faults of one request.
struct Fate {
    there: Duration,
    back: Duration,
    is_lost: bool,
    is_doubled: bool,
    is_answer_lost: bool,
}

type Answer = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, Broken>>>>;

impl Link {
    /// To be called by a task of the API server's host, where what is on its way stays until `end`.
    pub(crate) fn new(
        process: &str,
        server: Address,
        random: StdRng,
        end: CancellationToken,
        traffic: Traffic,
        invariants: Arc<Invariants>,
    ) -> Self {
        Self(Arc::new(Shared {
            process: process.to_owned(),
            server,
            network: Handle::current(),
            line: watch::Sender::new(Line { is_held: false, breaks: 0 }),
            weather: Mutex::new((Weather::default(), random)),
            end,
            traffic,
            invariants,
        }))
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.0.weather.lock().0 = weather;
    }

    /// Whether nothing gets through from now on.
    pub(crate) fn hold(&self, is_held: bool) {
        self.0.line.send_modify(|line| line.is_held = is_held);
    }

    /// Breaks all connections. What is on its way is lost.
    pub(crate) fn break_all(&self) {
        self.0.line.send_modify(|line| line.breaks += 1);
    }

    fn fate(&self, request: &Parts) -> Fate {
        let mut guard = self.0.weather.lock();
        let (weather, random) = &mut *guard;
        let delay = |random: &mut StdRng| weather.delay.mul_f64(random.random());
        let (there, back) = (delay(random), delay(random));
        let mut hits = |one_in: Option<u32>| one_in.is_some_and(|many| random.random_ratio(1, many));
        Fate {
            there,
            back,
            is_lost: hits(weather.loses_one_in),
            is_answer_lost: hits(weather.loses_one_in),
            is_doubled: hits(weather.doubles_one_in) && request.method != Method::POST,
        }
    }

    fn delay(&self) -> Duration {
        let (weather, random) = &mut *self.0.weather.lock();
        weather.delay.mul_f64(random.random())
    }

    /// Waits until the line lets something through that was sent before it broke so many times.
    async fn pass(&self, breaks: u64) -> Result<(), Broken> {
        let mut line = self.0.line.subscribe();
        match line.wait_for(|line| !line.is_held || line.breaks != breaks).await {
            Ok(line) if line.breaks == breaks => Ok(()),
            _ => Err(Broken),
        }
    }

    /// Carries a request to the server, and the answer back.
    async fn carry(&self, parts: Parts, body: Bytes) -> Result<Answer, Broken> {
        let fate = self.fate(&parts);
        let breaks = self.0.line.borrow().breaks;
        sleep(fate.there).await;
        timeout(UNACKNOWLEDGED, self.pass(breaks)).await.unwrap_or(Err(Broken))?;
        if fate.is_lost {
            return Err(Broken);
        }
        let send = || {
            let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            self.0.invariants.check_write(&self.0.process, &parts);
            self.0.server.clone().call(request)
        };
        let answer = send().await.map_err(|_| Broken);
        self.0.invariants.trace(&self.0.process, &parts, answer.as_ref().ok().map(Response::status));
        let answer = answer?;
        if fate.is_doubled {
            let _ = send().await;
        }
        sleep(fate.back).await;
        self.pass(breaks).await?;
        if fate.is_answer_lost {
            return Err(Broken);
        }
        let (parts, body) = answer.into_parts();
        Ok(Response::from_parts(parts, StreamBody::new(self.frames(breaks, body))))
    }

    /// The frames of a body, as they come through the line.
    fn frames(&self, breaks: u64, body: ResponseBody) -> BoxStream<'static, Result<Frame<Bytes>, Broken>> {
        let (send, received) = mpsc::channel(RECEIVED);
        let (link, mut body) = (self.clone(), BodyStream::new(body));
        self.spawn(async move {
            let mut line = link.0.line.subscribe();
            loop {
                let frame = tokio::select! {
                    biased;
                    () = send.closed() => return,
                    _ = line.wait_for(|line| line.breaks != breaks) => Err(Broken),
                    frame = body.next() => match frame {
                        Some(frame) => frame.map_err(|_| Broken),
                        None => return,
                    },
                };
                sleep(link.delay()).await;
                let frame = link.pass(breaks).await.and(frame);
                let is_broken = frame.is_err();
                link.0.traffic.sent();
                if send.send(frame).await.is_err() || is_broken {
                    return;
                }
            }
        });
        let frames = futures::stream::unfold(received, async |mut received| {
            received.recv().await.map(|frame| (frame, received))
        });
        frames.boxed()
    }

    /// Has the network do something until the cluster ends.
    fn spawn(&self, act: impl Future<Output = ()> + Send + 'static) {
        let end = self.0.end.clone();
        self.0.network.spawn(async move { _ = end.run_until_cancelled(act).await });
    }
}

impl Service<Request<Body>> for Link {
    type Response = Answer;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
            let (answer, answered) = oneshot::channel();
            let network = link.clone();
            link.0.traffic.sent();
            link.spawn(async move {
                let carried = network.carry(parts, body).await;
                network.0.traffic.sent();
                let _ = answer.send(carried);
            });
            answered.await.unwrap_or(Err(Broken))
        })
    }
}
