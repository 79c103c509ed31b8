use ::http::{Request, Response, header};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyStream, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::wire::meta::MetaOnly;

/// A source over a server that answers everything alike, and the targets of the requests it got.
fn source(code: u16, body: &'static str) -> (ApiListerWatcher<MetaOnly>, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&asked);
    let server = tower::service_fn(move |request: Request<Body>| {
        log.lock().push(request.uri().to_string());
        let response = Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .header("retry-after", "7")
            .body(Body::from(body.as_bytes().to_vec()))
            .unwrap();
        std::future::ready(Ok::<_, std::convert::Infallible>(response))
    });
    let client = kube::Client::new(server, "default");
    let scope = Scope { namespace: "web".into(), ..Scope::default() };
    (ApiListerWatcher::new(client, GroupVersionResource::new("apps", "v1", "deployments"), scope), asked)
}

fn watch(from: u64, initial_events: bool) -> WatchRequest {
    WatchRequest { from: ResourceVersion(from), initial_events, timeout: Duration::from_millis(300_900) }
}

/// All of a watch.
async fn watched(body: &'static str) -> Vec<Result<WatchEvent<MetaOnly>, Error>> {
    let (source, _) = source(200, body);
    source.watch(watch(0, true)).await.unwrap().collect().await
}

#[tokio::test]
async fn requests_say_how_fresh_the_answer_must_be() {
    let (source, asked) = source(200, r#"{"metadata": {"resourceVersion": "9"}, "items": []}"#);
    let seven = ResourceVersion(7);
    for (freshness, page) in [
        (Freshness::Any, None),
        (Freshness::Any, Some(500)),
        (Freshness::NotOlderThan(seven), None),
        (Freshness::MostRecent, Some(500)),
        (Freshness::MostRecent, None),
    ] {
        let events: Vec<_> =
            source.list(ListRequest { freshness, page }).await.unwrap().try_collect().await.unwrap();
        assert!(matches!(events[..], [ListEvent::Complete(ResourceVersion(9))]));
    }
    for request in [watch(0, true), watch(7, true), watch(7, false)] {
        let _ = source.watch(request).await.unwrap();
    }
    let watch = "watch=true&allowWatchBookmarks=true&timeoutSeconds=300";
    let streamed = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let expected = [
        "resourceVersion=0",
        "limit=500&resourceVersion=0",
        "resourceVersion=7&resourceVersionMatch=NotOlderThan",
        "limit=500",
        "",
        &format!("{watch}{streamed}"),
        &format!("{watch}{streamed}&resourceVersion=7"),
        &format!("{watch}&resourceVersion=7"),
    ]
    .map(|query| format!("/apis/apps/v1/namespaces/web/deployments?{query}"));
    assert_eq!(*asked.lock(), expected);
}

#[tokio::test]
async fn an_error_ends_a_watch_whatever_follows_it() {
    let events = watched(concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"3"}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#,
        "\n",
        r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"4"}}}"#,
        "\n",
    ))
    .await;
    let [Ok(WatchEvent::Added(_)), Err(Error::Status(status))] = &events[..] else { panic!("{events:?}") };
    assert!(status.is_expired());
}

#[tokio::test]
async fn a_streamed_list_must_end_at_a_version() {
    let events = watched(concat!(
        r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n"
    ))
    .await;
    assert!(matches!(events[..], [Err(Error::NoVersion)]), "{events:?}");
}

#[tokio::test]
async fn an_error_answer_has_its_code_and_its_pause_whatever_its_body() {
    for body in ["<html>busy</html>", r#"{"kind": "Status", "status": "Failure", "message": "busy"}"#] {
        let (source, _) = source(503, body);
        let Err(Error::Status(status)) = source.watch(watch(1, false)).await else { panic!("it must fail") };
        assert_eq!((status.code, status.retry_after()), (503, Some(Duration::from_secs(7))), "{body}");
    }
}

/// The end of a streamed list without objects.
const END: &str = concat!(
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","#,
    r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n"
);
/// A bookmark that comes in the course of a watch.
const PROGRESS: &str = concat!(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}"#, "\n");

/// A source over a server that answers each request with the next of these texts, and then falls silent with the connection
/// open. It stays silent from the start once there is no text left.
fn silent_after(texts: &'static [&'static str]) -> ApiListerWatcher<MetaOnly> {
    let texts = Mutex::new(texts.iter());
    let server = tower::service_fn(move |_: Request<Body>| {
        let text = texts.lock().next().copied().unwrap_or_default();
        let first = BodyStream::new(Full::new(Bytes::from_static(text.as_bytes())));
        let body = StreamBody::new(first.chain(futures::stream::pending()));
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(body)))
    });
    let client = kube::Client::new(server, "default");
    ApiListerWatcher::new(client, GroupVersionResource::new("", "v1", "events"), Scope::default())
}

/// After how long of silence a watch is given up.
async fn patience(source: &ApiListerWatcher<MetaOnly>, request: WatchRequest) -> Duration {
    let start = tokio::time::Instant::now();
    let events: Vec<_> = source.watch(request).await.unwrap().collect().await;
    assert!(matches!(events.last(), Some(Err(Error::Idle(_)))), "{events:?}");
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_bookmarks_may_be_silent_for_as_long_as_its_watch_lasts() {
    let source = silent_after(&[END, END, PROGRESS, END]);
    let timeout = watch(0, true).timeout;
    assert_eq!(patience(&source, watch(0, true)).await, timeout + IDLE_DEADLINE);
    assert_eq!(patience(&source, watch(5, false)).await, timeout + IDLE_DEADLINE);
    assert_eq!(patience(&source, watch(5, false)).await, IDLE_DEADLINE, "bookmarks come after all");
    assert_eq!(patience(&source, watch(0, true)).await, IDLE_DEADLINE, "and are expected from then on");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_may_not_be_silent() {
    assert_eq!(patience(&silent_after(&[]), watch(0, true)).await, IDLE_DEADLINE);
}

#[test]
fn each_failure_is_of_one_sort() {
    let status = |code, reason| Error::from(Status::failure(code, reason, ""));
    for (error, expected) in [
        (Error::Call(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded)), "connection"),
        (FrameError::Truncated.into(), "connection"),
        (FrameError::TooLarge(1 << 30).into(), "unreadable"),
        (status(410, "Expired"), "expired"),
        (status(401, "Unauthorized"), "unauthorized"),
        (status(429, "TooManyRequests"), "throttled"),
        (status(503, ""), "server_error"),
        (status(404, "NotFound"), "refused"),
        (Error::Idle(IDLE_DEADLINE), "stalled"),
        (Error::Incomplete, "ended"),
        (Error::NoVersion, "unreadable"),
    ] {
        assert_eq!(error.sort(), expected, "{error}");
    }
}

#[tokio::test]
async fn a_watch_asks_for_no_compression() {
    let asked = Arc::<Mutex<Vec<_>>>::default();
    let log = Arc::clone(&asked);
    let server = tower::service_fn(move |request: Request<Body>| {
        log.lock().push(request.headers().get(header::ACCEPT_ENCODING).cloned());
        let body = Body::from(br#"{"metadata": {"resourceVersion": "9"}, "items": []}"#.to_vec());
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(body)))
    });
    let pods = GroupVersionResource::new("", "v1", "pods");
    let source: ApiListerWatcher<MetaOnly> =
        ApiListerWatcher::new(kube::Client::new(server, "default"), pods, Scope::default());
    let _ = source.watch(watch(0, true)).await.unwrap();
    let _ = source.watch(watch(7, false)).await.unwrap();
    let _ = source.list(ListRequest { freshness: Freshness::Any, page: None }).await.unwrap();
    let identity = Some(header::HeaderValue::from_static("identity"));
    assert_eq!(
        *asked.lock(),
        [identity.clone(), identity, None],
        "a list is left to the client's own layers"
    );
}
