//! Where a reflector's objects come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use steersman_api::{ArcStr, FieldSelector, GroupVersionResource, LabelSelector, ResourceVersion, Status};

use crate::wire::frames::FrameError;
use crate::wire::{DecodeError, Decoded, Object};

mod http;
mod silence;
mod stream;
#[cfg(test)]
mod tests;

/// Which objects of a resource are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One namespace; with the empty text all of them, and for kinds that stand in none.
    pub namespace: ArcStr,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields; which fields can be selected by is the server's to say.
    pub fields: FieldSelector,
}

/// How fresh a list must be, as the API's `resourceVersion` and `resourceVersionMatch` say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever the server's cache holds (`resourceVersion=0`): cheap, but may be older than what was seen elsewhere.
    Any,
    /// At least this version.
    NotOlderThan(ResourceVersion),
    /// The newest, by way of the server's store (no `resourceVersion`).
    MostRecent,
}

/// What is asked of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// How fresh it must be.
    pub freshness: Freshness,
    /// Objects a page; `None` for the whole list in one body.
    pub page: Option<u32>,
}

/// What is asked of a watch.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Events after this version; with `initial_events`, events that make the state at least this fresh.
    pub from: ResourceVersion,
    /// Begin with an event for each object that exists, ended by a bookmark that says so (`sendInitialEvents`).
    pub initial_events: bool,
    /// After how long the server shall end the watch, in whole seconds.
    pub timeout: Duration,
}

/// A part of a list.
#[derive(Debug)]
pub enum ListEvent<K> {
    /// One object.
    Item(Decoded<K>),
    /// The list is complete, and this is its version.
    Complete(ResourceVersion),
}

/// A part of a watch.
#[derive(Debug)]
pub enum WatchEvent<K> {
    /// An object appeared.
    Added(Decoded<K>),
    /// An object changed.
    Modified(Decoded<K>),
    /// An object went; its last state.
    Deleted(Decoded<K>),
    /// Nothing up to this version concerns this watch but what was sent.
    Bookmark(ResourceVersion),
    /// The bookmark after the initial events.
    InitialEventsEnd(ResourceVersion),
}

/// Why a list or a watch failed. The reflector decides by it whether to go on, to begin anew, or to wait.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server said no, or ended the watch with a reason.
    #[error("the API server answered: {0}")]
    Status(Box<Status>),
    /// No answer, or none that could be read.
    #[error("calling the API server: {0}")]
    Call(#[source] Box<kube::Error>),
    /// The connection broke while the body was read.
    #[error("reading the body: {0}")]
    Body(#[source] Box<kube::Error>),
    /// The body is not what it should be.
    #[error("the body can't be read: {0}")]
    Frame(#[from] FrameError),
    /// Nothing came for this long: the connection is taken for dead.
    #[error("nothing came for {0:?}")]
    Idle(Duration),
    /// A list without a version: nothing could be watched from it.
    #[error("the list has no resourceVersion that can be compared")]
    NoVersion,
    /// A list ended without saying that it is complete.
    #[error("the list ended early")]
    Incomplete,
    /// A streamed list went on for this long, which is as long as the server was asked to keep it open, and was not complete.
    #[error("the streamed list was not complete within {0:?}")]
    Endless(Duration),
    /// The API server answered a streamed list with a watch that brings changes only.
    #[error("the API server does not stream lists")]
    NotStreamed,
    /// A watch ended within a second, and brought nothing.
    #[error("the watch ended at once")]
    ShortWatch,
    /// An object was deleted, and the event can't be read so far as to say which.
    #[error("an object that is gone can't be told: {0}")]
    LostDeletion(#[source] DecodeError),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl Error {
    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }
}

/// A list or a watch under way.
pub type Events<T> = BoxStream<'static, Result<T, Error>>;

/// Lists and watches objects of one kind.
///
/// A watch ends when the server ends it, or with one error, after which it yields nothing more. Dropping a stream closes
/// what is behind it.
pub trait ListerWatcher<K: Object>: Send + Sync + 'static {
    /// Begins to list. The stream ends after [`ListEvent::Complete`], or after an error.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Events<ListEvent<K>>, Error>>;

    /// Begins to watch.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events<WatchEvent<K>>, Error>>;

    /// Says which groups of fields the cache keeps; called before the first list or watch.
    fn keep(&self, groups: u64);
}

/// Lists and watches an API server.
pub struct ApiListerWatcher<K> {
    client: kube::Client,
    resource: GroupVersionResource,
    scope: Scope,
    groups: Arc<AtomicU64>,
    /// See [`idle_deadline`](Self::idle_deadline).
    idle: Duration,
    /// A watch of this source has had a bookmark in its course, so that all its watches must have them.
    bookmarked: Arc<AtomicBool>,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// API servers send a bookmark each minute, so that a connection is dead if nothing came for this long.
pub const IDLE_DEADLINE: Duration = Duration::from_secs(3 * 60 + 10);

impl<K: Object> ApiListerWatcher<K> {
    /// Of a resource that is known only at run time; for kinds that name their own see [`Object::resource`].
    ///
    /// `client` must neither limit nor retry: the reflector does both.
    pub fn new(client: kube::Client, resource: GroupVersionResource, scope: Scope) -> Self {
        let groups = Arc::new(AtomicU64::new(0));
        let bookmarked = Arc::new(AtomicBool::new(false));
        let idle = IDLE_DEADLINE;
        Self { client, resource, scope, groups, idle, bookmarked, kind: std::marker::PhantomData }
    }

    /// After how long without a byte a list or watch is given up; [`IDLE_DEADLINE`] unless set. Until a watch of this source
    /// has had a bookmark, its watches get the time that the server was asked to keep them open in addition: kinds that the
    /// server does not cache, such as events, have no bookmarks.
    #[must_use]
    pub fn idle_deadline(mut self, deadline: Duration) -> Self {
        self.idle = deadline;
        self
    }
}

impl<K: Object> ListerWatcher<K> for ApiListerWatcher<K> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Events<ListEvent<K>>, Error>> {
        Box::pin(http::list(self, request))
    }
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events<WatchEvent<K>>, Error>> {
        Box::pin(http::watch(self, request))
    }
    fn keep(&self, groups: u64) {
        self.groups.store(groups, Ordering::Release);
    }
}
