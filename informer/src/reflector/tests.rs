use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Status};
use tokio::task::JoinSet;

use futures::future::BoxFuture;

use super::*;
use crate::delta_fifo::{Consumer, delta_fifo};
use crate::testing::{Request, ScriptedSource};
use crate::wire::frames::FrameError;
use crate::wire::meta::MetaOnly;

type Source = ScriptedSource<MetaOnly>;

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "uid": name } })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// A reflector at work, and what it put into its log.
struct Scene {
    source: Source,
    log: Consumer<MetaOnly>,
    tasks: JoinSet<()>,
    buffered: std::collections::VecDeque<String>,
}

impl Scene {
    fn of(source: Source) -> Self {
        Self::with(source, Config::default())
    }

    fn with(source: Source, config: Config) -> Self {
        Self::behind(Arc::new(source.clone()), source, config)
    }

    /// A reflector that reaches its source through `way`.
    fn behind(way: Arc<dyn ListerWatcher<MetaOnly>>, source: Source, config: Config) -> Self {
        let (producer, log) = delta_fifo(16);
        let resource = GroupVersionResource::new("", "v1", "pods");
        let reflector = Reflector::new(way, resource, config);
        let mut tasks = JoinSet::new();
        tasks.spawn(reflector.list_and_watch(producer));
        Self { source, log, tasks, buffered: std::collections::VecDeque::new() }
    }

    /// The next so many deltas, in words.
    async fn next<const N: usize>(&mut self) -> [String; N] {
        let mut deltas = Vec::new();
        while deltas.len() < N {
            if let Some(delta) = self.buffered.pop_front() {
                deltas.push(delta);
                continue;
            }
            let popped = tokio::time::timeout(Duration::from_secs(3600), self.log.pop()).await;
            let popped = popped.expect("a delta must come within an hour").expect("the reflector must run");
            self.buffered.extend(popped.iter().map(words));
        }
        deltas.try_into().expect("as many as were asked for")
    }

    /// Past the initial list.
    async fn listed(&mut self) {
        while !self.next::<1>().await[0].starts_with("listed") {}
    }
}

fn words(delta: &Delta<MetaOnly>) -> String {
    let name = |object: &Decoded<MetaOnly>| match object {
        Decoded::Good(object) => object.meta().key.name.to_string(),
        Decoded::Unreadable(object, _) => format!("?{}", object.meta().key.name),
        Decoded::Lost(_) => "??".to_owned(),
    };
    match delta {
        Delta::Added(object) => format!("+{}", name(object)),
        Delta::Updated(object) => format!("~{}", name(object)),
        Delta::Deleted(object) => format!("-{}", name(object)),
        Delta::Replaced(object) => format!("={}", name(object)),
        Delta::ListBegun => "list".to_owned(),
        Delta::ListComplete(version) => format!("listed@{version}"),
        Delta::Bookmark(version) => format!("@{version}"),
    }
}

fn answer(code: u16, reason: &str) -> Error {
    Status::failure(code, reason, "").into()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_goes_over_into_its_watch() {
    let source = Source::default();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "=a", "listed@1"]);
    scene.source.apply(pod("b"));
    scene.source.apply(pod("b"));
    scene.source.delete(&key("a"));
    assert_eq!(scene.next().await, ["+b", "~b", "-a"]);
    assert_eq!(scene.source.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streamed_lists_is_listed_and_then_watched() {
    let source = Source::default();
    source.refuse_streamed_lists();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "list", "=a", "listed@1"]);
    scene.source.apply(pod("b"));
    assert_eq!(scene.next().await, ["+b"]);
    scene.source.compact();
    scene.source.break_watches(|| answer(410, "Expired"));
    assert_eq!(scene.next().await, ["list", "=a", "=b", "listed@2"]);
    let streamed = |r: &&Request| matches!(r, Request::Watch(watch) if watch.initial_events);
    assert_eq!(scene.source.requests().iter().filter(streamed).count(), 1, "it is not tried again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_again_and_again_is_watched_again_soon() {
    let mut scene = Scene::of(Source::default());
    scene.listed().await;
    for at in 0..10 {
        let broken = Instant::now();
        scene.source.break_watches(|| FrameError::Truncated.into());
        scene.source.apply(pod(&format!("pod-{at}")));
        assert_eq!(scene.next().await, [format!("+pod-{at}")]);
        assert!(broken.elapsed() < Duration::from_millis(1700), "{at}: {:?}", broken.elapsed());
    }
}

/// A source that refuses connections until this time.
struct Absent(Source, tokio::sync::watch::Receiver<Instant>);

impl Absent {
    fn refusal(&self) -> Option<Error> {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = || Error::Call(Box::new(kube::Error::Service(Box::new(refused))));
        (Instant::now() < *self.1.borrow()).then(error)
    }
}

impl ListerWatcher<MetaOnly> for Absent {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Events<ListEvent<MetaOnly>>, Error>> {
        match self.refusal() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.0.list(request),
        }
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events<WatchEvent<MetaOnly>>, Error>> {
        match self.refusal() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.0.watch(request),
        }
    }

    fn keep(&self, groups: u64) {
        self.0.keep(groups);
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_absence_of_two_minutes_all_caches_are_fresh_within_seconds() {
    let (until, absent) = tokio::sync::watch::channel(Instant::now());
    let config = Config::default();
    let mut scenes: Vec<Scene> = (0..50)
        .map(|_| {
            let source = Source::default();
            Scene::behind(Arc::new(Absent(source.clone(), absent.clone())), source, config.clone())
        })
        .collect();
    for scene in &mut scenes {
        scene.listed().await;
    }
    let back = Instant::now() + Duration::from_secs(120);
    until.send_replace(back);
    scenes.iter().for_each(|scene| scene.source.break_watches(|| FrameError::Truncated.into()));
    tokio::time::sleep_until(back).await;
    for scene in &mut scenes {
        scene.source.apply(pod("a"));
        assert_eq!(scene.next().await, ["+a"]);
        assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke_and_loses_nothing() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    scene.source.apply(pod("a"));
    assert_eq!(scene.next().await, ["+a"]);
    scene.source.break_watches(|| Error::Idle(Duration::from_secs(1)));
    scene.source.apply(pod("b"));
    assert_eq!(scene.next().await, ["+b"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_leads_to_a_new_list() {
    let source = Source::default();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    scene.listed().await;
    scene.source.end_watches();
    scene.source.vanish(&key("a"));
    scene.source.apply(pod("b"));
    scene.source.compact();
    assert_eq!(scene.next().await, ["list", "=b", "listed@3"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_version_is_not_asked_without_pause() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    let start = Instant::now();
    for _ in 0..5 {
        scene.source.break_watches(|| answer(410, "Expired"));
        scene.listed().await;
    }
    assert!(start.elapsed() > Duration::from_secs(12), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_nobody_knows_what_leads_to_a_new_list() {
    let source = Source::default();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    scene.listed().await;
    scene.source.delete_unreadably(&key("a"));
    assert_eq!(scene.next().await, ["list", "listed@2"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_streams_only_changes_is_listed() {
    let source = Source::default();
    source.ignore_streamed_lists();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list"]);
    while scene.source.open_watches() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    scene.source.bookmark();
    assert_eq!(scene.next().await, ["list", "=a", "listed@2"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_begun_again() {
    let source = Source::default();
    for name in ["a", "b", "c"] {
        source.apply(pod(name));
    }
    source.break_list_after(2);
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "=a", "=b", "list", "=a", "=b", "=c", "listed@3"]);
}

#[tokio::test(start_paused = true)]
async fn failing_lists_are_tried_again_with_growing_waits_for_as_long_as_it_takes() {
    let source = Source::default();
    let forbidden = || answer(403, "Forbidden");
    // A plain list follows the first, which is a streamed one, at once.
    for error in [forbidden(), forbidden(), answer(404, "NotFound"), answer(500, ""), answer(429, "")] {
        source.fail_list(error);
    }
    let start = Instant::now();
    let mut scene = Scene::of(source);
    scene.listed().await;
    // 0.8 + 1.6 + 3.2 + 6.4 s, each up to twice as long.
    let took = start.elapsed();
    assert!((Duration::from_secs(12)..Duration::from_secs(25)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_server_says_how_long_to_wait() {
    let mut status = Status::failure(429, "TooManyRequests", "");
    status.details.get_or_insert_default().retry_after_seconds = 30;
    let source = Source::default();
    source.fail_list(status.into());
    let start = Instant::now();
    Scene::of(source).listed().await;
    assert!(start.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_begun_again_at_once() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    let start = Instant::now();
    for _ in 0..5 {
        while scene.source.open_watches() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.source.end_watches();
    }
    assert!(start.elapsed() > Duration::from_secs(6), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_its_time_is_begun_again_at_once() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    scene.source.end_watches();
    scene.source.apply(pod("a"));
    let start = Instant::now();
    assert_eq!(scene.next().await, ["+a"]);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_advance_the_version_that_a_watch_resumes_from() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    scene.source.bookmark();
    assert_eq!(scene.next().await, ["@1"]);
    scene.source.compact();
    scene.source.break_watches(|| Error::Idle(Duration::from_secs(1)));
    scene.source.apply(pod("a"));
    assert_eq!(scene.next().await, ["+a"], "no new list was needed");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_stops_nothing() {
    let source = Source::default();
    source.apply_bytes(key("lost"), "{]");
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "=a", "=??", "listed@2"]);
    scene.source.apply_bytes(key("lost"), "nonsense");
    scene.source.apply(pod("b"));
    assert_eq!(scene.next().await, ["~??", "+b"]);
}

#[tokio::test(start_paused = true)]
async fn watches_are_asked_to_end_after_five_to_ten_minutes() {
    let source = Source::default();
    let mut scene = Scene::of(source);
    scene.listed().await;
    let Request::Watch(watch) = &scene.source.requests()[0] else {
        panic!("the first list must be streamed")
    };
    assert!((Duration::from_secs(300)..=Duration::from_secs(600)).contains(&watch.timeout));
}

#[tokio::test(start_paused = true)]
async fn a_reflector_ends_when_its_store_is_gone() {
    let source = Source::default();
    let Scene { log, mut tasks, source, .. } = Scene::of(source);
    drop(log);
    source.apply(pod("a"));
    tokio::time::timeout(Duration::from_secs(60), tasks.join_next())
        .await
        .expect("it must end")
        .unwrap()
        .unwrap();
}

/// The lists that were asked for, in words.
fn lists(source: &Source) -> Vec<&'static str> {
    let list = |request: Request| match request {
        Request::List(_) => Some("plain"),
        Request::Watch(watch) => watch.initial_events.then_some("streamed"),
    };
    source.requests().into_iter().filter_map(list).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_an_end_gives_way_to_a_plain_one() {
    let source = Source::default();
    source.never_end_streamed_lists();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "=a"]);
    // The server is busy, so that the connection is never silent.
    let source = scene.source.clone();
    scene.tasks.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            source.apply(pod("a"));
        }
    });
    let listed = tokio::time::timeout(Duration::from_secs(3600), scene.listed()).await;
    assert!(listed.is_ok(), "no list was complete within an hour: {:?}", lists(&scene.source));
    assert_eq!(lists(&scene.source), ["streamed", "plain"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_failed_once_is_tried_again_by_the_next_relist() {
    for error in [
        answer(403, "Forbidden"),
        answer(404, "NotFound"),
        answer(502, ""),
        Error::Idle(Duration::from_secs(90)),
        Error::Incomplete,
    ] {
        let source = Source::default();
        source.fail_list(error);
        source.fail_list(answer(500, "InternalError"));
        let mut scene = Scene::of(source);
        scene.listed().await;
        scene.source.break_watches(|| answer(410, "Expired"));
        scene.listed().await;
        assert_eq!(lists(&scene.source), ["streamed", "plain", "plain", "streamed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_nobody_knows_what_within_a_streamed_list_leads_to_another_list() {
    let source = Source::default();
    source.never_end_streamed_lists();
    source.apply(pod("a"));
    let mut scene = Scene::of(source);
    assert_eq!(scene.next().await, ["list", "=a"]);
    scene.source.delete_unreadably(&key("a"));
    assert_eq!(scene.next().await, ["list", "listed@2"]);
}
