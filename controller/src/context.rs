//! The context that every controller's constructor receives.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_api::Time;
use steersman_client::events::{Broadcaster, Recorder};
use steersman_client::{Clients, RestMapper, Sender};
use steersman_informer::SharedInformerFactory;
use steersman_informer::work_queue::{Key, MetricsProvider, QueueConfig, WorkQueue};

use crate::children::FirstLooks;
use crate::debug::DebugPages;
use crate::feature_gates::FeatureGates;
use crate::options::{OptionSet, Options};
use crate::server_version::ServerVersion;

/// A wall clock, which tests can replace. Use it for timestamps only: durations follow tokio's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn wall() -> Self {
        Self::of(Timestamp::now)
    }

    /// A clock that shows the time that `now` returns.
    pub fn of<T: Into<Timestamp>>(now: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || now().into()))
    }

    /// The current time in whole seconds, as the API's timestamps are.
    pub fn now(&self) -> Time {
        self.timestamp().into()
    }

    /// The current time with fractions of a second.
    pub fn timestamp(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The clients, caches and settings that a controller is built from. Cheap to clone.
///
/// All clients are behind the leadership fence: it always admits reads, and admits writes only while this process
/// leads.
#[derive(Clone)]
pub struct ControllerContext {
    /// Makes the clients of controllers, behind the fence.
    pub clients: Clients,
    /// The caches, which all controllers share. The manager starts them after the constructors have run.
    pub informers: SharedInformerFactory,
    /// What this process has learnt about its caches since it leads.
    pub first_looks: FirstLooks,
    /// Maps kinds to resources and back.
    pub rest_mapper: Arc<RestMapper>,
    /// The certificate authorities, in PEM, by which this process verifies the API server. Empty if it has none.
    pub root_ca: Arc<str>,
    /// The version of the API server.
    pub server_version: ServerVersion,
    /// Receives the events that controllers record.
    pub events: Broadcaster,
    /// The wall clock.
    pub clock: Clock,
    /// The settings of all controllers.
    pub options: Arc<OptionSet>,
    /// Which features are on.
    pub gates: Arc<FeatureGates>,
    /// The registry for a controller's own metrics.
    pub metrics: prometheus::Registry,
    /// Counts what happens in work queues.
    pub queue_metrics: MetricsProvider,
    /// The pages for debugging that the process serves.
    pub debug: DebugPages,
}

impl ControllerContext {
    /// The same context, whose clients and recorders act as a service account where the process
    /// [has service accounts](Clients::with_service_accounts) for its controllers.
    #[must_use]
    pub fn acting_as(&self, account: &str) -> Self {
        Self {
            clients: self.clients.acting_as(account),
            events: self.events.acting_as(account),
            ..self.clone()
        }
    }

    /// The settings of one controller.
    pub fn options<O: Options>(&self) -> O {
        self.options.get()
    }

    /// A sender of calls with its own rate limit and user agent. `name` is upstream's name for the controller, such as
    /// `job-controller`.
    pub fn client_for(&self, name: &str) -> Sender {
        self.clients.sender(name)
    }

    /// A sender for reads that take the place of a fuller cache: what upstream finds in its shared informers' caches, and
    /// this program's caches do not keep.
    ///
    /// It has the informers' identity, that of the process itself: Kubernetes's roles for single controllers do not grant
    /// such reads.
    pub fn reader(&self) -> Sender {
        self.clients.acting_as_process().sender("shared-informers")
    }

    /// A recorder of events whose source is `component`, such as `job-controller`. Each component has its own queue,
    /// rate limit and writer.
    pub fn recorder(&self, component: &str) -> Recorder {
        self.events.recorder(component)
    }

    /// A work queue with the default back-off. Its metrics have `name`, upstream's name for the queue, such as `job`.
    pub fn queue<K: Key>(&self, name: &str) -> WorkQueue<K> {
        self.queue_with(QueueConfig::new(name))
    }

    /// A work queue with this configuration, and with metrics.
    pub fn queue_with<K: Key>(&self, config: QueueConfig<K>) -> WorkQueue<K> {
        WorkQueue::new(config.metrics(&self.queue_metrics))
    }
}
