//! Metrics of the informers' caches.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use steersman_informer::SharedInformerFactory;

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
