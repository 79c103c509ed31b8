//! Acquires leadership.

use std::{future::Future, sync::Arc};

use jiff::Timestamp;
use tokio::{
    select,
    sync::{Mutex, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Config, ConfigError, Metrics, Term,
    decide::{self, Observed, Path, Reason, Step, Trust},
    lease::{self, LeaseLock},
    lease_watch::{Event, LeaseWatch},
};
use crate::{events::Recorder, fence};

/// A candidate in a leader election, which can lead for any number of terms.
///
/// There is one term at a time: [`acquire`](Self::acquire) waits while a [`Term`] of this elector exists.
pub struct Elector {
    shared: Arc<Shared>,
    candidate: Arc<Mutex<Candidate>>,
    fence: fence::Fence,
}

/// The state that the candidate, its term and observers share.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    leader: watch::Sender<Option<Arc<str>>>,
}

/// The state for calls: used by [`Elector::acquire`] between terms, and by the renewal task during a term.
pub(super) struct Candidate {
    shared: Arc<Shared>,
    lock: LeaseLock,
    observed: Observed,
    keeper: fence::Keeper,
}

/// The outcome of a try that did not fail.
#[derive(Debug)]
pub(super) enum Tried {
    /// The lease is ours. The write began at `since`.
    Ours { since: Instant },
    /// The lease is not ours, and the try did not write it.
    NotOurs(Why),
}

/// Why a try did not write the lease.
#[derive(Debug, thiserror::Error)]
pub(super) enum Why {
    #[error(transparent)]
    Rule(#[from] Reason),
    #[error("the lease is gone, free or expired")]
    Free,
    #[error("stopping")]
    Stopping,
}

/// The purpose of a try.
pub(super) enum Aim<'a> {
    /// To lead. Cancelling the token ends reads early. It does not end writes, whose outcome would stay unknown.
    Win(&'a CancellationToken),
    /// To continue to lead. Does not take or create the lease, since another candidate may have led in between.
    Keep,
}

impl Elector {
    /// Creates a candidate. `client` must have no gate, no rate limit and no retries; see
    /// [`Clients::lease_client`](crate::clients::Clients::lease_client).
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(
        config: Config,
        client: kube::Client,
        recorder: Recorder,
        metrics: Metrics,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        metrics.following(&config.name);
        let (keeper, fence) = fence::Keeper::new();
        let lock = LeaseLock::new(client, &config);
        let shared = Arc::new(Shared { config, recorder, metrics, leader: watch::channel(None).0 });
        let candidate = Candidate { shared: shared.clone(), lock, observed: Observed::nothing(), keeper };
        Ok(Self { shared, candidate: Arc::new(Mutex::new(candidate)), fence })
    }

    /// The gate for the clients of all parts that may write only while this process leads.
    pub fn fence(&self) -> fence::Fence {
        self.fence.clone()
    }

    /// The identity of the leader that this candidate last saw: `None` before the first read, and while the lease is
    /// free.
    pub fn leader(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.shared.leader.subscribe()
    }

    /// Our own identity.
    pub fn identity(&self) -> &str {
        &self.shared.config.identity
    }

    /// Waits until this process leads. Returns `None` if `stop` is cancelled, and releases a lease won at that
    /// moment.
    ///
    /// To give up, cancel `stop` instead of dropping the future: a dropped write may leave the lease taken.
    pub async fn acquire(&self, stop: &CancellationToken) -> Option<Term> {
        let mut candidate = select! {
            biased;
            () = stop.cancelled() => return None,
            candidate = self.candidate.clone().lock_owned() => candidate,
        };
        let config = &self.shared.config;
        tracing::info!(lease = config.name, identity = config.identity, "Attempting to acquire leader lease");
        let mut watch = LeaseWatch::new(candidate.lock.api(), config);
        loop {
            match candidate.attempt(Aim::Win(stop)).await {
                Ok(Tried::Ours { .. }) if stop.is_cancelled() => {
                    candidate.release().await;
                    return None;
                }
                Ok(Tried::Ours { since }) => {
                    if let Some(opening) = candidate.keeper.open(since + config.renew_deadline) {
                        return Some(Term::begin(self.shared.clone(), candidate, opening));
                    }
                    // The write took so long that the term is over already: try again.
                    continue;
                }
                Ok(Tried::NotOurs(why)) => {
                    tracing::debug!(lease = config.name, %why, "Failed to acquire lease");
                }
                Err(error) => tracing::warn!(lease = config.name, %error, "Failed to acquire lease"),
            }
            select! {
                biased;
                () = stop.cancelled() => return None,
                () = candidate.wait(&mut watch) => {}
            }
        }
    }

    /// Acquires leadership and leads, again and again, until `stop` is cancelled.
    ///
    /// Runs `lead` during each term, with a token that is cancelled when the term is lost or `stop` is cancelled.
    /// `lead` must then end soon. The lease is renewed until `lead` has ended, and then released. If `lead` ends by
    /// itself, the elector releases the lease and tries to lead again after a retry period.
    pub async fn run<W: Future<Output = ()>>(
        &self,
        stop: CancellationToken,
        mut lead: impl FnMut(CancellationToken) -> W,
    ) {
        while let Some(term) = self.acquire(&stop).await {
            let leading = stop.child_token();
            {
                let mut work = std::pin::pin!(lead(leading.clone()));
                select! {
                    biased;
                    () = term.lost() => {
                        leading.cancel();
                        work.await;
                    }
                    () = &mut work => {}
                }
            }
            term.release().await;
            select! {
                () = stop.cancelled() => {}
                () = sleep(self.shared.config.jittered_retry_period()) => {}
            }
        }
    }
}

impl Candidate {
    /// Makes one try, with up to three calls: a fast renewal that fails, a read and a write.
    pub(super) async fn attempt(&mut self, aim: Aim<'_>) -> Result<Tried, lease::Error> {
        let outcome = self.try_once(aim).await;
        self.shared.saw_leader(self.observed.spec().and_then(decide::holder));
        outcome
    }

    async fn try_once(&mut self, aim: Aim<'_>) -> Result<Tried, lease::Error> {
        self.observed.age();
        let shared = self.shared.clone();
        let config = &shared.config;
        // As upstream, the whole try uses one `now`: expiry is judged at the time before the read.
        let begun = Instant::now();
        loop {
            let step = decide::decide(config, &self.observed, begun);
            let old = self.observed.spec().cloned().unwrap_or_default();
            let (started, stamp) = (Instant::now(), Timestamp::now());
            let written = match (&step, &aim) {
                (Step::Stand(reason), _) => return Ok(Tried::NotOurs(reason.clone().into())),
                (Step::Read, _) => {
                    let found = match &aim {
                        Aim::Win(stop) => select! {
                            biased;
                            () = stop.cancelled() => return Ok(Tried::NotOurs(Why::Stopping)),
                            found = self.lock.get() => found?,
                        },
                        Aim::Keep => self.lock.get().await?,
                    };
                    self.observed.read(found, Instant::now());
                    continue;
                }
                (Step::Create | Step::TakeOver, Aim::Keep) => return Ok(Tried::NotOurs(Why::Free)),
                (Step::Create, Aim::Win(_)) => self.lock.create(decide::created(config, stamp)).await,
                (Step::TakeOver, Aim::Win(_)) => self.lock.update(decide::taken(config, &old, stamp)).await,
                (Step::Renew(_), _) => self.lock.update(decide::renewed(config, &old, stamp)).await,
            };
            if step == Step::Renew(Path::Slow) {
                shared.metrics.slow_path(&config.name);
            }
            match written {
                Ok(spec) => {
                    self.observed.wrote(spec, started);
                    return Ok(Tried::Ours { since: started });
                }
                Err(error) => {
                    self.observed.trust = Trust::Doubtful;
                    if step != Step::Renew(Path::Fast) {
                        return Err(error);
                    }
                    tracing::info!(lease = config.name, %error, "Falling back to the slow path");
                }
            }
        }
    }

    /// Waits until the next try is due: when the watch shows a lease that may be ours, when the lease expires, or when the
    /// candidate has heard of nothing for too long.
    async fn wait(&mut self, watch: &mut LeaseWatch) {
        let shared = self.shared.clone();
        let config = &shared.config;
        watch.check(self.lock.version());
        let (mut heard, jittered) = (Instant::now(), config.jittered_retry_period());
        loop {
            watch.open(self.lock.version());
            let due = decide::next_try(config, &self.observed, watch.source(), jittered, heard);
            let event = select! {
                biased;
                () = sleep_until(due) => return,
                event = watch.next() => event,
            };
            match event {
                Event::Deleted => return,
                Event::Closed => continue,
                Event::Lease(lease) => {
                    heard = Instant::now();
                    let Some(spec) = self.lock.shown(*lease) else { continue };
                    self.observed.read(Some(spec), heard);
                }
            }
            shared.saw_leader(self.observed.spec().and_then(decide::holder));
            if decide::calls_for_a_try(config, &self.observed, heard) {
                return;
            }
        }
    }

    /// Releases the lease if it is ours. The caller must have stopped everything that only a leader may do.
    pub(super) async fn release(&mut self) {
        let shared = self.shared.clone();
        let config = &shared.config;
        match timeout(config.renew_deadline, self.release_if_ours()).await {
            Ok(Ok(())) => tracing::info!(lease = config.name, "Released lease"),
            Ok(Err(error)) => tracing::warn!(lease = config.name, %error, "Failed to release lease"),
            Err(_) => tracing::warn!(lease = config.name, "Failed to release lease: no answer in time"),
        }
        shared.saw_leader(self.observed.spec().and_then(decide::holder));
    }

    async fn release_if_ours(&mut self) -> Result<(), lease::Error> {
        loop {
            self.observed.trust = Trust::Doubtful;
            let found = self.lock.get().await?;
            self.observed.read(found, Instant::now());
            let Some(old) = self.observed.spec().filter(|spec| decide::ours(&self.shared.config, spec))
            else {
                return Ok(());
            };
            let spec = decide::released(old, Timestamp::now());
            match self.lock.update(spec).await {
                Ok(spec) => {
                    self.observed.wrote(spec, Instant::now());
                    return Ok(());
                }
                // An abandoned renewal reached the server after the read.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn reference(&self) -> k8s_openapi::api::core::v1::ObjectReference {
        self.lock.reference()
    }
}

impl Shared {
    fn saw_leader(&self, holder: Option<&str>) {
        let changed = self.leader.send_if_modified(|leader| {
            let changed = leader.as_deref() != holder;
            if changed {
                *leader = holder.map(Arc::from);
            }
            changed
        });
        if let (true, Some(leader)) = (changed, holder) {
            tracing::info!(lease = self.config.name, leader, "New leader elected");
        }
    }
}
