//! What constructors of controllers are given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::Time;
use steersman_client::events::{Broadcaster, Recorder};
use steersman_client::{Clients, RestMapper};
use steersman_informer::SharedInformerFactory;
use steersman_informer::work_queue::{Key, MetricsProvider, QueueConfig, WorkQueue};

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
    pub options: Arc<ControllerOptions>,
    /// Where a controller registers metrics of its own.
    pub metrics: prometheus::Registry,
    /// Where work queues are counted.
    pub queue_metrics: MetricsProvider,
}

impl ControllerContext {
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

    /// A resync period for a handler: a random one between one and two times `--min-resync-period`, so that not all
    /// handlers are told of everything at once. `None` if that is zero: never.
    pub fn resync_period(&self) -> Option<Duration> {
        let least = self.options.min_resync_period;
        (!least.is_zero()).then(|| least.mul_f64(1.0 + rand::random::<f64>()))
    }
}

/// The settings of controllers, by upstream's names. The defaults are upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// `--min-resync-period`: handlers are told of everything again after one to two times this. Default: 12 h.
    pub min_resync_period: Duration,
    /// Of the job controller.
    pub job: JobOptions,
    /// Of the endpoints controller.
    pub endpoints: EndpointsOptions,
    /// Of the pod garbage collector.
    pub pod_gc: PodGcOptions,
}

/// Of the job controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOptions {
    /// `--concurrent-job-syncs`: how many jobs are synced at a time. Default: 5.
    pub concurrent_syncs: usize,
    /// How long what pods do is gathered before a sync. Upstream has no flag for it. Default: 1 s.
    pub batch_period: Duration,
}

/// Of the endpoints controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsOptions {
    /// `--concurrent-endpoint-syncs`: how many services are synced at a time. Default: 5.
    pub concurrent_syncs: usize,
    /// `--endpoint-updates-batch-period`: how long changes of pods are gathered before a sync. Default: not at all.
    pub updates_batch_period: Duration,
}

/// Of the pod garbage collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGcOptions {
    /// `--terminated-pod-gc-threshold`: how many terminated pods may exist; zero and less: any number. Default: 12,500.
    pub terminated_pod_threshold: i32,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self { concurrent_syncs: 5, batch_period: Duration::from_secs(1) }
    }
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            min_resync_period: Duration::from_secs(12 * 60 * 60),
            job: JobOptions::default(),
            endpoints: EndpointsOptions { concurrent_syncs: 5, updates_batch_period: Duration::ZERO },
            pod_gc: PodGcOptions { terminated_pod_threshold: 12_500 },
        }
    }
}
