//! ListAndWatch: feeds a delta FIFO with all changes of the objects of one kind.

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

mod outage;
mod policy;
mod progress;
#[cfg(test)]
mod tests;
pub use outage::Outage;
use outage::Pause;
pub use policy::ListMode;
use policy::{After, Lists, Phase, after};
pub(crate) use progress::Pulse;
pub use progress::{LastError, Progress, WatchState};

/// Lists, then watches from the list's version, until it is dropped. The table below says how it retries each failure.
///
/// Its output is in order and complete: every change of an object since the list, or else a new list. It hands on a list
/// item by item. It resumes a broken watch where the watch broke, as long as the server knows that version.
///
/// | Failure | What the reflector does |
/// |---|---|
/// | 429, or an answer with Retry-After | repeats the request after a back-off, and not before that time, up to a minute |
/// | **a watch:** its version is too old (410, `Expired`), 403, 404, 5xx | lists again, at least as fresh as the last version seen, after a back-off |
/// | an event that can't be split off or decoded, a deletion whose object can't be read | the same |
/// | a broken or dead connection | resumes the watch after a back-off |
/// | the watch ends within a second, without an event | the same |
/// | the watch ends later | resumes the watch at once |
/// | **a list:** its version is not available (410, or the server has not reached it) | asks for the most recent list at once; backs off if that fails in the same way |
/// | **a streamed list:** the server refuses it (400, 405, 422, 501), or sends only changes | plain lists, at once and from then on |
/// | it is forbidden, not found or silent, or not complete when the watch should end | plain lists, at once, until one is complete |
/// | any other error except a refused connection | the same, after a back-off |
/// | **a plain list:** any other error, or its early end | lists again after a back-off |
/// | **any:** an object that can't be decoded | hands it on as unreadable, and goes on |
///
/// Reflectors that share an [`Outage`] end their back-offs early when the server is back.
pub struct Reflector<K> {
    source: Arc<dyn ListerWatcher<K>>,
    resource: GroupVersionResource,
    config: Config,
    on_error: Option<WatchErrorHook>,
    pulse: Arc<Pulse>,
}

/// Called with every failed list and watch, before the back-off. If it panics, the reflector logs that and goes on.
pub type WatchErrorHook = Arc<dyn Fn(&GroupVersionResource, &Error) + Send + Sync>;

/// The configuration of a reflector.
#[derive(Clone, Debug)]
pub struct Config {
    /// The reflector asks the server to end each watch after a random time of one to two times this one, so that watches
    /// spread over the servers of a cluster. Default: 5 minutes, as in client-go.
    pub min_watch_timeout: Duration,
    /// Objects per page, where lists are paged. Default: 500, as in client-go.
    pub page: u32,
    /// How the reflector asks for lists, as long as the server supports it. Default: streamed.
    pub mode: ListMode,
    /// The back-off after failures.
    pub backoff: backoff::Config,
    /// What is known of the API server's absence. Clones of a configuration share it: give the reflectors of one API server
    /// clones. Default: nothing is known.
    pub outage: Outage,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            min_watch_timeout: Duration::from_secs(5 * 60),
            page: 500,
            mode: ListMode::Streamed,
            backoff: backoff::Config::default(),
            outage: Outage::default(),
        }
    }
}

/// A watch that ends sooner than this without an event counts as failed.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The state of a reflector. `Listing` becomes `Watching` when the list is complete. A failure leads to `Waiting`, or, if it
/// needs no wait, straight to what `Waiting` leads to: `Listing` or `Watching`.
enum State<K> {
    /// Nothing is known yet, or the watch can't be resumed.
    Listing(Freshness),
    /// The reflector has handed on everything up to `from`. `open` is the watch of a streamed list, which goes on after it.
    Watching { from: ResourceVersion, open: Option<Events<WatchEvent<K>>> },
    /// After a failure.
    Waiting { pause: Pause, then: Resume },
}

/// What to do after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    List(Freshness),
    Watch(ResourceVersion),
}

impl<K: Object> Reflector<K> {
    /// Makes a reflector of `source`. `resource` names the kind in logs.
    pub fn new(source: Arc<dyn ListerWatcher<K>>, resource: GroupVersionResource, config: Config) -> Self {
        Self { source, resource, config, on_error: None, pulse: Arc::default() }
    }

    /// Sets the hook that is called with every failure.
    #[must_use]
    pub fn on_error(mut self, hook: Option<WatchErrorHook>) -> Self {
        self.on_error = hook;
        self
    }

    /// Records in `pulse` how the reflector is doing.
    #[must_use]
    pub(crate) fn pulse(mut self, pulse: Arc<Pulse>) -> Self {
        self.pulse = pulse;
        self
    }

    /// Runs until the consumer of `log` is dropped. Dropping the future stops the reflector at once.
    pub async fn list_and_watch(self, log: Producer<K>) {
        let backoff = Backoff::new(self.config.backoff.clone());
        let mode = self.config.mode;
        let returns = self.config.outage.returns();
        let run =
            Run { reflector: self, log, backoff, returns, mode, usual: mode, seen: ResourceVersion::ANY };
        let Err(Closed) = run.run().await;
    }
}

/// A running reflector.
struct Run<K> {
    reflector: Reflector<K>,
    log: Producer<K>,
    backoff: Backoff,
    /// How often the server had come back when the reflector last failed.
    returns: u64,
    /// How to ask for the next list. Steps down from `usual` when a list fails, and back when one is complete.
    mode: ListMode,
    /// How to ask for lists normally. Steps down only if the server does not support streamed lists.
    usual: ListMode,
    /// The last version that the reflector handed on.
    seen: ResourceVersion,
}

impl<K: Object> Run<K> {
    async fn run(mut self) -> Result<std::convert::Infallible, Closed> {
        let mut state = State::Listing(Freshness::Any);
        loop {
            state = match state {
                State::Listing(freshness) => self.list(freshness).await?,
                State::Watching { from, open } => self.watch(from, open).await?,
                State::Waiting { pause, then } => {
                    self.turns_to(WatchState::BackingOff);
                    self.reflector.config.outage.wait(pause).await;
                    match then {
                        Resume::List(freshness) => State::Listing(freshness),
                        Resume::Watch(from) => State::Watching { from, open: None },
                    }
                }
            };
        }
    }

    async fn list(&mut self, freshness: Freshness) -> Result<State<K>, Closed> {
        self.turns_to(WatchState::Listing);
        self.log.room().await?;
        self.log.put(Delta::ListBegun);
        let listed = match self.mode {
            ListMode::Streamed => self.list_streamed(freshness).await?,
            ListMode::Whole | ListMode::Paged => self.list_plain(freshness).await?,
        };
        Ok(match listed {
            Ok((version, open)) => {
                self.seen = version;
                self.mode = self.usual;
                self.reflector.pulse.listed();
                self.log.room().await?;
                self.log.put(Delta::ListComplete(version));
                State::Watching { from: version, open }
            }
            Err(error) => self.failed(Phase::Listing(freshness), &error),
        })
    }

    /// Lists by a watch that begins with all existing objects and stays open.
    async fn list_streamed(&mut self, freshness: Freshness) -> Result<Listed<K>, Closed> {
        let from = match freshness {
            // The server brings its cache up to date before it streams a list, so any list is the most recent one.
            Freshness::Any | Freshness::MostRecent => ResourceVersion::ANY,
            Freshness::NotOlderThan(version) => version,
        };
        let timeout = self.watch_timeout();
        let request = WatchRequest { from, initial_events: true, timeout };
        let mut events = match self.reflector.source.watch(request).await {
            Ok(events) => events,
            Err(error) => return Ok(Err(error)),
        };
        self.answered();
        let deadline = Instant::now() + timeout;
        loop {
            self.log.room().await?;
            let Ok(event) = tokio::time::timeout_at(deadline, events.next()).await else {
                return Ok(Err(Error::Endless(timeout)));
            };
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.put(Delta::Replaced(object));
                }
                // The object may be one of the list. Only another list can tell.
                Some(Ok(WatchEvent::Deleted(Decoded::Lost(error)))) => {
                    return Ok(Err(Error::LostDeletion(error)));
                }
                // The object was deleted while the list was being streamed.
                Some(Ok(WatchEvent::Deleted(object))) => self.put(Delta::Deleted(object)),
                // If the server supports streamed lists, its first bookmark is the one that ends the list.
                Some(Ok(WatchEvent::Bookmark(_))) => return Ok(Err(Error::NotStreamed)),
                Some(Ok(WatchEvent::InitialEventsEnd(version))) => return Ok(Ok((version, Some(events)))),
                Some(Err(error)) => return Ok(Err(error)),
                None => return Ok(Err(Error::Incomplete)),
            }
        }
    }

    async fn list_plain(&mut self, freshness: Freshness) -> Result<Listed<K>, Closed> {
        // The server ignores the limit where it lists from its cache. It pages where it lists from its store.
        let page = (self.mode == ListMode::Paged || freshness == Freshness::MostRecent)
            .then_some(self.reflector.config.page);
        let mut events = match self.reflector.source.list(ListRequest { freshness, page }).await {
            Ok(events) => events,
            Err(error) => return Ok(Err(error)),
        };
        self.answered();
        loop {
            self.log.room().await?;
            match events.next().await {
                Some(Ok(ListEvent::Item(object))) => self.put(Delta::Replaced(object)),
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
                self.turns_to(WatchState::Opening);
                let request = WatchRequest { from, initial_events: false, timeout: self.watch_timeout() };
                match self.reflector.source.watch(request).await {
                    Ok(events) => {
                        self.answered();
                        events
                    }
                    Err(error) => return Ok(self.failed(Phase::OpeningWatch, &error)),
                }
            }
        };
        self.turns_to(WatchState::Watching);
        let mut count = 0_u64;
        loop {
            self.log.room().await?;
            let Some(event) = events.next().await else { break };
            match event {
                Ok(WatchEvent::Added(object)) => self.change(Delta::Added, object),
                Ok(WatchEvent::Modified(object)) => self.change(Delta::Updated, object),
                // Only a list can tell what is gone.
                Ok(WatchEvent::Deleted(Decoded::Lost(error))) => {
                    return Ok(self.failed(Phase::Watching, &Error::LostDeletion(error)));
                }
                Ok(WatchEvent::Deleted(object)) => self.change(Delta::Deleted, object),
                Ok(WatchEvent::Bookmark(version) | WatchEvent::InitialEventsEnd(version)) => {
                    self.seen = self.seen.max(version);
                    self.reflector.pulse.heard_bookmark();
                    self.log.put(Delta::Bookmark(version));
                }
                Err(error) => {
                    let phase = if count == 0 { Phase::Watching } else { Phase::Watched };
                    return Ok(self.failed(phase, &error));
                }
            }
            count += 1;
        }
        tracing::debug!(resource = %self.reflector.resource, events = count, "Watch close");
        if count == 0 && opened.elapsed() < SHORT_WATCH {
            return Ok(self.failed(Phase::Watching, &Error::ShortWatch));
        }
        Ok(State::Watching { from: self.seen, open: None })
    }

    /// Hands a change on, for which there is room.
    fn change(&mut self, delta: fn(Decoded<K>) -> Delta<K>, object: Decoded<K>) {
        if let Some(object) = object.object() {
            self.seen = self.seen.max(object.meta().resource_version);
        }
        self.put(delta(object));
    }

    /// Hands an object on, for which there is room.
    fn put(&mut self, delta: Delta<K>) {
        if let Delta::Added(object)
        | Delta::Updated(object)
        | Delta::Deleted(object)
        | Delta::Replaced(object) = &delta
        {
            self.reflector.pulse.heard();
            self.report_damage(object);
        }
        self.log.put(delta);
    }

    /// The server has answered. Its return that this may be says nothing about failures that are still to come.
    fn answered(&mut self) {
        self.reflector.config.outage.answered();
        self.returns = self.reflector.config.outage.returns();
    }

    fn turns_to(&self, state: WatchState) {
        self.reflector.pulse.turns_to(state);
    }

    fn report_damage(&self, object: &Decoded<K>) {
        let resource = &self.reflector.resource;
        match object {
            Decoded::Good(_) => {}
            Decoded::Unreadable(object, error) => {
                tracing::error!(%resource, key = %object.meta().key, %error, "Object can't be decoded");
            }
            Decoded::Lost(error) => {
                tracing::error!(%resource, %error, "Object can't be decoded far enough to tell its name")
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
        self.reflector.pulse.failed(error);
        let resource = &self.reflector.resource;
        let (symptom, may_log) = self.reflector.config.outage.failed(error);
        match may_log {
            Some(line) => {
                let others = line.kept_back;
                tracing::warn!(%resource, %error, ?phase, ?resume, ?lists, others, "Failed to list or watch");
            }
            None => tracing::debug!(%resource, %error, ?phase, ?resume, ?lists, "Failed to list or watch"),
        }
        if let Some(hook) = &self.reflector.on_error
            && catch_unwind(AssertUnwindSafe(|| hook(&self.reflector.resource, error))).is_err()
        {
            tracing::error!(resource = %self.reflector.resource, "Watch error hook panicked");
        }
        // The API server was healthy until now. An API server that restarts several times in two minutes would otherwise leave
        // the cache behind for up to a minute, as in client-go.
        if let (Phase::Watched, Resume::Watch(_)) = (phase, resume) {
            self.backoff.reset();
        }
        // The failures before were those of an absent server. They tell nothing about the one that is back.
        let returns = self.reflector.config.outage.returns();
        if returns != std::mem::replace(&mut self.returns, returns) {
            self.backoff.reset();
        }
        let at_least = match wait {
            policy::Wait::None => return resume.into(),
            policy::Wait::Backoff => Duration::ZERO,
            policy::Wait::AtLeast(said) => said,
        };
        let now = Instant::now();
        let (until, earliest) = (now + self.backoff.failed().max(at_least), now + at_least);
        State::Waiting { pause: Pause { symptom, until, earliest }, then: resume }
    }

    fn watch_timeout(&self) -> Duration {
        self.reflector.config.min_watch_timeout.mul_f64(1.0 + rand::rng().random::<f64>())
    }
}

/// A list's version, and, if it was streamed, the watch that goes on after it.
type Listed<K> = Result<(ResourceVersion, Option<Events<WatchEvent<K>>>), Error>;

impl<K> From<Resume> for State<K> {
    fn from(resume: Resume) -> Self {
        match resume {
            Resume::List(freshness) => Self::Listing(freshness),
            Resume::Watch(from) => Self::Watching { from, open: None },
        }
    }
}
