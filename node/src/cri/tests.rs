//! The client against a server that says what a test wants, over a real socket.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Client, ClientConfig, v1};
use crate::runtime::{Code, Error, ImageService, Operation, RuntimeService};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server answers: messages, then a status.
struct Reply {
    messages: Vec<Vec<u8>>,
    code: Code,
    message: &'static str,
}

fn answer(message: &impl Message) -> Reply {
    Reply { messages: vec![message.encode_to_vec()], code: Code::Ok, message: "" }
}

fn refusal(code: Code, message: &'static str) -> Reply {
    Reply { messages: Vec::new(), code, message }
}

impl Reply {
    fn into_response(self) -> Response<BoxBody<Bytes, Infallible>> {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", (self.code as i32).into());
        trailers.insert("grpc-message", self.message.parse().unwrap());
        let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
        for message in self.messages {
            let length = u32::try_from(message.len()).unwrap();
            let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
            frames.push(Ok(Frame::data(framed.into())));
        }
        frames.push(Ok(Frame::trailers(trailers)));
        let body = BodyExt::boxed(StreamBody::new(stream::iter(frames)));
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    }
}

type Handler = dyn Fn(&str, Bytes) -> BoxFuture<'static, Reply> + Send + Sync;

/// A server on a socket; gone when dropped, with all its connections.
struct Server {
    _tasks: JoinSet<()>,
}

impl Server {
    /// `handler` gets the path of each call and its message.
    fn new(
        socket: &Path,
        handler: impl Fn(&str, Bytes) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let handler: Arc<Handler> = Arc::new(handler);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let handler = Arc::clone(&handler);
                let service = service_fn(move |request: Request<Incoming>| {
                    let handler = Arc::clone(&handler);
                    async move {
                        assert_eq!(request.uri().authority().map(|a| a.as_str()), Some("localhost"));
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let reply = handler(path.rsplit('/').next().unwrap(), body.slice(5..)).await;
                        Ok::<_, Infallible>(reply.into_response())
                    }
                });
                connections.spawn(async move {
                    let io = TokioIo::new(stream);
                    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
                });
            }
        });
        Self { _tasks: tasks }
    }

    /// One that always says the same.
    fn saying(socket: &Path, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Self {
        Self::new(socket, move |_, _| {
            let reply = reply();
            async move { reply }.boxed()
        })
    }
}

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("runtime.sock")
    }

    fn client(&self) -> Client {
        self.client_with(ClientConfig::default())
    }

    fn client_with(&self, config: ClientConfig) -> Client {
        let endpoint = format!("unix://{}", self.socket().display()).parse().unwrap();
        Client::new(&endpoint, config).unwrap()
    }
}

fn version() -> v1::VersionResponse {
    v1::VersionResponse {
        version: "0.1.0".into(),
        runtime_name: "r".into(),
        runtime_version: "1".into(),
        runtime_api_version: "v1".into(),
    }
}

#[tokio::test]
async fn code_and_message_of_a_refusal_arrive_unchanged() {
    let place = Place::new();
    let _server =
        Server::saying(&place.socket(), || refusal(Code::NotFound, "no container \"a\": not found"));
    let client = place.client();
    let error = client.container_status("a").await.unwrap_err();
    assert_eq!(error, Error::status(Code::NotFound, "no container \"a\": not found"));
    assert_eq!(client.metrics().errors(Operation::ContainerStatus), 1);
}

#[tokio::test]
async fn a_runtime_that_is_away_is_unavailable_until_it_is_back() {
    let place = Place::new();
    let client = place.client();
    for _ in 0..2 {
        assert_eq!(client.version("0.1.0").await.unwrap_err().code(), Code::Unavailable);
        let server = Server::saying(&place.socket(), || answer(&version()));
        assert_eq!(client.version("0.1.0").await.unwrap(), version());
        drop(server);
        std::fs::remove_file(place.socket()).unwrap();
        // The broken connection is noticed by a call at the latest; that one may fail in its own way.
        let _ = client.version("0.1.0").await;
    }
}

#[tokio::test]
async fn a_call_that_is_not_answered_ends_with_its_deadline_and_is_cancelled_at_the_runtime() {
    let place = Place::new();
    let (cancelled, mut cancellations) = mpsc::unbounded_channel();
    let _server = Server::new(&place.socket(), move |path, _| {
        let told = cancelled.clone();
        match path {
            "Version" => async { answer(&version()) }.boxed(),
            _ => async move {
                let _told = TellOnDrop(told);
                std::future::pending().await
            }
            .boxed(),
        }
    });
    let client =
        place.client_with(ClientConfig { timeout: Duration::from_millis(300), ..Default::default() });
    let began = Instant::now();
    let (hung, answered) = tokio::join!(client.status(), async {
        client.version("0.1.0").await.unwrap();
        began.elapsed()
    });
    assert!(hung.unwrap_err().is_deadline_exceeded());
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(answered < Duration::from_millis(300), "another call waited {answered:?}");
    timeout(PATIENCE, cancellations.recv()).await.unwrap().unwrap();
}

struct TellOnDrop(mpsc::UnboundedSender<()>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn messages_may_have_sixteen_megabytes_and_no_more() {
    let place = Place::new();
    let _server = Server::new(&place.socket(), |_, body| {
        let length: usize = v1::ExecSyncRequest::decode(body).unwrap().cmd[0].parse().unwrap();
        async move { answer(&v1::ExecSyncResponse { stdout: vec![b'x'; length], ..Default::default() }) }
            .boxed()
    });
    let client = place.client();
    let ask = async |length: usize| client.exec_sync("a", &[length.to_string()], PATIENCE).await;
    let most = 16 * 1024 * 1024 - 64;
    assert_eq!(ask(most).await.unwrap().stdout.len(), most);
    let error = ask(16 * 1024 * 1024 + 1).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
    assert!(error.message().contains("too large"), "{error}");
}

#[tokio::test]
async fn a_failed_pull_without_a_code_is_told_without_one() {
    let place = Place::new();
    let _server = Server::saying(&place.socket(), || refusal(Code::Unknown, "no such host"));
    let error = place.client().pull_image(&v1::ImageSpec::default(), None, None).await.unwrap_err();
    assert_eq!(error.to_string(), "no such host");
}

#[tokio::test]
async fn an_answer_that_lacks_what_it_must_have_is_a_failed_call() {
    let place = Place::new();
    let _server =
        Server::saying(&place.socket(), || Reply { messages: vec![Vec::new()], code: Code::Ok, message: "" });
    let client = place.client();
    let (container, sandbox) = (v1::ContainerConfig::default(), v1::PodSandboxConfig::default());
    let errors = [
        client.version("0.1.0").await.err(),
        client.status().await.err(),
        client.run_pod_sandbox(&sandbox, "").await.err(),
        client.create_container("s", &container, &sandbox).await.err(),
        client.pod_sandbox_status("s").await.err(),
        client.container_status("c").await.err(),
        client.exec(&Default::default()).await.err(),
        client.attach(&Default::default()).await.err(),
        client.port_forward(&Default::default()).await.err(),
        client.container_stats("c").await.err(),
        client.pod_sandbox_stats("s").await.err(),
        client.pull_image(&Default::default(), None, None).await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Incomplete(_))), "{index}: {error:?}");
    }
    assert_eq!(client.metrics().errors(Operation::CreateContainer), 1);
    assert_eq!(client.list_containers(&Default::default()).await.unwrap(), []);
}

#[tokio::test]
async fn times_are_sent_in_whole_seconds_and_never_rounded_to_nothing() {
    let place = Place::new();
    let (sent, mut received) = mpsc::unbounded_channel();
    let _server = Server::new(&place.socket(), move |path, body| {
        let seconds = match path {
            "StopContainer" => v1::StopContainerRequest::decode(body).unwrap().timeout,
            "ExecSync" => v1::ExecSyncRequest::decode(body).unwrap().timeout,
            _ => v1::CheckpointContainerRequest::decode(body).unwrap().timeout,
        };
        sent.send((path.to_owned(), seconds)).unwrap();
        async { Reply { messages: vec![Vec::new()], code: Code::Ok, message: "" } }.boxed()
    });
    let client = place.client();
    client.stop_container("c", Duration::from_secs(30)).await.unwrap();
    client.stop_container("c", Duration::from_millis(1)).await.unwrap();
    client.exec_sync("c", &[], Duration::from_millis(1500)).await.unwrap();
    client.exec_sync("c", &[], Duration::ZERO).await.unwrap();
    let checkpoint = |timeout| v1::CheckpointContainerRequest { timeout, ..Default::default() };
    client.checkpoint_container(&checkpoint(5)).await.unwrap();
    client.checkpoint_container(&checkpoint(500)).await.unwrap();
    let error = client.checkpoint_container(&checkpoint(0)).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let mut seen = Vec::new();
    while let Ok((path, seconds)) = received.try_recv() {
        seen.push(format!("{path} {seconds}"));
    }
    assert_eq!(
        seen,
        [
            "StopContainer 30",
            "StopContainer 1",
            "ExecSync 2",
            "ExecSync 0",
            "CheckpointContainer 120",
            "CheckpointContainer 500"
        ]
    );
}

#[tokio::test]
async fn events_arrive_until_the_runtime_ends_them() {
    let place = Place::new();
    let event = |id: &str| v1::ContainerEventResponse { container_id: id.into(), ..Default::default() };
    let messages = vec![event("a").encode_to_vec(), event("b").encode_to_vec()];
    let _server = Server::saying(&place.socket(), move || Reply {
        messages: messages.clone(),
        code: Code::Unavailable,
        message: "going away",
    });
    let client = place.client();
    let events: Vec<_> = client.get_container_events().await.unwrap().collect().await;
    let ended = Err(Error::status(Code::Unavailable, "going away"));
    assert_eq!(events, [Ok(event("a")), Ok(event("b")), ended]);
    assert_eq!(client.metrics().errors(Operation::GetContainerEvents), 1);
}

#[tokio::test]
async fn a_stream_of_events_opens_before_the_runtime_says_anything() {
    let place = Place::new();
    let _server = Server::new(&place.socket(), |_, _| std::future::pending().boxed());
    let client = place.client();
    let mut events = timeout(PATIENCE, client.get_container_events()).await.unwrap().unwrap();
    assert!(events.next().now_or_never().is_none());
}

#[tokio::test]
async fn a_runtime_without_events_says_so_in_the_stream() {
    let place = Place::new();
    let _server = Server::saying(&place.socket(), || refusal(Code::Unimplemented, "unknown method"));
    let mut events = place.client().get_container_events().await.unwrap();
    assert!(events.next().await.unwrap().unwrap_err().is_unimplemented());
    assert!(events.next().await.is_none());
}

#[test]
fn secrets_are_not_shown() {
    let auth = v1::AuthConfig {
        username: "who".into(),
        password: "hidden".into(),
        auth: "hidden".into(),
        identity_token: "hidden".into(),
        registry_token: "hidden".into(),
        ..Default::default()
    };
    let request = v1::PullImageRequest { auth: Some(auth), ..Default::default() };
    let config = v1::ContainerConfig {
        envs: vec![v1::KeyValue { key: "who".into(), value: b"hidden".to_vec() }],
        ..Default::default()
    };
    let shown = format!("{request:?} {config:?}");
    assert!(!shown.contains("hidden") && !shown.contains("104, 105"), "{shown}");
    assert_eq!(shown.matches("who").count(), 2);
}
