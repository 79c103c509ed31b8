//! Whatever is written, forgotten and started again: lists and watches show one history, which a model knows as well.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::collections::{BTreeMap, VecDeque};

use common::{Events, MERGE_PATCH, delete, get, patch, post};
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

/// How many changes the server remembers.
const HISTORY: usize = 12;
const NAMESPACES: [&str; 2] = ["default", "other"];

/// Objects by namespace and name: their label and their version.
type State = BTreeMap<(String, String), (String, u64)>;

/// What a list or a watch is about.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// One namespace, or all.
    namespace: Option<&'static str>,
    labels: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Creates it, or gives it another label.
    Put(u8, u8),
    Delete(u8),
    /// All, as of so many versions ago.
    ListAt(Scope, u64),
    /// The first page of a list, of that size.
    Page(Scope, u8),
    /// The next page of one of the lists.
    NextPage(u8, u8),
    /// From so many versions ago.
    Watch(Scope, u64),
    /// Beginning with what is there.
    Stream(Scope),
    /// One of the watches is read until it knows everything.
    CatchUp(u8),
    Compact,
    /// Connections break.
    Restart,
    /// The process ends, and another one begins on its data folder, if it has one.
    Reopen,
}

fn scope() -> impl Strategy<Value = Scope> {
    let namespace = prop_oneof![Just(None), Just(Some("default")), Just(Some("other"))];
    let labels = prop_oneof![Just(""), Just("l=1"), Just("l!=1"), Just("l in (0,2)")];
    (namespace, labels).prop_map(|(namespace, labels)| Scope { namespace, labels })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        12 => (0..8_u8, 0..3_u8).prop_map(|(key, label)| Act::Put(key, label)),
        4 => (0..8_u8).prop_map(Act::Delete),
        3 => (scope(), 0..20_u64).prop_map(|(scope, back)| Act::ListAt(scope, back)),
        2 => (scope(), 1..4_u8).prop_map(|(scope, limit)| Act::Page(scope, limit)),
        5 => (any::<u8>(), 1..4_u8).prop_map(|(which, limit)| Act::NextPage(which, limit)),
        2 => (scope(), 0..20_u64).prop_map(|(scope, back)| Act::Watch(scope, back)),
        1 => scope().prop_map(Act::Stream),
        5 => any::<u8>().prop_map(Act::CatchUp),
        1 => Just(Act::Compact),
        1 => Just(Act::Restart),
        1 => Just(Act::Reopen),
    ];
    proptest::collection::vec(act, 1..80)
}

impl Scope {
    fn takes(self, (namespace, _): &(String, String), label: &str) -> bool {
        let selected = match self.labels {
            "" => true,
            "l=1" => label == "1",
            "l!=1" => label != "1",
            _ => label != "1",
        };
        selected && self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    fn of(self, state: &State) -> State {
        state
            .iter()
            .filter(|(key, (label, _))| self.takes(key, label))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    fn path(self, parameters: &str) -> String {
        let within = self.namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let labels = self.labels.replace(' ', "%20");
        format!("/api/v1{within}/configmaps?labelSelector={labels}&{parameters}")
    }
}

fn key(n: u8) -> (String, String) {
    (NAMESPACES[usize::from(n) % 2].to_owned(), format!("k{n}"))
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// What an object says of itself.
fn entry(object: &Value) -> ((String, String), (String, u64)) {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let key = (text(&metadata["namespace"]), text(&metadata["name"]));
    (key, (text(&metadata["labels"]["l"]), version(object)))
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn items(list: &Value) -> Vec<((String, String), (String, u64))> {
    list["items"].as_array().unwrap().iter().map(entry).collect()
}

/// A list that is read page by page.
struct Pages {
    scope: Scope,
    seen: Vec<((String, String), (String, u64))>,
    version: u64,
    token: String,
}

/// A client that follows.
struct Follower {
    scope: Scope,
    state: State,
    /// Up to where it knows everything.
    known: u64,
    /// None once the connection broke.
    events: Option<Events>,
}

struct World {
    server: TestServer,
    folder: Option<tempfile::TempDir>,
    /// How everything was after each version that changed it.
    past: BTreeMap<u64, State>,
    /// The versions that the server may remember, beyond the newest that it has forgotten.
    remembered: VecDeque<u64>,
    /// Versions before are forgotten.
    floor: u64,
    pages: Vec<Pages>,
    followers: Vec<Follower>,
}

async fn start(folder: Option<&tempfile::TempDir>) -> TestServer {
    let builder = TestServer::builder().history(HISTORY);
    match folder {
        Some(folder) => builder.kept_in(folder.path()).start().await,
        None => builder.start().await,
    }
}

impl World {
    async fn new(folder: Option<tempfile::TempDir>) -> Self {
        let server = start(folder.as_ref()).await;
        post(&server, "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.expect(201);
        // What nobody ever wrote can't be forgotten.
        post(&server, &path("other"), json!({"metadata": {"name": "first"}})).await.expect(201);
        delete(&server, &format!("{}/first", path("other")), Value::Null).await.expect(200);
        server.compact();
        let floor = server.resource_version();
        let past = BTreeMap::from([(0, State::new()), (floor, State::new())]);
        let (remembered, pages, followers) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { server, folder, past, remembered, floor, pages, followers }
    }

    fn present(&self) -> &State {
        self.at(u64::MAX)
    }

    fn at(&self, version: u64) -> &State {
        self.past.range(..=version).next_back().unwrap().1
    }

    /// Takes in a change.
    fn wrote(&mut self, state: State) {
        let version = self.server.resource_version();
        if self.past.contains_key(&version) {
            return; // Nothing was to be changed.
        }
        self.past.insert(version, state);
        self.remembered.push_back(version);
        while self.remembered.len() > HISTORY {
            self.floor = self.remembered.pop_front().unwrap();
        }
    }

    fn forget(&mut self) {
        self.remembered.clear();
        self.floor = self.server.resource_version();
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Put(n, label) => {
                let (namespace, name) = key(n);
                let object = json!({"metadata": {"name": name, "labels": {"l": label.to_string()}}});
                let written = if self.present().contains_key(&key(n)) {
                    patch(&self.server, MERGE_PATCH, &format!("{}/{name}", path(&namespace)), object)
                        .await
                        .expect(200)
                } else {
                    post(&self.server, &path(&namespace), object).await.expect(201)
                };
                let mut state = self.present().clone();
                let (key, value) = entry(&written);
                state.insert(key, value);
                self.wrote(state);
            }
            Act::Delete(n) => {
                let (namespace, name) = key(n);
                let mut state = self.present().clone();
                let there = state.remove(&key(n)).is_some();
                let answer = delete(&self.server, &format!("{}/{name}", path(&namespace)), Value::Null).await;
                assert_eq!(answer.code, if there { 200 } else { 404 });
                self.wrote(state);
            }
            Act::ListAt(scope, back) => {
                let version = self.server.resource_version().saturating_sub(back).max(1);
                let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
                let answer = get(&self.server, &scope.path(&exact)).await;
                assert_eq!(
                    answer.code == 410,
                    version < self.floor,
                    "{version} {}: {}",
                    self.floor,
                    answer.text()
                );
                if answer.code == 200 {
                    let listed: State = items(&answer.json()).into_iter().collect();
                    assert_eq!(listed, scope.of(self.at(version)), "at {version}");
                }
            }
            Act::Page(scope, limit) => {
                let list = get(&self.server, &scope.path(&format!("limit={limit}"))).await.expect(200);
                let version = version(&list);
                assert_eq!(version, self.server.resource_version());
                self.turned(Pages { scope, seen: Vec::new(), version, token: String::new() }, &list, limit);
            }
            Act::NextPage(which, limit) => {
                if self.pages.is_empty() {
                    return;
                }
                let pages = self.pages.swap_remove(usize::from(which) % self.pages.len());
                let more = format!("limit={limit}&continue={}", pages.token);
                let answer = get(&self.server, &pages.scope.path(&more)).await;
                assert_eq!(answer.code == 410, pages.version < self.floor, "{}", answer.text());
                let answer = answer.json();
                if answer["code"] != 410 {
                    assert_eq!(version(&answer), pages.version, "all pages are of one version");
                    return self.turned(pages, &answer, limit);
                }
                // It may go on with what is there now.
                let token = answer["metadata"]["continue"].as_str().unwrap();
                let rest =
                    get(&self.server, &pages.scope.path(&format!("continue={token}"))).await.expect(200);
                let last = &pages.seen.last().unwrap().0;
                let expected = pages.scope.of(self.present()).into_iter().filter(|(key, _)| key > last);
                assert_eq!(items(&rest), expected.collect::<Vec<_>>());
            }
            Act::Watch(scope, back) => {
                let version = self.server.resource_version().saturating_sub(back).max(1);
                let state = scope.of(self.at(version));
                self.followers.push(Follower { scope, state, known: version, events: None });
            }
            Act::Stream(scope) => self.stream(scope).await,
            Act::CatchUp(which) => {
                if !self.followers.is_empty() {
                    let which = usize::from(which) % self.followers.len();
                    let follower = self.followers.swap_remove(which);
                    self.catch_up(follower).await;
                }
            }
            Act::Compact => {
                self.server.compact();
                self.forget();
            }
            Act::Restart => {
                self.server.restart().await.unwrap();
                self.followers.iter_mut().for_each(|follower| follower.events = None);
            }
            Act::Reopen => {
                if self.folder.is_some() {
                    self.reopen().await;
                }
            }
        }
    }

    /// A page has come: is it the right one?
    fn turned(&mut self, mut pages: Pages, list: &Value, limit: u8) {
        let found = items(list);
        assert!(found.len() <= usize::from(limit));
        pages.seen.extend(found);
        match list["metadata"]["continue"].as_str() {
            Some(token) => {
                pages.token = token.to_owned();
                self.pages.push(pages);
            }
            None => {
                let whole: Vec<_> = pages.scope.of(self.at(pages.version)).into_iter().collect();
                assert_eq!(pages.seen, whole, "as of {}", pages.version);
            }
        }
    }

    async fn stream(&mut self, scope: Scope) {
        let asked =
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut events = Events::of(&self.server, &scope.path(asked)).await;
        let mut state = State::new();
        loop {
            let event = events.next().await.unwrap();
            if event["type"] == "ADDED" {
                let (key, value) = entry(&event["object"]);
                assert!(state.insert(key, value).is_none());
                continue;
            }
            assert_eq!(
                event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true",
                "{event}"
            );
            let known = version(&event["object"]);
            assert_eq!(state, scope.of(self.at(known)));
            self.followers.push(Follower { scope, state, known, events: Some(events) });
            return;
        }
    }

    /// Reads a watch until it has told everything; one that broke is begun again where it was.
    async fn catch_up(&mut self, mut follower: Follower) {
        let from = follower
            .scope
            .path(&format!("watch=1&allowWatchBookmarks=true&resourceVersion={}", follower.known));
        let mut events = match follower.events.take() {
            Some(events) => events,
            None => Events::of(&self.server, &from).await,
        };
        while follower.known < self.server.resource_version() {
            let event = events.next().await.expect("a watch must go on");
            let object = &event["object"];
            match event["type"].as_str().unwrap() {
                "ERROR" => {
                    assert_eq!(object["code"], 410, "{event}");
                    assert!(follower.known < self.floor, "{} is remembered: {}", follower.known, self.floor);
                    return;
                }
                "BOOKMARK" => {
                    // The one that it begins with may repeat what is known.
                    assert!(version(object) >= follower.known, "{event}");
                    follower.known = version(object);
                    assert_eq!(follower.state, follower.scope.of(self.at(follower.known)), "{event}");
                    continue;
                }
                kind => {
                    let (key, value) = entry(object);
                    assert!(value.1 > follower.known, "{event} after {}", follower.known);
                    follower.known = value.1;
                    let before = match kind {
                        "DELETED" => follower.state.remove(&key),
                        _ => follower.state.insert(key, value),
                    };
                    assert_eq!(before.is_some(), kind != "ADDED", "{event}");
                }
            }
            assert_eq!(follower.state, follower.scope.of(self.at(follower.known)), "{event}");
        }
        follower.events = Some(events);
        self.followers.push(follower);
    }

    async fn reopen(&mut self) {
        self.followers.iter_mut().for_each(|follower| follower.events = None);
        let before = self.server.resource_version();
        self.server.stop().await;
        // The folder is free once nobody has the server.
        let resting = TestServer::start().await;
        drop(std::mem::replace(&mut self.server, resting));
        self.server = start(self.folder.as_ref()).await;
        assert_eq!(self.server.resource_version(), before);
        self.forget();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lists_pages_and_watches_show_one_history(acts in acts(), lasting in prop::bool::weighted(0.2)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let folder = lasting.then(|| tempfile::tempdir().unwrap());
            let mut world = World::new(folder).await;
            for act in acts {
                world.act(act).await;
            }
            while let Some(follower) = world.followers.pop() {
                let rest = std::mem::take(&mut world.followers);
                world.catch_up(follower).await;
                world.followers = rest;
            }
        });
    }
}
