//! The watch by which a candidate learns of changes of the Lease at once.

use std::{future::pending, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use steersman_api::ResourceVersion;
use tokio::time::Instant;

use super::{Config, decide::Source, lease};

/// Maximum pause before the watch is opened again, and the pause after the API server has forbidden it.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Watches one Lease while a candidate waits: one watch of one object, by a field selector.
///
/// The watch only saves time. It may fail, stall or be forbidden, and then the candidate's polls do without it. What it
/// shows may be old: a candidate reads the Lease before it takes it.
pub(super) struct LeaseWatch {
    api: Api<Lease>,
    params: WatchParams,
    /// The pause after the first opening that showed nothing new.
    first_pause: Duration,
    state: State,
    /// The newest version that the candidate knew when it opened the watch, or that the watch has shown since.
    newest: ResourceVersion,
    /// The number of openings since the watch last showed something new.
    fruitless: u32,
}

type Events = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

enum State {
    /// The next [`open`](LeaseWatch::open) from `until` on opens the watch.
    Closed { until: Instant },
    /// The API server has not answered yet. Its answer opens or closes the watch.
    Opening(BoxFuture<'static, kube::Result<Events>>),
    /// The end of the stream or an error closes the watch.
    Open(Events),
}

/// What the watch tells.
#[derive(Debug)]
pub(super) enum Event {
    /// The Lease exists, in this form.
    Lease(Box<Lease>),
    /// The Lease was deleted.
    Deleted,
    /// The watch has just closed.
    Closed,
}

impl LeaseWatch {
    /// Creates a watch of the Lease of `config`. It is closed, and its pause is over.
    pub(super) fn new(api: Api<Lease>, config: &Config) -> Self {
        let selector = format!("metadata.name={}", config.name);
        Self {
            api,
            params: WatchParams { bookmarks: false, ..WatchParams::default() }.fields(&selector),
            first_pause: config.retry_period,
            state: State::Closed { until: Instant::now() },
            newest: ResourceVersion::ANY,
            fruitless: 0,
        }
    }

    /// How the candidate learns of changes now.
    pub(super) fn source(&self) -> Source {
        match self.state {
            State::Closed { .. } | State::Opening(_) => Source::Polls,
            State::Open(_) => Source::Watch,
        }
    }

    /// Opens the watch if it is closed and its pause is over. `known` is the version that the candidate knows.
    pub(super) fn open(&mut self, known: ResourceVersion) {
        let State::Closed { until } = self.state else { return };
        if Instant::now() < until {
            return;
        }
        self.newest = self.newest.max(known);
        self.fruitless = self.fruitless.saturating_add(1);
        let (api, params) = (self.api.clone(), self.params.clone());
        // From any version: a version that the candidate knows may be too old for the API server's history, since nobody
        // renews the Lease of a leader that is gone.
        let opening = async move { api.watch(&params, "0").await.map(StreamExt::boxed) };
        self.state = State::Opening(Box::pin(opening));
    }

    /// Closes the watch if it has not shown `known`, a version that the candidate has read: it stalls.
    pub(super) fn check(&mut self, known: ResourceVersion) {
        if self.newest < known && !matches!(self.state, State::Closed { .. }) {
            tracing::debug!("Watch of the lease stalls");
            self.close();
        }
    }

    /// Waits for the next event, for ever if the watch is closed. Dropping the future loses no event.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match &mut self.state {
                State::Closed { .. } => return pending().await,
                State::Opening(opening) => match opening.await {
                    Ok(events) => self.state = State::Open(events),
                    Err(error) => return self.fail(&error),
                },
                State::Open(events) => match events.next().await {
                    Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                        self.shows(lease::version(&lease.metadata));
                        return Event::Lease(Box::new(lease));
                    }
                    Some(Ok(WatchEvent::Deleted(lease))) => {
                        self.shows(lease::version(&lease.metadata));
                        return Event::Deleted;
                    }
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    Some(Ok(WatchEvent::Error(status))) => return self.fail(&kube::Error::Api(status)),
                    Some(Err(error)) => return self.fail(&error),
                    None => {
                        self.close();
                        return Event::Closed;
                    }
                },
            }
        }
    }

    fn shows(&mut self, version: ResourceVersion) {
        if version > self.newest {
            (self.newest, self.fruitless) = (version, 0);
        }
    }

    fn fail(&mut self, error: &kube::Error) -> Event {
        tracing::debug!(%error, "Failed to watch the lease");
        self.close();
        if matches!(error, kube::Error::Api(status) if status.is_forbidden()) {
            self.state = State::Closed { until: Instant::now() + LONGEST_PAUSE };
        }
        Event::Closed
    }

    fn close(&mut self) {
        self.state = State::Closed { until: Instant::now() + self.pause() };
    }

    /// No pause after a watch that showed something new. Each opening that did not doubles it.
    fn pause(&self) -> Duration {
        match self.fruitless.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                self.first_pause.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE)
            }
        }
    }
}
