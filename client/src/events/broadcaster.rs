//! Makes the recorders of components.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use steersman_api::ArcStr;
use tokio::sync::mpsc;

use super::{Metrics, Recorder, Writers, queue::Queue};
use crate::{Clients, Limits};

/// Makes [`Recorder`]s. A clone makes recorders that use the same queues.
#[derive(Debug, Clone)]
pub struct Broadcaster {
    queues: Arc<Queues>,
    /// The service account that writes the events of the recorders.
    account: Option<ArcStr>,
    /// Tells [`Writers`] of queues that need a writer: once for each, so this is bounded by the number of components.
    pub(super) starts: mpsc::UnboundedSender<Arc<Queue>>,
    pub(super) metrics: Metrics,
}

/// The queues of all components that have a recorder.
#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<ByComponent>);

#[derive(Debug, Default)]
struct ByComponent {
    /// By component and service account.
    queues: BTreeMap<(ArcStr, Option<ArcStr>), Arc<Queue>>,
    closed: bool,
}

/// Creates a broadcaster, and the writers of its events, which the caller must [run](Writers::run).
///
/// Each component's events are sent by a client of its own, which `clients` makes under the component's name and with
/// its default limits. `clients` should not be gated: a process may report what happened even if it does not lead any
/// more.
pub fn broadcaster(clients: &Clients, metrics: Metrics) -> (Broadcaster, Writers) {
    broadcaster_with(clients, clients.limits(), metrics)
}

/// Creates a broadcaster and its writers, as [`broadcaster`] does, with these limits for each component's events.
pub fn broadcaster_with(clients: &Clients, limits: Limits, metrics: Metrics) -> (Broadcaster, Writers) {
    let (starts, started) = mpsc::unbounded_channel();
    let queues = Arc::new(Queues::default());
    let writers = Writers::new(queues.clone(), started, clients.clone(), limits, metrics.clone());
    (Broadcaster { queues, account: None, starts, metrics }, writers)
}

impl Broadcaster {
    /// A broadcaster whose recorders' events are written by the service account `name`, if the clients
    /// [have service accounts](Clients::with_service_accounts).
    #[must_use]
    pub fn acting_as(&self, name: &str) -> Self {
        Self { account: Some(name.into()), ..self.clone() }
    }

    /// A recorder of events whose source is `component`, such as `job-controller`.
    pub fn recorder(&self, component: &str) -> Recorder {
        Recorder::new(self.clone(), self.queues.of(component, self.account.clone()), None)
    }

    /// A recorder for a component that acts on behalf of one node. Its events name the node `host` as well, in their
    /// source and as the reporting instance.
    pub fn recorder_on(&self, component: &str, host: &str) -> Recorder {
        Recorder::new(self.clone(), self.queues.of(component, self.account.clone()), Some(host.into()))
    }
}

impl Queues {
    /// The queue of `component`, whose events `account` writes. Created if necessary.
    fn of(&self, component: &str, account: Option<ArcStr>) -> Arc<Queue> {
        let mut state = self.0.lock();
        let key = (ArcStr::from(component), account);
        if let Some(queue) = state.queues.get(&key) {
            return queue.clone();
        }
        let queue = Arc::new(Queue::new(key.0.clone(), key.1.clone()));
        if state.closed {
            queue.close();
        }
        state.queues.insert(key, queue.clone());
        queue
    }

    /// Closes all queues, including those that will be created later.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.queues.values().for_each(|queue| queue.close());
    }
}
