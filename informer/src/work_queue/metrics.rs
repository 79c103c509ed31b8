//! What a queue tells about itself, under upstream's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
    exponential_buckets,
};

/// The metrics of queues could not be set up. The start should end with it: it is a mistake in the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A metric's description was refused.
    #[error("describe the metrics of work queues")]
    Describe(#[source] prometheus::Error),
    /// The registry refused a metric; for instance it has a provider already.
    #[error("register the metrics of work queues")]
    Register(#[source] prometheus::Error),
}

/// The seven metrics of all queues in one registry; clones are the same provider.
///
/// Counters and histograms are counted as things happen. Depth and the two of running work are read from the queues
/// when somebody scrapes. Queues of one name share its series: their depths and unfinished work add up, and of the
/// longest running the longest counts. A name keeps its series, at zero, after its last queue is gone.
#[derive(Clone)]
pub struct MetricsProvider {
    adds: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    retries: IntCounterVec,
    queues: Queues,
}

/// The queues to read at a scrape, by name.
type Queues = Arc<Mutex<BTreeMap<String, Vec<Weak<dyn Observed>>>>>;

/// A queue, as a scrape sees it.
pub(super) trait Observed: Send + Sync {
    fn snapshot(&self) -> Snapshot;
}

/// A queue at one moment.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Keys that need work: those queued, and those in work that were added since.
    pub(super) depth: usize,
    /// How long the keys in work have been so, all together.
    pub(super) unfinished: Duration,
    /// How long the one among them has been that was taken first.
    pub(super) longest: Duration,
}

/// What one queue counts as it happens; by default nothing.
#[derive(Clone, Default)]
pub(super) struct QueueMetrics(Option<Counted>);

#[derive(Clone)]
struct Counted {
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: IntCounter,
}

impl MetricsProvider {
    /// Registers the metrics. Once for each registry.
    ///
    /// # Errors
    /// If the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let (provider, observer) = Self::describe().map_err(Error::Describe)?;
        let collectors: [Box<dyn Collector>; 5] = [
            Box::new(provider.adds.clone()),
            Box::new(provider.queue_duration.clone()),
            Box::new(provider.work_duration.clone()),
            Box::new(provider.retries.clone()),
            Box::new(observer),
        ];
        for collector in collectors {
            registry.register(collector).map_err(Error::Register)?;
        }
        Ok(provider)
    }

    /// Names, help and buckets of `k8s.io/component-base/metrics/prometheus/workqueue`, which marks them all as beta.
    fn describe() -> Result<(Self, Observer), prometheus::Error> {
        let opts = |name: &str, help: &str| Opts::new(format!("workqueue_{name}"), format!("[BETA] {help}"));
        let name = &["name"];
        let buckets = exponential_buckets(10e-9, 10.0, 10)?;
        let histogram = |name, help| HistogramOpts::from(opts(name, help)).buckets(buckets.clone());
        let queues = Queues::default();
        let provider = Self {
            adds: IntCounterVec::new(opts("adds_total", "Total number of adds handled by workqueue"), name)?,
            queue_duration: HistogramVec::new(
                histogram(
                    "queue_duration_seconds",
                    "How long in seconds an item stays in workqueue before being requested.",
                ),
                name,
            )?,
            work_duration: HistogramVec::new(
                histogram(
                    "work_duration_seconds",
                    "How long in seconds processing an item from workqueue takes.",
                ),
                name,
            )?,
            retries: IntCounterVec::new(
                opts("retries_total", "Total number of retries handled by workqueue"),
                name,
            )?,
            queues: Arc::clone(&queues),
        };
        let observer = Observer {
            depth: GaugeVec::new(opts("depth", "Current depth of workqueue"), name)?,
            unfinished: GaugeVec::new(
                opts(
                    "unfinished_work_seconds",
                    "How many seconds of work has done that is in progress and hasn't been observed by \
                     work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads \
                     by observing the rate at which this increases.",
                ),
                name,
            )?,
            longest: GaugeVec::new(
                opts(
                    "longest_running_processor_seconds",
                    "How many seconds has the longest running processor for workqueue been running.",
                ),
                name,
            )?,
            queues,
        };
        Ok((provider, observer))
    }

    pub(super) fn queue(&self, name: &str) -> QueueMetrics {
        QueueMetrics(Some(Counted {
            adds: self.adds.with_label_values(&[name]),
            queue_duration: self.queue_duration.with_label_values(&[name]),
            work_duration: self.work_duration.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
        }))
    }

    pub(super) fn observe(&self, name: &str, queue: &Arc<dyn Observed>) {
        self.queues.lock().entry(name.to_owned()).or_default().push(Arc::downgrade(queue));
    }
}

impl QueueMetrics {
    /// A key needs work that did not.
    pub(super) fn added(&self) {
        if let Some(counted) = &self.0 {
            counted.adds.inc();
        }
    }

    /// A key went to a worker, so long after it was added.
    pub(super) fn taken(&self, queued: Duration) {
        if let Some(counted) = &self.0 {
            counted.queue_duration.observe(queued.as_secs_f64());
        }
    }

    /// A worker is done with a key, so long after it got it.
    pub(super) fn worked(&self, took: Duration) {
        if let Some(counted) = &self.0 {
            counted.work_duration.observe(took.as_secs_f64());
        }
    }

    /// A key was added for later.
    pub(super) fn retried(&self) {
        if let Some(counted) = &self.0 {
            counted.retries.inc();
        }
    }
}

/// Reads the queues when somebody scrapes, in place of upstream's ticker.
struct Observer {
    depth: GaugeVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    queues: Queues,
}

impl Collector for Observer {
    fn desc(&self) -> Vec<&Desc> {
        [&self.depth, &self.unfinished, &self.longest].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (name, queues) in &mut *self.queues.lock() {
            queues.retain(|queue| queue.strong_count() > 0);
            let all = queues.iter().filter_map(Weak::upgrade).fold(Snapshot::default(), |all, queue| {
                let one = queue.snapshot();
                Snapshot {
                    depth: all.depth + one.depth,
                    unfinished: all.unfinished + one.unfinished,
                    longest: all.longest.max(one.longest),
                }
            });
            let name = &[name.as_str()];
            self.depth.with_label_values(name).set(all.depth as f64);
            self.unfinished.with_label_values(name).set(all.unfinished.as_secs_f64());
            self.longest.with_label_values(name).set(all.longest.as_secs_f64());
        }
        [&self.depth, &self.unfinished, &self.longest].into_iter().flat_map(Collector::collect).collect()
    }
}
