//! Metrics of the informers' caches.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use steersman_informer::SharedInformerFactory;
use steersman_informer::reflector::WatchErrorHook;

/// Counts the objects of each cache at each scrape.
pub(crate) struct CacheCollector {
    informers: SharedInformerFactory,
    objects: IntGaugeVec,
    unreadable: IntGaugeVec,
    synced: IntGaugeVec,
}

impl CacheCollector {
    /// A collector for all caches of `informers`.
    ///
    /// # Errors
    /// If a metric's description is invalid.
    pub(crate) fn new(informers: SharedInformerFactory) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["resource"]);
        Ok(Self {
            informers,
            objects: gauge("informer_cache_objects", "Number of objects in the cache")?,
            unreadable: gauge(
                "informer_cache_unreadable_objects",
                "Number of objects in the cache whose body can't be decoded",
            )?,
            synced: gauge("informer_cache_synced", "Whether the cache has the first list (1) or not (0)")?,
        })
    }

    fn gauges(&self) -> [&IntGaugeVec; 3] {
        [&self.objects, &self.unreadable, &self.synced]
    }
}

impl Collector for CacheCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauges().into_iter().for_each(IntGaugeVec::reset);
        for informer in self.informers.informers() {
            let resource = informer.resource().to_string();
            let count = |gauge: &IntGaugeVec, count: usize| {
                gauge.with_label_values(&[&resource]).add(i64::try_from(count).unwrap_or(i64::MAX));
            };
            count(&self.objects, informer.len());
            count(&self.unreadable, informer.unreadable_len());
            count(&self.synced, usize::from(informer.has_synced()));
        }
        self.gauges().into_iter().flat_map(Collector::collect).collect()
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
