//! Metrics of work queues, under upstream's names.

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

/// The metrics could not be registered. This is a mistake in the program, which should end the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The description of a metric is invalid.
    #[error("describe the metrics of work queues")]
    Describe(#[source] prometheus::Error),
    /// The registry refused a metric, for instance because it has a provider already.
    #[error("register the metrics of work queues")]
    Register(#[source] prometheus::Error),
}

/// The seven metrics of all queues in one registry. Clones are the same provider.
///
/// Queues update counters and histograms as events happen. A scrape reads depth and the two metrics of running work from the
/// queues. Queues of one name share its series: their depths and unfinished work add up, and the longest running one counts. A
/// name keeps its series, at zero, after its last queue is dropped.
#[derive(Clone)]
pub struct MetricsProvider {
    adds: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    retries: IntCounterVec,
    queues: Queues,
}

/// The queues that a scrape reads, by name.
type Queues = Arc<Mutex<BTreeMap<String, Vec<Weak<dyn Observed>>>>>;

/// A queue that a scrape can read.
pub(super) trait Observed: Send + Sync {
    fn snapshot(&self) -> Snapshot;
}

/// The state of a queue at a scrape.
#[derive(Default)]
pub(super) struct Snapshot {
    /// The number of keys that need work: queued ones, and those that a worker has and that were added since.
    pub(super) depth: usize,
    /// How long workers have had their keys, summed over all keys.
    pub(super) unfinished: Duration,
    /// How long a worker has had the key that was taken first.
    pub(super) longest: Duration,
}

/// The counters and histograms of one queue. Without a provider they count nothing.
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
    /// Registers the metrics. Call it once for each registry.
    ///
    /// # Errors
    /// The registry has the metrics already.
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
    /// Counts a key that was added.
    pub(super) fn added(&self) {
        if let Some(counted) = &self.0 {
            counted.adds.inc();
        }
    }

    /// Records that a worker got a key, and the time since the key was added.
    pub(super) fn taken(&self, queued: Duration) {
        if let Some(counted) = &self.0 {
            counted.queue_duration.observe(queued.as_secs_f64());
        }
    }

    /// Records that a worker has ended its work on a key, and how long that took.
    pub(super) fn worked(&self, took: Duration) {
        if let Some(counted) = &self.0 {
            counted.work_duration.observe(took.as_secs_f64());
        }
    }

    /// Counts a delayed add.
    pub(super) fn retried(&self) {
        if let Some(counted) = &self.0 {
            counted.retries.inc();
        }
    }
}

/// Reads the queues at a scrape. Upstream uses a ticker.
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
