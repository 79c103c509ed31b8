//! What constructors of controllers are given.

use std::fmt;
use std::sync::Arc;

use steersman_api::Time;
use steersman_client::events::{Broadcaster, Recorder};
use steersman_client::{Clients, RestMapper};
use steersman_informer::SharedInformerFactory;
use steersman_informer::work_queue::{Key, MetricsProvider, QueueConfig, WorkQueue};

use crate::feature_gates::FeatureGates;
use crate::options::{OptionSet, Options};

/// The wall clock, or what a test puts in its place. Only for stamps: durations follow tokio's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Time + Send + Sync>);

impl Clock {
    /// The machine's.
    pub fn wall() -> Self {
        Self::of(Time::now)
    }

    /// One that says what `now` says.
    pub fn of(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it says.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// What a constructor may use. Cheap to clone.
///
/// All clients are behind the leadership fence: reads pass always, writes while this process leads.
#[derive(Clone)]
pub struct ControllerContext {
    /// Makes the clients of controllers; already behind the fence.
    pub clients: Clients,
    /// The caches, shared by all controllers; not started while constructors run.
    pub informers: SharedInformerFactory,
    /// From kinds to resources and back.
    pub rest_mapper: Arc<RestMapper>,
    /// Where events go.
    pub events: Broadcaster,
    /// What the time is.
    pub clock: Clock,
    /// The settings of all controllers.
    pub options: Arc<OptionSet>,
    /// Which features are on.
    pub gates: Arc<FeatureGates>,
    /// Where a controller registers metrics of its own.
    pub metrics: prometheus::Registry,
    /// Where work queues are counted.
    pub queue_metrics: MetricsProvider,
}

impl ControllerContext {
    /// The settings of one controller.
    pub fn options<O: Options>(&self) -> O {
        self.options.get()
    }

    /// A client with a limit and a user agent of its own, by upstream's name for the controller, such as
    /// `job-controller`.
    pub fn client_for(&self, name: &str) -> kube::Client {
        self.clients.component(name)
    }

    /// A recorder whose events come from `component`, such as `job-controller`.
    pub fn recorder(&self, component: &str) -> Recorder {
        self.events.recorder(component)
    }

    /// A work queue with the default back-off, counted under upstream's name for it, such as `job`.
    pub fn queue<K: Key>(&self, name: &str) -> WorkQueue<K> {
        self.queue_with(QueueConfig::new(name))
    }

    /// A work queue of one's own making, counted.
    pub fn queue_with<K: Key>(&self, config: QueueConfig<K>) -> WorkQueue<K> {
        WorkQueue::new(config.metrics(&self.queue_metrics))
    }
}
