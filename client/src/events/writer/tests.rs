//! Recorder and writer against scripted answers, under paused time.

use std::{collections::VecDeque, future::pending, sync::Arc};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};
use tower::service_fn;

use super::*;
use crate::{
    events::{self, EventType, Recorder, recorder::QUEUE_LENGTH},
    gate,
};

impl Writer {
    /// The next event in the queue, uncorrelated.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        self.queue.try_recv().ok().map(Occurrence::into_event)
    }
}

/// What the server does with a call.
enum Answer {
    Takes,
    Refuses(Value),
    Breaks,
    Gated,
    Hangs,
}

#[derive(Debug)]
struct Call {
    at: Instant,
    method: Method,
    path: String,
    kind: String,
    body: Value,
}

/// Answers by script, and takes everything once the script is over.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

struct Bench {
    server: Server,
    metrics: Metrics,
    recorder: Recorder,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let server =
            Server { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Server::default() };
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let (broadcaster, writer) = events::broadcaster(server.client(), metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(stop.clone()));
        Self { server, metrics, recorder: broadcaster.recorder("tester"), stop, tasks }
    }

    fn say(&self, pod: &str, message: &str) {
        let pod = ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("ns".to_owned()),
            name: Some(pod.to_owned()),
            ..ObjectReference::default()
        };
        self.recorder.event(&pod, EventType::Normal, "Tested", message);
    }

    fn dropped(&self, reason: Dropped) -> u64 {
        self.metrics.read("tester", reason)
    }

    fn methods(&self) -> Vec<Method> {
        self.server.calls.lock().iter().map(|call| call.method.clone()).collect()
    }

    /// Until all that can be done without waiting longer has been done.
    async fn settle(&self) {
        sleep(Duration::from_millis(1)).await;
    }

    async fn stopped(&mut self) {
        self.stop.cancel();
        self.tasks.join_next().await.unwrap().unwrap();
    }
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                server.calls.lock().push(Call {
                    at: Instant::now(),
                    method: parts.method,
                    path: parts.uri.to_string(),
                    kind: parts.headers[http::header::CONTENT_TYPE].to_str().unwrap().to_owned(),
                    body: serde_json::from_slice(&body).unwrap(),
                });
                let answer = server.script.lock().pop_front().unwrap_or(Answer::Takes);
                let (code, body) = match answer {
                    Answer::Takes => (200, json!({})),
                    Answer::Refuses(status) => {
                        (u16::try_from(status["code"].as_u64().unwrap()).unwrap(), status)
                    }
                    Answer::Breaks => return Err(tower::BoxError::from("connection lost")),
                    Answer::Gated => return Err(gate::Error::Abandoned.into()),
                    Answer::Hangs => pending().await,
                };
                Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))?)
            }
        });
        kube::Client::new(service, "default")
    }
}

fn refusal(code: u16, reason: &str) -> Answer {
    Answer::Refuses(json!({
        "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
    }))
}

#[tokio::test(start_paused = true)]
async fn recorders_of_one_queue_say_each_for_itself_who_speaks_and_where() {
    let server = Server::default();
    let (broadcaster, mut writer) = events::broadcaster(server.client(), Metrics::new());
    let node = ObjectReference { name: Some("n1".to_owned()), ..ObjectReference::default() };
    broadcaster.recorder_on("kubelet", "n1").event(&node, EventType::Normal, "Starting", "a");
    broadcaster.recorder("job-controller").event(&node, EventType::Normal, "Starting", "b");
    let mut next = || {
        let event = writer.try_next().unwrap();
        (event.source.unwrap().host, event.reporting_component.unwrap(), event.reporting_instance.unwrap())
    };
    assert_eq!(next(), (Some("n1".to_owned()), "kubelet".to_owned(), "n1".to_owned()));
    assert_eq!(next(), (None, "job-controller".to_owned(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_posted_and_its_repetition_patched() {
    let mut bench = Bench::new([]);
    bench.say("a", "hello");
    bench.say("a", "hello");
    bench.stopped().await;
    let calls = bench.server.calls.lock();
    let [post, patch] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((post.method.as_str(), post.path.as_str()), ("POST", "/api/v1/namespaces/ns/events"));
    assert_eq!(post.kind, "application/json");
    assert_eq!((&post.body["count"], &post.body["kind"]), (&json!(1), &json!("Event")));
    let name = post.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(patch.method, Method::PATCH);
    assert_eq!(patch.path, format!("/api/v1/namespaces/ns/events/{name}"));
    assert_eq!(patch.kind, "application/strategic-merge-patch+json");
    assert_eq!((&patch.body["count"], &patch.body["message"]), (&json!(2), &json!("hello")));
    assert!(patch.body["lastTimestamp"].is_string());
    assert_eq!(patch.body.as_object().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_of_an_event_that_is_gone_is_posted_with_its_full_count() {
    let bench = Bench::new([Answer::Takes, refusal(404, "NotFound")]);
    bench.say("a", "hello");
    bench.say("a", "hello");
    bench.settle().await;
    assert_eq!(bench.methods(), [Method::POST, Method::PATCH, Method::POST]);
    assert_eq!(bench.server.calls.lock()[2].body["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_or_the_gate_refuses_is_not_tried_again() {
    for refusal in [
        refusal(409, "AlreadyExists"),
        refusal(403, "Forbidden"),
        refusal(500, "InternalError"),
        Answer::Gated,
    ] {
        let bench = Bench::new([refusal]);
        bench.say("a", "one");
        bench.say("b", "two");
        sleep(RETRY_WAIT * 2).await;
        assert_eq!(bench.methods(), [Method::POST, Method::POST]);
        assert_eq!(bench.dropped(Dropped::Rejected), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times_ten_seconds_apart() {
    let bench = Bench::new((0..12).map(|_| Answer::Breaks));
    bench.say("a", "lost");
    bench.say("b", "kept");
    sleep(RETRY_WAIT * 13).await;
    let calls = bench.server.calls.lock();
    let pods: Vec<_> =
        calls.iter().map(|call| call.body["involvedObject"]["name"].as_str().unwrap()).collect();
    assert_eq!(pods, [vec!["a"; 12], vec!["b"]].concat());
    let waits: Vec<_> = calls.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(waits[0] <= RETRY_WAIT, "the first wait is random");
    assert_eq!(waits[1..11], [RETRY_WAIT; 10]);
    assert_eq!(waits[11], Duration::ZERO, "no wait after the last try");
    assert_eq!(bench.dropped(Dropped::GaveUp), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_nobody_waits() {
    let bench = Bench::new([Answer::Hangs]);
    bench.say("a", "hangs");
    bench.settle().await;
    for i in 0..QUEUE_LENGTH + 7 {
        bench.say(&format!("p{i}"), "hello");
    }
    assert_eq!(bench.dropped(Dropped::QueueFull), 7);
    // The call that hangs is given up, and the queue is written.
    sleep(Duration::from_secs(45)).await;
    assert_eq!(bench.methods().len(), 1 + 1 + QUEUE_LENGTH);
}

#[tokio::test(start_paused = true)]
async fn a_stop_writes_what_is_queued_and_takes_no_more() {
    let mut bench = Bench::new([]);
    for i in 0..50 {
        bench.say(&format!("p{i}"), "hello");
    }
    bench.stopped().await;
    assert_eq!(bench.methods().len(), 50);
    bench.say("late", "hello");
    assert_eq!(bench.dropped(Dropped::Stopped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_server_that_does_not_answer() {
    let mut bench = Bench::new([Answer::Hangs]);
    for i in 0..3 {
        bench.say(&format!("p{i}"), "hello");
    }
    bench.settle().await;
    let start = Instant::now();
    bench.stopped().await;
    assert_eq!(start.elapsed(), FLUSH_TIME);
    assert_eq!(bench.dropped(Dropped::Stopped), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_the_wait_between_tries_short_for_one_last_try() {
    for last in [Answer::Takes, Answer::Breaks] {
        let lost = u64::from(matches!(last, Answer::Breaks));
        let mut bench = Bench::new([Answer::Breaks, Answer::Breaks, last]);
        bench.say("a", "hello");
        // The first wait is a random one of up to ten seconds, the second is ten.
        while bench.methods().len() < 2 {
            bench.settle().await;
        }
        timeout(Duration::from_millis(10), bench.stopped()).await.unwrap();
        assert_eq!(bench.methods().len(), 3);
        assert_eq!(bench.dropped(Dropped::Stopped), lost);
    }
}

#[tokio::test(start_paused = true)]
async fn the_writer_ends_with_the_last_recorder() {
    let Bench { recorder, mut tasks, server, .. } = {
        let bench = Bench::new([]);
        bench.say("a", "hello");
        bench
    };
    drop(recorder);
    timeout(Duration::from_millis(10), tasks.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(server.calls.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn spam_is_counted() {
    let mut bench = Bench::new([]);
    for _ in 0..30 {
        bench.say("a", "hello");
    }
    bench.stopped().await;
    assert_eq!((bench.methods().len(), bench.dropped(Dropped::Spam)), (25, 5));
}
