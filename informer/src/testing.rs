//! A scripted source of objects, for tests of reflectors, informers and controllers without an API server.
//!
//! It has objects, versions and a history as an API server does, answers lists and watches, and fails on request. It never
//! waits, so tests can run on a paused clock. Needs the feature `testing`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use serde_json::json;
//! use steersman_informer::testing::ScriptedSource;
//! use steersman_informer::wire::meta::MetaOnly;
//! use steersman_informer::{GroupVersionResource, SharedInformer, shared_informer};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = ScriptedSource::<MetaOnly>::default();
//! source.apply(json!({ "metadata": { "name": "a", "namespace": "default" } }));
//! let resource = GroupVersionResource::new("", "v1", "pods");
//! let shared = SharedInformer::new(Arc::new(source.clone()), resource, shared_informer::Config::default());
//! let pods = shared.select::<MetaOnly>()?;
//! let stop = CancellationToken::new();
//! tokio::join!(shared.run(stop.clone()), async {
//!     assert!(pods.synced().await);
//!     assert_eq!(pods.lister().len(), 1);
//!     stop.cancel();
//! });
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::{ObjectKey, ResourceVersion, Status};
use tokio::sync::mpsc;

use crate::list_watch::{Error, Events, ListEvent, ListRequest, ListerWatcher, WatchEvent, WatchRequest};
use crate::wire::{Decoded, Encoding, Object};

/// Objects of one kind, as JSON, with a version for each write. Cheap to clone.
pub struct ScriptedSource<K> {
    state: Arc<Mutex<State>>,
    groups: Arc<AtomicU64>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for ScriptedSource<K> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), groups: Arc::clone(&self.groups), kind: PhantomData }
    }
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<ObjectKey, Bytes>,
    /// Every write since the last compaction, by its version.
    history: Vec<(u64, Change)>,
    /// The source refuses watches from before this version.
    compacted: u64,
    watchers: Vec<mpsc::UnboundedSender<Result<Change, Error>>>,
    list_errors: VecDeque<Error>,
    watch_errors: VecDeque<Error>,
    /// The next list breaks off after so many items.
    break_list_after: Option<usize>,
    streamed_lists: StreamedLists,
    requests: Vec<Request>,
}

/// How the source answers a request for a streamed list.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum StreamedLists {
    #[default]
    Answered,
    Refused,
    /// As a watch without initial events.
    Ignored,
    /// With the existing objects, but without the bookmark that ends the list.
    Endless,
}

#[derive(Clone)]
enum Change {
    Added(Bytes),
    Modified(Bytes),
    Deleted(Bytes),
    Bookmark(u64),
}

/// A request to a [`ScriptedSource`].
#[derive(Clone, Debug)]
pub enum Request {
    /// A list.
    List(ListRequest),
    /// A watch.
    Watch(WatchRequest),
}

impl<K: Object> Default for ScriptedSource<K> {
    fn default() -> Self {
        Self { state: Arc::default(), groups: Arc::default(), kind: PhantomData }
    }
}

impl<K: Object> ScriptedSource<K> {
    /// Creates or replaces an object, and sets its version, which is returned.
    ///
    /// # Panics
    /// If the object has no `metadata.name`.
    pub fn apply(&self, mut object: Value) -> u64 {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        state.put(key_of(&object), object.to_string().into())
    }

    /// As [`apply`](Self::apply), with a body that need not be an object.
    pub fn apply_bytes(&self, key: ObjectKey, body: impl Into<Bytes>) -> u64 {
        let mut state = self.state.lock();
        state.version += 1;
        state.put(key, body.into())
    }

    /// Deletes an object.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn delete(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        state.version += 1;
        let body = state.objects.remove(key).expect("the object to delete must exist");
        let mut object: Value = serde_json::from_slice(&body).expect("only whole objects can be deleted");
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.tell(Change::Deleted(object.to_string().into()));
    }

    /// Deletes an object. The watch event has bytes that can't be decoded.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn delete_unreadably(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        state.version += 1;
        state.objects.remove(key).expect("the object to delete must exist");
        state.tell(Change::Deleted("{]".into()));
    }

    /// Removes an object without a watch event, so that only a list shows it.
    pub fn vanish(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        state.version += 1;
        state.objects.remove(key);
    }

    /// Sends a bookmark with the newest version to all watches.
    pub fn bookmark(&self) {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        state.tell(Change::Bookmark(version));
    }

    /// Drops the history. The source answers watches from before now with 410.
    pub fn compact(&self) {
        let mut state = self.state.lock();
        state.compacted = state.version;
        state.history.clear();
    }

    /// Ends all watches, as a server does when their time is over.
    pub fn end_watches(&self) {
        self.state.lock().watchers.clear();
    }

    /// Ends all watches, each with an error made by `error`.
    pub fn break_watches(&self, error: impl Fn() -> Error) {
        for watcher in self.state.lock().watchers.drain(..) {
            let _ = watcher.send(Err(error()));
        }
    }

    /// Makes the next list fail, streamed or not. Each call makes one more list fail.
    pub fn fail_list(&self, error: Error) {
        self.state.lock().list_errors.push_back(error);
    }

    /// Makes the next list, streamed or not, break off after so many items.
    pub fn break_list_after(&self, items: usize) {
        self.state.lock().break_list_after = Some(items);
    }

    /// Makes the source refuse the next watch. Each call makes it refuse one more.
    pub fn fail_watch(&self, error: Error) {
        self.state.lock().watch_errors.push_back(error);
    }

    /// Refuses streamed lists with 422, as a server that does not support them.
    pub fn refuse_streamed_lists(&self) {
        self.state.lock().streamed_lists = StreamedLists::Refused;
    }

    /// Answers streamed lists without initial events, as a server that ignores the parameter.
    pub fn ignore_streamed_lists(&self) {
        self.state.lock().streamed_lists = StreamedLists::Ignored;
    }

    /// Answers streamed lists without the bookmark that ends them.
    pub fn never_end_streamed_lists(&self) {
        self.state.lock().streamed_lists = StreamedLists::Endless;
    }

    /// The number of open watches.
    pub fn open_watches(&self) -> usize {
        let mut state = self.state.lock();
        state.watchers.retain(|watcher| !watcher.is_closed());
        state.watchers.len()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().requests.clone()
    }

    /// The newest version.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion(self.state.lock().version)
    }

    fn decode(body: &Bytes, groups: u64) -> Decoded<K> {
        Decoded::decode(body, Encoding::Json, groups)
    }

    fn event(change: &Change, groups: u64) -> WatchEvent<K> {
        match change {
            Change::Added(body) => WatchEvent::Added(Self::decode(body, groups)),
            Change::Modified(body) => WatchEvent::Modified(Self::decode(body, groups)),
            Change::Deleted(body) => WatchEvent::Deleted(Self::decode(body, groups)),
            Change::Bookmark(version) => WatchEvent::Bookmark(ResourceVersion(*version)),
        }
    }
}

impl State {
    fn put(&mut self, key: ObjectKey, body: Bytes) -> u64 {
        let existed = self.objects.insert(key, body.clone()).is_some();
        self.tell(if existed { Change::Modified(body) } else { Change::Added(body) });
        self.version
    }

    fn tell(&mut self, change: Change) {
        self.history.push((self.version, change.clone()));
        self.watchers.retain(|watcher| watcher.send(Ok(change.clone())).is_ok());
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    assert!(!text("name").is_empty(), "an object must have a name: {object}");
    ObjectKey::new(text("namespace"), text("name"))
}

fn broken() -> Error {
    crate::wire::frames::FrameError::Truncated.into()
}

impl<K: Object> ListerWatcher<K> for ScriptedSource<K> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Events<ListEvent<K>>, Error>> {
        let groups = self.groups.load(Ordering::Acquire);
        let mut state = self.state.lock();
        state.requests.push(Request::List(request));
        if let Some(error) = state.list_errors.pop_front() {
            return futures::future::ready(Err(error)).boxed();
        }
        let mut events: Vec<_> =
            state.objects.values().map(|body| Ok(ListEvent::Item(Self::decode(body, groups)))).collect();
        match state.break_list_after.take() {
            Some(items) => {
                events.truncate(items);
                events.push(Err(broken()));
            }
            None => events.push(Ok(ListEvent::Complete(ResourceVersion(state.version)))),
        }
        futures::future::ready(Ok(stream::iter(events).boxed())).boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events<WatchEvent<K>>, Error>> {
        let groups = self.groups.load(Ordering::Acquire);
        let mut state = self.state.lock();
        let (from, asked) = (request.from.0, request.initial_events);
        let initial = asked && state.streamed_lists != StreamedLists::Ignored;
        state.requests.push(Request::Watch(request));
        let refusal = if initial && state.streamed_lists == StreamedLists::Refused {
            Some(Status::failure(422, "Invalid", "sendInitialEvents is forbidden").into())
        } else if initial {
            state.list_errors.pop_front()
        } else if !asked && from < state.compacted {
            Some(Status::failure(410, "Expired", format!("too old resource version: {from}")).into())
        } else {
            state.watch_errors.pop_front()
        };
        if let Some(error) = refusal {
            return futures::future::ready(Err(error)).boxed();
        }
        let mut first: Vec<Result<WatchEvent<K>, Error>> = if initial {
            state.objects.values().map(|body| Ok(WatchEvent::Added(Self::decode(body, groups)))).collect()
        } else {
            let missed = state.history.iter().filter(|(version, _)| !asked && *version > from);
            missed.map(|(_, change)| Ok(Self::event(change, groups))).collect()
        };
        if initial {
            if let Some(items) = state.break_list_after.take() {
                first.truncate(items);
                first.push(Err(broken()));
                return futures::future::ready(Ok(stream::iter(first).boxed())).boxed();
            }
            if state.streamed_lists != StreamedLists::Endless {
                first.push(Ok(WatchEvent::InitialEventsEnd(ResourceVersion(state.version))));
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        state.watchers.push(sender);
        let live = stream::unfold(receiver, |mut receiver| async move {
            let change = receiver.recv().await?;
            Some((change, receiver))
        });
        let live = live.map(move |change| change.map(|change| Self::event(&change, groups)));
        futures::future::ready(Ok(stream::iter(first).chain(live).boxed())).boxed()
    }

    fn keep(&self, groups: u64) {
        self.groups.store(groups, Ordering::Release);
    }
}
