//! Metrics of the informers' caches.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use steersman_informer::SharedInformerFactory;
use steersman_informer::reflector::WatchErrorHook;
use tokio::time::Instant;

/// The time for which the estimate of the caches' memory is served again: it looks at every object.
const ESTIMATED_EVERY: Duration = Duration::from_secs(60);

/// Describes each cache at each scrape.
pub(crate) struct CacheCollector {
    informers: SharedInformerFactory,
    objects: IntGaugeVec,
    unreadable: IntGaugeVec,
    synced: IntGaugeVec,
    queued: IntGaugeVec,
    bytes: IntGaugeVec,
    /// When `bytes` was estimated.
    estimated: Mutex<Option<Instant>>,
    staleness: GaugeVec,
    relists: IntCounterVec,
}

impl CacheCollector {
    /// A collector for all caches of `informers`.
    ///
    /// # Errors
    /// If a metric's description is invalid.
    pub(crate) fn new(informers: SharedInformerFactory) -> Result<Self, prometheus::Error> {
        let resource = &["resource"];
        let gauge = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), resource);
        Ok(Self {
            informers,
            objects: gauge("informer_cache_objects", "Number of objects in the cache")?,
            unreadable: gauge(
                "informer_cache_unreadable_objects",
                "Number of objects in the cache whose body can't be decoded",
            )?,
            synced: gauge("informer_cache_synced", "Whether the cache has the first list (1) or not (0)")?,
            queued: gauge("informer_cache_queued", "Number of changes that the cache has not taken in yet")?,
            bytes: gauge(
                "informer_cache_bytes",
                "Memory of the cache in bytes: an estimate, at most a minute old",
            )?,
            estimated: Mutex::default(),
            staleness: GaugeVec::new(
                Opts::new(
                    "informer_cache_staleness_seconds",
                    "Time since the API server last sent an event or a bookmark or, if it sends no bookmarks, opened the watch",
                ),
                resource,
            )?,
            relists: IntCounterVec::new(
                Opts::new("informer_cache_relists_total", "Number of complete lists after the first one"),
                resource,
            )?,
        })
    }

    fn families(&self) -> [&dyn Collector; 7] {
        [
            &self.objects,
            &self.unreadable,
            &self.synced,
            &self.queued,
            &self.bytes,
            &self.staleness,
            &self.relists,
        ]
    }

    /// Estimates the caches' memory anew, if the last estimate is too old.
    fn estimate(&self) {
        let mut estimated = self.estimated.lock();
        if estimated.is_some_and(|at| at.elapsed() < ESTIMATED_EVERY) {
            return;
        }
        *estimated = Some(Instant::now());
        self.bytes.reset();
        for informer in self.informers.informers() {
            let bytes = i64::try_from(informer.bytes()).unwrap_or(i64::MAX);
            self.bytes.with_label_values(&[informer.resource().to_string()]).add(bytes);
        }
    }
}

impl Collector for CacheCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.families().into_iter().flat_map(|family| family.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = [&self.objects, &self.unreadable, &self.synced, &self.queued];
        gauges.into_iter().for_each(IntGaugeVec::reset);
        self.staleness.reset();
        self.relists.reset();
        self.estimate();
        // One resource may have several caches, each of a part.
        for informer in self.informers.informers() {
            let resource = &[informer.resource().to_string()];
            let count = |gauge: &IntGaugeVec, count: usize| {
                gauge.with_label_values(resource).add(i64::try_from(count).unwrap_or(i64::MAX));
            };
            let progress = informer.progress();
            count(&self.objects, informer.len());
            count(&self.unreadable, informer.unreadable_len());
            count(&self.synced, usize::from(informer.has_synced()));
            count(&self.queued, progress.queued);
            self.relists.with_label_values(resource).inc_by(progress.lists.saturating_sub(1));
            if let Some(silence) = progress.staleness() {
                let staleness = self.staleness.with_label_values(resource);
                staleness.set(staleness.get().max(silence.as_secs_f64()));
            }
        }
        self.families().into_iter().flat_map(|family| family.collect()).collect()
    }
}

/// Makes the counter of failed lists and watches, and the hook by which informers count into it.
///
/// # Errors
/// If the metric's description is invalid.
pub(crate) fn watch_failures() -> Result<(IntCounterVec, WatchErrorHook), prometheus::Error> {
    let options = Opts::new(
        "informer_watch_failures_total",
        "Number of failed lists and watches, by reason: connection, stalled, throttled, server_error, expired, unauthorized, \
         forbidden, refused, ended, unreadable",
    );
    let counter = IntCounterVec::new(options, &["resource", "reason"])?;
    let counted = counter.clone();
    let hook: WatchErrorHook = Arc::new(move |resource, error| {
        counted.with_label_values(&[&resource.to_string(), error.sort()]).inc();
    });
    Ok((counter, hook))
}
