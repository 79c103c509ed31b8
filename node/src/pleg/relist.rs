//! The loop that lists and inspects.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use super::RuntimeError;
use super::cache::{StatusCache, StatusReader};
use super::event::PodLifecycleEvent;
use super::generic::{Generic, Inspection, Listed};
use super::health::{Health, Unhealthy};
use super::metrics::Metrics;
use crate::container::{PodStatus, RuntimePod};

/// The most requests to list one pod that wait, and the most of such lists under way: a runtime may tell of events of any number
/// of pods. More requests are dropped, since the next list of all pods serves them.
const REQUEST_CAPACITY: usize = 200;

/// What the generator needs of a runtime.
///
/// Calls are made side by side, of [`pod_status`](Self::pod_status) as many as pods changed.
#[async_trait]
pub trait PodLister: Send + Sync + 'static {
    /// All pods of which the runtime has a sandbox or container, ended ones too.
    ///
    /// # Errors
    /// If the runtime cannot be asked; it is tried again a period later.
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError>;

    /// One of them, or none where the runtime has nothing of it.
    ///
    /// # Errors
    /// If the runtime cannot be asked; the next list of all pods serves instead.
    async fn pod(&self, uid: &Uid) -> Result<Option<RuntimePod>, RuntimeError>;

    /// All that the runtime tells of the pod's containers and sandboxes. Those that went since they were listed are left
    /// out.
    ///
    /// # Errors
    /// If anything of the pod cannot be asked for; it is tried again at the next list.
    async fn pod_status(&self, pod: &RuntimePod) -> Result<PodStatus, RuntimeError>;
}

/// How the generator runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// From the end of one list to the next. Default 1 s, as the kubelet's.
    pub period: Duration,
    /// How long after the begin of the last good list the generator counts as unwell. Default 3 min, as the kubelet's.
    pub threshold: Duration,
    /// How long one inspection may take before it counts as failed. Default 2 min, the kubelet's `runtimeRequestTimeout`.
    pub inspect_timeout: Duration,
    /// Events that may wait to be taken; more are dropped and counted. Default 1,000, as the kubelet's.
    pub event_capacity: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            threshold: Duration::from_secs(180),
            inspect_timeout: Duration::from_secs(120),
            event_capacity: 1000,
        }
    }
}

/// An inspection took longer than [`Config::inspect_timeout`].
#[derive(Debug, thiserror::Error)]
#[error("the runtime did not answer within {0:?}")]
struct TimedOut(Duration);

/// The generator, not yet running.
pub struct Pleg {
    lister: Arc<dyn PodLister>,
    config: Config,
    core: Generic,
    metrics: Metrics,
    health: Health,
    events: mpsc::Sender<PodLifecycleEvent>,
    requests: mpsc::Receiver<Request>,
    reinspect: Arc<Mutex<HashSet<Uid>>>,
    /// All calls under way.
    calls: FuturesUnordered<BoxFuture<'static, Done>>,
    /// When the list of all pods under way began.
    listing: Option<Instant>,
    /// When the last good list of all pods began.
    listed_at: Option<Instant>,
    /// Pods of which a list is under way, and whether another one was asked for since.
    listing_one: HashMap<Uid, bool>,
}

/// What others ask of the generator; clones ask the same.
#[derive(Clone, Debug)]
pub struct PlegHandle {
    requests: mpsc::Sender<Request>,
    reinspect: Arc<Mutex<HashSet<Uid>>>,
    health: Health,
    statuses: StatusReader,
}

#[derive(Debug)]
struct Request {
    pod: Uid,
    at: Instant,
}

/// A call that ended.
enum Done {
    All { began: Instant, result: Result<Vec<RuntimePod>, RuntimeError> },
    One { pod: Uid, began: Instant, result: Result<Option<RuntimePod>, RuntimeError> },
    Inspected { inspection: Inspection, result: Result<PodStatus, RuntimeError> },
}

impl PlegHandle {
    /// The statuses of all pods.
    pub fn statuses(&self) -> &StatusReader {
        &self.statuses
    }

    /// Whether the generator keeps up.
    ///
    /// # Errors
    /// Why it does not.
    pub fn healthy(&self) -> Result<(), Unhealthy> {
        self.health.check(Instant::now())
    }

    /// Has the pod listed at once. A hint: it may be dropped, and the next list of all pods serves it.
    pub fn request_relist(&self, pod: Uid) {
        if let Err(error) = self.requests.try_send(Request { pod, at: Instant::now() }) {
            debug!(%error, "a request to list a pod is dropped");
        }
    }

    /// Has the pod inspected at the next list and then synced, whether or not a list shows a change.
    pub fn request_reinspect(&self, pod: Uid) {
        self.reinspect.lock().insert(pod);
    }
}

impl Pleg {
    /// A generator over `lister`, the handle to it, and the events it tells. It does nothing before [`run`](Self::run).
    pub fn new(
        lister: Arc<dyn PodLister>,
        config: Config,
        metrics: Metrics,
    ) -> (Self, PlegHandle, mpsc::Receiver<PodLifecycleEvent>) {
        let (events, receiver) = mpsc::channel(config.event_capacity);
        let (request, requests) = mpsc::channel(REQUEST_CAPACITY);
        let core = Generic::new(StatusCache::new());
        let (health, reinspect) = (Health::new(config.threshold), Arc::<Mutex<HashSet<Uid>>>::default());
        let handle = PlegHandle {
            requests: request,
            reinspect: reinspect.clone(),
            health: health.clone(),
            statuses: core.reader(),
        };
        let pleg = Self {
            lister,
            config,
            core,
            metrics,
            health,
            events,
            requests,
            reinspect,
            calls: FuturesUnordered::new(),
            listing: None,
            listed_at: None,
            listing_one: HashMap::new(),
        };
        (pleg, handle, receiver)
    }

    /// Lists and inspects until `stop`; calls under way are dropped then, and who waits for a status is told.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut next_list = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep_until(next_list), if self.listing.is_none() => self.list_all(),
                Some(done) = self.calls.next(), if !self.calls.is_empty() => {
                    if matches!(done, Done::All { .. }) {
                        next_list = Instant::now() + self.config.period;
                    }
                    self.done(done);
                }
                Some(request) = self.requests.recv() => self.list_one(request),
            }
        }
    }

    fn list_all(&mut self) {
        let began = Instant::now();
        if let Some(last) = self.listed_at {
            self.metrics.relist_began(began - last);
        }
        self.listing = Some(began);
        let lister = self.lister.clone();
        self.calls.push(Box::pin(async move { Done::All { began, result: lister.pods().await } }));
    }

    fn list_one(&mut self, Request { pod, at }: Request) {
        // A list of all that began later has it already, or will have it.
        if self.listed_at.max(self.listing).is_some_and(|began| began > at) {
            return;
        }
        let under_way = self.listing_one.len();
        match self.listing_one.get_mut(&pod) {
            Some(again) => *again = true,
            None if under_way < REQUEST_CAPACITY => self.begin_list_one(pod),
            None => debug!(%pod, "a request to list a pod is dropped: too many lists are under way"),
        }
    }

    fn begin_list_one(&mut self, pod: Uid) {
        let (began, lister) = (Instant::now(), self.lister.clone());
        self.listing_one.insert(pod.clone(), false);
        self.calls.push(Box::pin(async move {
            let result = lister.pod(&pod).await;
            Done::One { pod, began, result }
        }));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::All { began, result } => {
                self.listing = None;
                self.metrics.relisted(began.elapsed());
                match result {
                    Ok(pods) => {
                        self.listed_at = Some(began);
                        self.health.seen(began);
                        self.metrics.seen(&pods, Timestamp::now());
                        self.take_reinspections();
                        let listed = self.core.listed(pods, began);
                        self.follow(listed);
                    }
                    Err(error) => error!(%error, "listing the runtime's pods failed"),
                }
            }
            Done::One { pod, began, result } => self.listed_one(pod, began, result),
            Done::Inspected { inspection, result } => {
                let pod = inspection.pod.uid.clone();
                let events = self.core.inspected(inspection, result);
                self.send(events);
                if self.core.take_missed_list(&pod) && !self.listing_one.contains_key(&pod) {
                    self.begin_list_one(pod);
                }
            }
        }
    }

    fn listed_one(&mut self, pod: Uid, began: Instant, result: Result<Option<RuntimePod>, RuntimeError>) {
        self.metrics.pod_relisted(began.elapsed());
        let again = self.listing_one.remove(&pod).unwrap_or_default();
        match result {
            // A list of all that began before may still show it, and would bring it back.
            Ok(None) if self.listing.is_some_and(|all| all <= began) => {}
            Ok(found) => {
                self.take_reinspections();
                let listed = self.core.listed_one(&pod, found, began);
                self.follow(listed);
            }
            Err(error) => error!(%pod, %error, "listing a pod failed"),
        }
        if again {
            self.begin_list_one(pod);
        }
    }

    fn take_reinspections(&mut self) {
        for pod in mem::take(&mut *self.reinspect.lock()) {
            self.core.reinspect(pod);
        }
    }

    fn follow(&mut self, listed: Listed) {
        self.send(listed.events);
        for inspection in listed.inspections {
            let (lister, limit) = (self.lister.clone(), self.config.inspect_timeout);
            self.calls.push(Box::pin(async move {
                let result = timeout(limit, lister.pod_status(&inspection.pod)).await;
                let result = result.unwrap_or_else(|_| Err(Arc::new(TimedOut(limit))));
                Done::Inspected { inspection, result }
            }));
        }
    }

    fn send(&self, events: Vec<PodLifecycleEvent>) {
        for event in events {
            debug!(pod = %event.pod, event = ?event.kind, "a pod's containers changed");
            if self.events.try_send(event).is_err() {
                self.metrics.event_discarded();
                error!("nobody takes the events of pods in time, one is dropped");
            }
        }
    }
}

#[cfg(test)]
mod tests;
