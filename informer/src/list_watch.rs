//! The source of a reflector's objects: lists and watches.

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

/// Selects objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace. Empty for all namespaces, and for cluster-scoped kinds.
    pub namespace: ArcStr,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields. The API server decides which fields it can select by.
    pub fields: FieldSelector,
}

/// How fresh a list must be: the API's `resourceVersion` and `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever the server's cache holds (`resourceVersion=0`). Cheap, but may be older than what another server showed.
    Any,
    /// At least this version.
    NotOlderThan(ResourceVersion),
    /// The newest state, from the server's store (no `resourceVersion`).
    MostRecent,
}

/// A request for a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// How fresh the list must be.
    pub freshness: Freshness,
    /// Objects per page. `None` for the whole list in one body.
    pub page: Option<u32>,
}

/// A request for a watch.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// The watch brings events after this version. With `initial_events`, the state that it begins with is at least this fresh.
    pub from: ResourceVersion,
    /// Begin with an event for each object that exists, followed by a bookmark that marks their end (`sendInitialEvents`).
    pub initial_events: bool,
    /// The server ends the watch after this time. Sent in whole seconds.
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
    /// An object was deleted; its last state.
    Deleted(Decoded<K>),
    /// The watch has sent all events up to this version.
    Bookmark(ResourceVersion),
    /// The bookmark after the initial events.
    InitialEventsEnd(ResourceVersion),
}

/// A list or a watch failed. The reflector decides by the error whether to resume, to list again, or to back off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused the request, or ended the watch with a Status.
    #[error("the API server answered: {0}")]
    Status(Box<Status>),
    /// The request failed without an answer, or the answer could not be read.
    #[error("calling the API server: {0}")]
    Call(#[source] Box<kube::Error>),
    /// The connection broke while the body was read.
    #[error("reading the body: {0}")]
    Body(#[source] Box<kube::Error>),
    /// The body is malformed.
    #[error("the body can't be read: {0}")]
    Frame(#[from] FrameError),
    /// The server sent nothing for this long, so the connection counts as dead.
    #[error("the API server sent nothing for {0:?}")]
    Idle(Duration),
    /// The list has no version from which it could be watched.
    #[error("the list has no resourceVersion that can be compared")]
    NoVersion,
    /// The list ended before it was complete.
    #[error("the list ended early")]
    Incomplete,
    /// A streamed list was not complete after this time, which is the time that the server was asked to keep the watch open.
    #[error("the streamed list was not complete within {0:?}")]
    Endless(Duration),
    /// The API server answered a streamed list with a watch that brings changes only.
    #[error("the API server does not stream lists")]
    NotStreamed,
    /// The watch ended within a second without an event.
    #[error("the watch ended at once")]
    ShortWatch,
    /// An object was deleted, but the event can't be read far enough to tell which.
    #[error("an object was deleted, but its event can't be read: {0}")]
    LostDeletion(#[source] DecodeError),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl Error {
    /// The Status that the API server answered with, if it did.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The sort of failure in one word, for a label of a metric.
    pub fn sort(&self) -> &'static str {
        match self {
            Self::Call(_) | Self::Body(_) | Self::Frame(FrameError::Truncated) => "connection",
            Self::Status(status) if status.is_expired() => "expired",
            Self::Status(status) => match status.code {
                401 => "unauthorized",
                403 => "forbidden",
                429 => "throttled",
                500.. => "server_error",
                _ => "refused",
            },
            Self::Idle(_) => "stalled",
            Self::Incomplete | Self::Endless(_) | Self::NotStreamed | Self::ShortWatch => "ended",
            Self::Frame(_) | Self::NoVersion | Self::LostDeletion(_) => "unreadable",
        }
    }
}

/// The stream of a list or a watch.
pub type Events<T> = BoxStream<'static, Result<T, Error>>;

/// Lists and watches objects of one kind.
///
/// A watch ends when the server ends it, or after one error. Dropping a stream closes its connection.
pub trait ListerWatcher<K: Object>: Send + Sync + 'static {
    /// Requests a list. The stream ends after [`ListEvent::Complete`], or after an error.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Events<ListEvent<K>>, Error>>;

    /// Requests a watch.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events<WatchEvent<K>>, Error>>;

    /// Sets the groups of fields that the cache keeps. The informer calls it before the first list or watch.
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
    /// A watch of this source has sent a bookmark after its initial events, so all its watches must send bookmarks.
    bookmarked: Arc<AtomicBool>,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// The default idle deadline. API servers send a bookmark each minute (cacher.go: `defaultBookmarkFrequency`), so a watch that
/// was silent for a minute and a half has stalled, even if its connection answers pings: a proxy in between may answer them. To
/// resume a watch without need is one cheap request.
pub const IDLE_DEADLINE: Duration = Duration::from_secs(90);

impl<K: Object> ApiListerWatcher<K> {
    /// Makes a source for one resource. Kinds that are declared in code name theirs: see [`Object::resource`].
    ///
    /// `client` must neither limit nor retry requests: the reflector backs off by itself.
    pub fn new(client: kube::Client, resource: GroupVersionResource, scope: Scope) -> Self {
        let groups = Arc::new(AtomicU64::new(0));
        let bookmarked = Arc::new(AtomicBool::new(false));
        let idle = IDLE_DEADLINE;
        Self { client, resource, scope, groups, idle, bookmarked, kind: std::marker::PhantomData }
    }

    /// Sets how long a list or watch may be without a byte before it fails. Default: [`IDLE_DEADLINE`]. Until a watch of this
    /// source has had a bookmark, watches may be silent for the time that the server keeps them open as well: kinds that the
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
