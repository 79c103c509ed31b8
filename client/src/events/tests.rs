//! Recorders and writers against scripted answers, under paused time.

use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};

use futures::FutureExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::{
    correlator::Write,
    metrics::Dropped,
    queue::QUEUE_LENGTH,
    writer::{FLUSH_TIME, RETRY_WAIT, TRIES},
    *,
};
use crate::{Clients, Limits, clients, gate};

/// What the server does with a call.
#[derive(Clone)]
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
    agent: String,
    body: Value,
}

/// Answers by script, and accepts everything once the script is over.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    /// The component whose calls hang.
    stuck: Option<&'static str>,
    calls: Arc<Mutex<Vec<Call>>>,
}

struct Bench {
    server: Server,
    metrics: Metrics,
    broadcaster: Broadcaster,
    recorder: Recorder,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::over(Server { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Server::default() })
    }

    fn over(server: Server) -> Self {
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let (broadcaster, writers) = broadcaster(&server.clients(), metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(writers.run(stop.clone()));
        let recorder = broadcaster.recorder("tester");
        Self { server, metrics, broadcaster, recorder, stop, tasks }
    }

    fn say(&self, pod: &str, message: &str) {
        say(&self.recorder, pod, message);
    }

    fn dropped(&self, reason: Dropped) -> u64 {
        self.metrics.read("tester", reason)
    }

    fn methods(&self) -> Vec<Method> {
        self.server.calls.lock().iter().map(|call| call.method.clone()).collect()
    }

    /// Lets the writers do all that needs no longer wait.
    async fn settle(&self) {
        sleep(Duration::from_millis(1)).await;
    }

    async fn stopped(&mut self) {
        self.stop.cancel();
        self.tasks.join_next().await.unwrap().unwrap();
    }
}

fn say(recorder: &Recorder, pod: &str, message: &str) {
    let pod = ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("ns".to_owned()),
        name: Some(pod.to_owned()),
        ..ObjectReference::default()
    };
    recorder.event(&pod, EventType::Normal, "Tested", message);
}

impl Recorder {
    /// Takes the next event from the component's queue.
    pub(crate) fn try_next(&self) -> Option<Event> {
        match self.queue().next().now_or_never()?? {
            Write::Create(event) | Write::Patch(event) => Some(*event),
        }
    }
}

impl Server {
    fn clients(&self) -> Clients {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let header = |name| parts.headers[name].to_str().unwrap().to_owned();
                let agent = header(http::header::USER_AGENT);
                let stuck = server.stuck.is_some_and(|stuck| agent.ends_with(&format!("/{stuck}")));
                server.calls.lock().push(Call {
                    at: Instant::now(),
                    kind: header(http::header::CONTENT_TYPE),
                    agent,
                    path: parts.uri.to_string(),
                    body: serde_json::from_slice(&body).unwrap(),
                    method: parts.method,
                });
                if stuck {
                    pending::<()>().await;
                }
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
        let options = clients::Options { limits: Limits::UNLIMITED, ..clients::Options::default() };
        Clients::over_with(service, options)
    }
}

fn refusal(code: u16, reason: &str) -> Answer {
    Answer::Refuses(json!({
        "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
    }))
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_component_and_node_and_the_components_own_client_sends_it() {
    let mut bench = Bench::new([]);
    say(&bench.broadcaster.recorder_on("kubelet", "n1"), "a", "hello");
    say(&bench.broadcaster.recorder("job-controller"), "b", "hello");
    bench.stopped().await;
    let mut calls: Vec<_> =
        bench.server.calls.lock().iter().map(|call| (call.agent.clone(), call.body.clone())).collect();
    calls.sort_by(|one, other| one.0.cmp(&other.0));
    let [(job_agent, job), (kubelet_agent, kubelet)] = calls.as_slice() else { panic!("{calls:?}") };
    assert!(job_agent.ends_with(" kubernetes/job-controller"), "{job_agent}");
    assert!(kubelet_agent.ends_with(" kubernetes/kubelet"), "{kubelet_agent}");
    assert_eq!(job["source"], json!({"component": "job-controller"}));
    assert_eq!(
        (&job["reportingComponent"], &job["reportingInstance"]),
        (&json!("job-controller"), &json!(""))
    );
    assert_eq!(kubelet["source"], json!({"component": "kubelet", "host": "n1"}));
    assert_eq!(
        (&kubelet["reportingComponent"], &kubelet["reportingInstance"]),
        (&json!("kubelet"), &json!("n1"))
    );
}

#[tokio::test(start_paused = true)]
async fn recorders_of_one_component_share_a_writer_only_if_they_act_as_the_same_account() {
    let mut bench = Bench::new([]);
    let broadcaster = &bench.broadcaster;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for account in ["a", "b", "a"] {
        say(&broadcaster.acting_as(account).recorder("controllermanager"), account, "hello");
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(tasks(), before + 2);
    bench.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_components_stuck_call_does_not_delay_another_component() {
    let mut bench = Bench::over(Server { stuck: Some("stuck"), ..Server::default() });
    let stuck = bench.broadcaster.recorder("stuck");
    for i in 0..QUEUE_LENGTH + 2 {
        say(&stuck, &format!("p{i}"), "hello");
    }
    assert_eq!(bench.metrics.read("stuck", Dropped::QueueFull), 2);
    bench.settle().await;
    let start = Instant::now();
    bench.say("a", "hello");
    // A component that speaks for the first time now.
    say(&bench.broadcaster.recorder("late"), "a", "hello");
    bench.settle().await;
    let written: Vec<_> = bench.server.calls.lock().iter().map(|call| call.agent.clone()).collect();
    let agents = |name: &str| written.iter().filter(|agent| agent.ends_with(&format!("/{name}"))).count();
    assert_eq!(
        (agents("stuck"), agents("tester"), agents("late")),
        (1, 1, 1),
        "within {:?}",
        start.elapsed()
    );
    bench.stopped().await;
    assert_eq!(bench.metrics.read("stuck", Dropped::Stopped), QUEUE_LENGTH as u64);
    assert_eq!(bench.dropped(Dropped::Stopped), 0);
}

#[tokio::test(start_paused = true)]
async fn repetitions_that_wait_become_one_patch_with_the_last_count() {
    // The first write is tried three times, some ten seconds in all.
    let bench = Bench::new([Answer::Breaks, Answer::Breaks]);
    bench.say("a", "hello");
    bench.settle().await;
    bench.say("b", "between");
    for _ in 0..20 {
        bench.say("a", "hello");
        sleep(Duration::from_millis(10)).await;
    }
    bench.say("b", "between");
    sleep(RETRY_WAIT * 3).await;
    let calls = bench.server.calls.lock();
    let written: Vec<_> = calls
        .iter()
        .map(|call| {
            let object = call.body["involvedObject"]["name"].as_str();
            let name = object.or(call.path.rsplit('/').next()).unwrap();
            format!("{} {} {}", call.method, name.split('.').next().unwrap(), call.body["count"])
        })
        .collect();
    assert_eq!(written, ["POST a 1", "POST a 1", "POST a 1", "POST b 1", "PATCH a 21", "PATCH b 2"]);
    assert_eq!(calls[4].body["message"], "hello");
    assert!(calls[4].body["lastTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn repetitions_of_a_waiting_event_do_not_fill_the_queue() {
    let mut bench = Bench::over(Server { stuck: Some("tester"), ..Server::default() });
    for i in 0..QUEUE_LENGTH / 2 - 1 {
        for _ in 0..20 {
            bench.say(&format!("p{i}"), "hello");
        }
    }
    assert_eq!(bench.dropped(Dropped::QueueFull), 0);
    bench.stopped().await;
    assert_eq!(bench.dropped(Dropped::Stopped), QUEUE_LENGTH as u64 - 2, "each event and one patch");
}

#[tokio::test(start_paused = true)]
async fn only_a_component_with_events_has_a_task_and_none_is_left_after_the_end() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut bench = Bench::new([]);
    let recorders: Vec<_> = (0..40).map(|i| bench.broadcaster.recorder(&format!("c{i}"))).collect();
    bench.settle().await;
    assert_eq!(tasks(), before + 1, "the owner of the writers");
    say(&recorders[7], "a", "hello");
    say(&bench.broadcaster.recorder("c7"), "b", "hello");
    bench.settle().await;
    assert_eq!(tasks(), before + 2, "two recorders of one component share a writer");
    bench.stopped().await;
    assert_eq!(tasks(), before);
    say(&bench.broadcaster.recorder("new"), "a", "hello");
    assert_eq!(bench.metrics.read("new", Dropped::Stopped), 1);
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
    for (refusal, reason) in [
        (refusal(409, "AlreadyExists"), Dropped::Rejected),
        (refusal(403, "Forbidden"), Dropped::Rejected),
        (refusal(429, "TooManyRequests"), Dropped::ServerFailed),
        (refusal(500, "InternalError"), Dropped::ServerFailed),
        (Answer::Gated, Dropped::Rejected),
    ] {
        let bench = Bench::new([refusal]);
        bench.say("a", "one");
        bench.say("b", "two");
        sleep(RETRY_WAIT * 2).await;
        assert_eq!(bench.methods(), [Method::POST, Method::POST]);
        assert_eq!(bench.dropped(reason), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times_ten_seconds_apart() {
    let bench = Bench::new(vec![Answer::Breaks; TRIES as usize]);
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
async fn a_full_queue_drops_and_counts_events_and_recorders_do_not_wait() {
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
async fn the_writers_end_with_the_last_recorder() {
    let Bench { recorder, broadcaster, mut tasks, server, .. } = {
        let bench = Bench::new([]);
        bench.say("a", "hello");
        bench
    };
    drop((recorder, broadcaster));
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
    assert_eq!(bench.dropped(Dropped::Spam), 5);
    assert_eq!(bench.methods(), [Method::POST, Method::PATCH], "the 24 patches were merged");
    assert_eq!(bench.server.calls.lock()[1].body["count"], 25);
}
