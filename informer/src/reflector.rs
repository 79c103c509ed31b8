//! ListAndWatch: keeps a delta FIFO fed with all that happens to the objects of one kind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rand::Rng;
use steersman_api::{GroupVersionResource, ResourceVersion};
use tokio::time::Instant;

use crate::backoff::{self, Backoff};
use crate::delta_fifo::{Closed, Delta, Producer};
use crate::list_watch::{
    Error, Events, Freshness, ListEvent, ListRequest, ListerWatcher, WatchEvent, WatchRequest,
};
use crate::wire::{Decoded, Object};

mod policy;
#[cfg(test)]
mod tests;
pub use policy::ListMode;
use policy::{After, Lists, Phase, after};

/// Lists, then watches from there, for ever; whatever fails is tried again in the way that fits the failure.
///
/// What comes out is in order and complete: every change of an object since the list, or else a new list. What a list
/// brings is handed on item by item. A watch that breaks is resumed where it broke, as long as the server knows that
/// version.
///
/// | What happens | What follows |
/// |---|---|
/// | 429, or an answer with Retry-After | the same again, after a back-off, and not before the time it says, up to a minute |
/// | **to a watch:** its version is too old (410, `Expired`), 403, 404, 5xx | a new list, no older than what was seen, after a back-off |
/// | an event that can't be split off or told, a deletion of nobody knows what | likewise |
/// | a broken or dead connection | the watch from where it broke, after a back-off |
/// | a watch that ends within a second, without an event | likewise |
/// | a watch that ends later | the watch from there, at once |
/// | **to a list:** its version can't be had (410, or the server has not come as far) | the most recent list, at once; if that fails so too, a back-off |
/// | **to a streamed list:** the server refuses it (400, 405, 422, 501), or sends only changes | plain lists, at once and for good |
/// | it is forbidden or not found, silent, or not complete when the watch should end | plain lists, at once, until one is complete |
/// | any other error, but for a refused connection | likewise, after a back-off |
/// | **to a plain list:** any other error, or its early end | the list again, after a back-off |
/// | **to all:** an object that can't be decoded | it is handed on as such; what else comes goes on |
pub struct Reflector<K> {
    source: Arc<dyn ListerWatcher<K>>,
    resource: GroupVersionResource,
    config: Config,
    on_error: Option<WatchErrorHook>,
}

/// Called with every failed list and watch, before the back-off. A panic of it is logged, and harms nothing.
pub type WatchErrorHook = Arc<dyn Fn(&GroupVersionResource, &Error) + Send + Sync>;

/// How a reflector goes about it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server is asked to end each watch after this long to twice as long, at random, so that watches spread over
    /// the servers of a cluster. 5 minutes, as client-go's.
    pub min_watch_timeout: Duration,
    /// Objects a page, where lists are paged. 500, as client-go's.
    pub page: u32,
    /// How lists are asked for, as long as the server answers that.
    pub mode: ListMode,
    /// How long a failure waits.
    pub backoff: backoff::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            min_watch_timeout: Duration::from_secs(5 * 60),
            page: 500,
            mode: ListMode::Streamed,
            backoff: backoff::Config::default(),
        }
    }
}

/// A watch that brings nothing and ends sooner than this is taken for a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Where it stands. `Listing` is left for `Watching` when a list is complete; any failure leads to `Waiting`, which
/// leads back to either.
enum State<K> {
    /// Nothing is known, or what is known is too old.
    Listing(Freshness),
    /// Everything up to `from` was handed on. `open` is the watch that a streamed list goes over into.
    Watching { from: ResourceVersion, open: Option<Events<WatchEvent<K>>> },
    /// After a failure.
    Waiting { until: Instant, then: Resume },
}

/// Where to go on after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    List(Freshness),
    Watch(ResourceVersion),
}

impl<K: Object> Reflector<K> {
    /// Reflects what `source` has; `resource` is what messages call it.
    pub fn new(source: Arc<dyn ListerWatcher<K>>, resource: GroupVersionResource, config: Config) -> Self {
        Self { source, resource, config, on_error: None }
    }

    /// Has every failure told to `hook`.
    #[must_use]
    pub fn on_error(mut self, hook: Option<WatchErrorHook>) -> Self {
        self.on_error = hook;
        self
    }

    /// Runs until the consumer of `log` is gone. Dropping the future stops it at once.
    pub async fn list_and_watch(self, log: Producer<K>) {
        let backoff = Backoff::new(self.config.backoff.clone());
        let mode = self.config.mode;
        let run = Run { reflector: self, log, backoff, mode, usual: mode, seen: ResourceVersion::ANY };
        let Err(Closed) = run.run().await;
    }
}

/// A reflector at work.
struct Run<K> {
    reflector: Reflector<K>,
    log: Producer<K>,
    backoff: Backoff,
    /// How the next list is asked for. Steps down from `usual` when a list fails, and back up when one is complete.
    mode: ListMode,
    /// How lists are asked for as a rule. Steps down only where the server does not know of streamed lists.
    usual: ListMode,
    /// The last version that was handed on.
    seen: ResourceVersion,
}

impl<K: Object> Run<K> {
    async fn run(mut self) -> Result<std::convert::Infallible, Closed> {
        let mut state = State::Listing(Freshness::Any);
        loop {
            state = match state {
                State::Listing(freshness) => self.list(freshness).await?,
                State::Watching { from, open } => self.watch(from, open).await?,
                State::Waiting { until, then } => {
                    tokio::time::sleep_until(until).await;
                    match then {
                        Resume::List(freshness) => State::Listing(freshness),
                        Resume::Watch(from) => State::Watching { from, open: None },
                    }
                }
            };
        }
    }

    async fn list(&mut self, freshness: Freshness) -> Result<State<K>, Closed> {
        self.log.push(Delta::ListBegun).await?;
        let listed = match self.mode {
            ListMode::Streamed => self.list_streamed(freshness).await?,
            ListMode::Whole | ListMode::Paged => self.list_plain(freshness).await?,
        };
        Ok(match listed {
            Ok((version, open)) => {
                self.seen = version;
                self.mode = self.usual;
                self.log.push(Delta::ListComplete(version)).await?;
                State::Watching { from: version, open }
            }
            Err(error) => self.failed(Phase::Listing(freshness), &error),
        })
    }

    /// A watch that begins with what exists, and stays open.
    async fn list_streamed(&mut self, freshness: Freshness) -> Result<Listed<K>, Closed> {
        let from = match freshness {
            // Streamed lists come from the server's cache, brought up to date: any is as good as the most recent.
            Freshness::Any | Freshness::MostRecent => ResourceVersion::ANY,
            Freshness::NotOlderThan(version) => version,
        };
        let timeout = self.watch_timeout();
        let request = WatchRequest { from, initial_events: true, timeout };
        let mut events = match self.reflector.source.watch(request).await {
            Ok(events) => events,
            Err(error) => return Ok(Err(error)),
        };
        let deadline = Instant::now() + timeout;
        loop {
            let Ok(event) = tokio::time::timeout_at(deadline, events.next()).await else {
                return Ok(Err(Error::Endless(timeout)));
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.push(Delta::Replaced(object)).await?;
                }
                // The list may have named the object: only another one can tell.
                Some(Ok(WatchEvent::Deleted(Decoded::Lost(error)))) => {
                    return Ok(Err(Error::LostDeletion(error)));
                }
                // The object went while the list was on its way.
                Some(Ok(WatchEvent::Deleted(object))) => self.push(Delta::Deleted(object)).await?,
                // The first bookmark of a server that knows of streamed lists is the one that ends them.
                Some(Ok(WatchEvent::Bookmark(_))) => return Ok(Err(Error::NotStreamed)),
                Some(Ok(WatchEvent::InitialEventsEnd(version))) => return Ok(Ok((version, Some(events)))),
                Some(Err(error)) => return Ok(Err(error)),
                None => return Ok(Err(Error::Incomplete)),
            }
        }
    }

    async fn list_plain(&mut self, freshness: Freshness) -> Result<Listed<K>, Closed> {
        // A server that lists from its cache ignores the limit, and pages from its store.
        let page = (self.mode == ListMode::Paged || freshness == Freshness::MostRecent)
            .then_some(self.reflector.config.page);
        let mut events = match self.reflector.source.list(ListRequest { freshness, page }).await {
            Ok(events) => events,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            match events.next().await {
                Some(Ok(ListEvent::Item(object))) => self.push(Delta::Replaced(object)).await?,
                Some(Ok(ListEvent::Complete(version))) => return Ok(Ok((version, None))),
                Some(Err(error)) => return Ok(Err(error)),
                None => return Ok(Err(Error::Incomplete)),
            }
        }
    }

    async fn watch(
        &mut self,
        from: ResourceVersion,
        open: Option<Events<WatchEvent<K>>>,
    ) -> Result<State<K>, Closed> {
        let opened = Instant::now();
        let mut events = match open {
            Some(events) => events,
            None => {
                let request = WatchRequest { from, initial_events: false, timeout: self.watch_timeout() };
                match self.reflector.source.watch(request).await {
                    Ok(events) => events,
                    Err(error) => return Ok(self.failed(Phase::OpeningWatch, &error)),
                }
            }
        };
        let mut count = 0_u64;
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(object)) => self.change(Delta::Added, object).await?,
                Ok(WatchEvent::Modified(object)) => self.change(Delta::Updated, object).await?,
                // Only a list can tell what is gone.
                Ok(WatchEvent::Deleted(Decoded::Lost(error))) => {
                    return Ok(self.failed(Phase::Watching, &Error::LostDeletion(error)));
                }
                Ok(WatchEvent::Deleted(object)) => self.change(Delta::Deleted, object).await?,
                Ok(WatchEvent::Bookmark(version) | WatchEvent::InitialEventsEnd(version)) => {
                    self.seen = self.seen.max(version);
                    self.log.push(Delta::Bookmark(version)).await?;
                }
                Err(error) => return Ok(self.failed(Phase::Watching, &error)),
            }
            count += 1;
        }
        tracing::debug!(resource = %self.reflector.resource, events = count, "watch ended");
        if count == 0 && opened.elapsed() < SHORT_WATCH {
            return Ok(self.failed(Phase::Watching, &Error::ShortWatch));
        }
        Ok(State::Watching { from: self.seen, open: None })
    }

    async fn change(&mut self, delta: fn(Decoded<K>) -> Delta<K>, object: Decoded<K>) -> Result<(), Closed> {
        if let Some(object) = object.object() {
            self.seen = self.seen.max(object.meta().resource_version);
        }
        self.push(delta(object)).await
    }

    async fn push(&mut self, delta: Delta<K>) -> Result<(), Closed> {
        if let Delta::Added(object)
        | Delta::Updated(object)
        | Delta::Deleted(object)
        | Delta::Replaced(object) = &delta
        {
            self.report_damage(object);
        }
        self.log.push(delta).await
    }

    fn report_damage(&self, object: &Decoded<K>) {
        let resource = &self.reflector.resource;
        match object {
            Decoded::Good(_) => {}
            Decoded::Unreadable(object, error) => {
                tracing::error!(%resource, key = %object.meta().key, %error, "object can't be read");
            }
            Decoded::Lost(error) => {
                tracing::error!(%resource, %error, "an object can't be told from its bytes")
            }
        }
    }

    fn failed(&mut self, phase: Phase, error: &Error) -> State<K> {
        let After { resume, lists, wait } = after(phase, self.mode, self.seen, error);
        match lists {
            Lists::AsBefore => {}
            Lists::WholeOnce => self.mode = ListMode::Whole,
            Lists::WholeForGood => (self.mode, self.usual) = (ListMode::Whole, ListMode::Whole),
        }
        tracing::warn!(resource = %self.reflector.resource, %error, ?phase, ?resume, ?lists, "list or watch failed");
        if let Some(hook) = &self.reflector.on_error
            && catch_unwind(AssertUnwindSafe(|| hook(&self.reflector.resource, error))).is_err()
        {
            tracing::error!(resource = %self.reflector.resource, "a hook for watch errors panicked");
        }
        let delay = match wait {
            policy::Wait::None => return resume.into(),
            policy::Wait::Backoff => self.backoff.failed(),
            policy::Wait::AtLeast(said) => self.backoff.failed().max(said),
        };
        State::Waiting { until: Instant::now() + delay, then: resume }
    }

    fn watch_timeout(&self) -> Duration {
        self.reflector.config.min_watch_timeout.mul_f64(1.0 + rand::rng().random::<f64>())
    }
}

/// A list's version, and the watch that it goes over into if it was streamed.
type Listed<K> = Result<(ResourceVersion, Option<Events<WatchEvent<K>>>), Error>;

impl<K> From<Resume> for State<K> {
    fn from(resume: Resume) -> Self {
        match resume {
            Resume::List(freshness) => Self::Listing(freshness),
            Resume::Watch(from) => Self::Watching { from, open: None },
        }
    }
}
