//! What lies between a process and the API server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use rand::Rng as _;
use rand::rngs::StdRng;
use steersman_apiserver::InMemory;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::invariants::Invariants;

/// For how long what was sent waits in the sender's kernel while nothing gets through. It must be less than the margin of a lease,
/// as it is with the socket options of `steersman_client::transport`.
const UNACKNOWLEDGED: Duration = Duration::from_secs(4);

/// The connections of one process to the API server.
///
/// A request that was sent goes its way even if its sender dies or no longer waits for the answer.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    /// Whose they are.
    process: String,
    server: InMemory,
    line: watch::Sender<Line>,
    weather: Mutex<(Weather, StdRng)>,
    under_way: TaskTracker,
    invariants: Arc<Invariants>,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    flow: Flow,
    /// How often all connections were broken.
    breaks: u64,
}

/// What gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    All,
    /// Nothing, either way.
    Held,
    /// The process sends and receives nothing. Its requests are sent when this ends. Its timers go on: `benches/failover.sh` tests a
    /// process that is really frozen.
    Stopped,
    /// The process is dead. Requests that it has sent still reach the API server; answers and watch events are dropped.
    Dead,
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
    pub(crate) fn new(process: &str, server: InMemory, random: StdRng, invariants: Arc<Invariants>) -> Self {
        Self(Arc::new(Shared {
            process: process.to_owned(),
            server,
            line: watch::Sender::new(Line { flow: Flow::All, breaks: 0 }),
            weather: Mutex::new((Weather::default(), random)),
            under_way: TaskTracker::new(),
            invariants,
        }))
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.0.weather.lock().0 = weather;
    }

    pub(crate) fn set_flow(&self, flow: Flow) {
        self.0.line.send_modify(|line| line.flow = flow);
    }

    /// Breaks all connections. What is on its way is lost.
    pub(crate) fn break_all(&self) {
        self.0.line.send_modify(|line| line.breaks += 1);
    }

    fn fate(&self, request: &http::request::Parts) -> Fate {
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

    /// Waits until the line lets a request through that was sent before it broke so many times.
    async fn pass_there(&self, breaks: u64) -> Result<(), Broken> {
        let mut line = self.0.line.subscribe();
        // What has left the process is not stopped with it.
        let opens = line.wait_for(|line| line.flow != Flow::Held || line.breaks != breaks);
        match timeout(UNACKNOWLEDGED, opens).await {
            Ok(Ok(line)) if line.breaks == breaks => Ok(()),
            _ => Err(Broken),
        }
    }

    /// Waits until the line lets an answer through to a request that was sent before it broke so many times.
    async fn pass_back(&self, breaks: u64) -> Result<(), Broken> {
        let mut line = self.0.line.subscribe();
        let is_over = |line: &Line| line.breaks != breaks || line.flow == Flow::Dead;
        match line.wait_for(|line| line.flow == Flow::All || is_over(line)).await {
            Ok(line) if !is_over(&line) => Ok(()),
            _ => Err(Broken),
        }
    }

    /// Carries a request to the server, and the answer back.
    async fn carry(self, request: Request<Body>) -> Result<Answer, Broken> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let fate = self.fate(&parts);
        let breaks = self.0.line.borrow().breaks;
        sleep(fate.there).await;
        self.pass_there(breaks).await?;
        if fate.is_lost {
            return Err(Broken);
        }
        let send = || {
            let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
            self.0.invariants.check_write(&self.0.process, &parts);
            self.0.server.clone().call(request)
        };
        let answer = send().await.map_err(|_| Broken)?;
        if fate.is_doubled {
            let _ = send().await;
        }
        sleep(fate.back).await;
        self.pass_back(breaks).await?;
        if fate.is_answer_lost {
            return Err(Broken);
        }
        Ok(answer.map(|body| StreamBody::new(self.frames(breaks, body))))
    }

    /// The frames of a body, as they come through the line.
    fn frames<B>(self, breaks: u64, body: B) -> BoxStream<'static, Result<Frame<Bytes>, Broken>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Send,
    {
        let frames = futures::stream::unfold(Some((self, BodyStream::new(body))), move |state| async move {
            let (link, mut body) = state?;
            let mut line = link.0.line.subscribe();
            let frame = tokio::select! {
                biased;
                _ = line.wait_for(|line| line.breaks != breaks || line.flow == Flow::Dead) => {
                    return Some((Err(Broken), None));
                }
                frame = body.next() => frame?.map_err(|_| Broken),
            };
            let delay = {
                let (weather, random) = &mut *link.0.weather.lock();
                weather.delay.mul_f64(random.random())
            };
            sleep(delay).await;
            match link.pass_back(breaks).await {
                Ok(()) => Some((frame, Some((link, body)))),
                Err(Broken) => Some((Err(Broken), None)),
            }
        });
        frames.boxed()
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
            let mut line = link.0.line.subscribe();
            // The sender lives as long as `link`.
            let flow = line.wait_for(|line| line.flow != Flow::Stopped).await.map(|line| line.flow);
            if !flow.is_ok_and(|flow| flow != Flow::Dead) {
                return Err(Broken);
            }
            let (answer, answered) = oneshot::channel();
            let tasks = link.0.under_way.clone();
            tasks.spawn(async move {
                let _ = answer.send(link.carry(request).await);
            });
            answered.await.unwrap_or(Err(Broken))
        })
    }
}
