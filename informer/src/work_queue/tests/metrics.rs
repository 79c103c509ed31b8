use prometheus::{Registry, TextEncoder};

use crate::work_queue::{Error, MetricsProvider};

use super::*;

struct Scraped {
    registry: Registry,
    provider: MetricsProvider,
}

impl Scraped {
    fn new() -> Self {
        let registry = Registry::new();
        let provider = MetricsProvider::register(&registry).unwrap();
        Self { registry, provider }
    }

    fn queue(&self, name: &str) -> WorkQueue<&'static str> {
        WorkQueue::new(QueueConfig::new(name).metrics(&self.provider))
    }

    fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }

    /// The value of `workqueue_<metric>{name="job"}`.
    fn job(&self, metric: &str) -> f64 {
        let series = format!("workqueue_{metric}{{name=\"job\"}} ");
        let text = self.text();
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_counted_on_each_step_of_its_way() {
    let scraped = Scraped::new();
    let queue = scraped.queue("job");
    queue.add("a");
    queue.add("a");
    assert_eq!((scraped.job("adds_total"), scraped.job("depth")), (1.0, 1.0), "an add that changes nothing");
    pass(ms(250)).await;
    let taken = look(&queue).unwrap();
    assert_eq!((scraped.job("depth"), scraped.job("queue_duration_seconds_sum")), (0.0, 0.25));
    queue.add("a");
    assert_eq!((scraped.job("adds_total"), scraped.job("depth")), (2.0, 1.0), "an add while in work");
    pass(ms(500)).await;
    assert_eq!(scraped.job("work_duration_seconds_count"), 0.0);
    drop(taken);
    assert_eq!(scraped.job("work_duration_seconds_sum"), 0.5);
    drop(look(&queue));
    assert_eq!(
        scraped.job("queue_duration_seconds_sum"),
        0.75,
        "counted from the add, not from the end of the work"
    );
    assert_eq!(scraped.job("queue_duration_seconds_count"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_a_retry_and_neither_an_add_nor_depth_before_it_is_due() {
    let scraped = Scraped::new();
    let queue = scraped.queue("job");
    queue.add_after("a", ms(100));
    queue.add_rate_limited("b");
    assert_eq!(
        (scraped.job("retries_total"), scraped.job("adds_total"), scraped.job("depth")),
        (2.0, 0.0, 0.0)
    );
    pass(ms(350)).await;
    assert_eq!(scraped.job("depth"), 2.0, "though no worker took a key");
    assert_eq!(scraped.job("adds_total"), 2.0);
    assert_eq!(all(&queue), ["b", "a"]);
    let waited = 0.345 + 0.25;
    assert!(
        (scraped.job("queue_duration_seconds_sum") - waited).abs() < 1e-9,
        "from the moment each was due"
    );
    queue.shut_down();
    queue.add_after("c", ms(1));
    assert_eq!(scraped.job("retries_total"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_is_no_depth_and_no_retry_and_an_add_as_it_comes_back() {
    let scraped = Scraped::new();
    let queue = scraped.queue("job");
    queue.add("a");
    look(&queue).unwrap().park(ms(1_000));
    assert_eq!(
        (scraped.job("depth"), scraped.job("retries_total"), scraped.job("adds_total")),
        (0.0, 0.0, 1.0)
    );
    queue.wake(&"a");
    assert_eq!((scraped.job("depth"), scraped.job("adds_total")), (1.0, 2.0));
    look(&queue).unwrap().park(ms(1_000));
    pass(ms(1_250)).await;
    assert_eq!((scraped.job("depth"), scraped.job("adds_total")), (1.0, 3.0));
    drop(look(&queue));
    assert_eq!(scraped.job("queue_duration_seconds_sum"), 0.25, "queued from its deadline on");
}

#[tokio::test(start_paused = true)]
async fn running_work_is_measured_when_scraped() {
    let scraped = Scraped::new();
    let queue = scraped.queue("job");
    assert_eq!(scraped.job("unfinished_work_seconds"), 0.0);
    queue.add("a");
    queue.add("b");
    let _a = look(&queue).unwrap();
    pass(ms(2_000)).await;
    let b = look(&queue).unwrap();
    pass(ms(1_000)).await;
    assert_eq!(scraped.job("unfinished_work_seconds"), 4.0);
    assert_eq!(scraped.job("longest_running_processor_seconds"), 3.0);
    drop(b);
    assert_eq!(scraped.job("unfinished_work_seconds"), 3.0);
}

#[tokio::test(start_paused = true)]
async fn queues_of_one_name_share_its_series_and_leave_nothing_behind() {
    let scraped = Scraped::new();
    let (first, second, _other) = (scraped.queue("job"), scraped.queue("job"), scraped.queue("endpoint"));
    first.add("a");
    second.add("a");
    second.add("b");
    let taken = look(&second).unwrap();
    pass(ms(1_000)).await;
    assert_eq!((scraped.job("depth"), scraped.job("adds_total")), (2.0, 3.0));
    drop(first);
    assert_eq!((scraped.job("depth"), scraped.job("longest_running_processor_seconds")), (1.0, 1.0));
    drop((second, taken));
    assert_eq!((scraped.job("depth"), scraped.job("longest_running_processor_seconds")), (0.0, 0.0));
    assert_eq!(scraped.job("adds_total"), 3.0);
}

#[tokio::test]
async fn names_types_help_and_buckets_are_upstreams() {
    let scraped = Scraped::new();
    let _queue = scraped.queue("job");
    let text = scraped.text();
    let metrics = [
        ("adds_total", "counter", "Total number of adds handled by workqueue"),
        ("depth", "gauge", "Current depth of workqueue"),
        (
            "longest_running_processor_seconds",
            "gauge",
            "How many seconds has the longest running processor for workqueue been running.",
        ),
        (
            "queue_duration_seconds",
            "histogram",
            "How long in seconds an item stays in workqueue before being requested.",
        ),
        ("retries_total", "counter", "Total number of retries handled by workqueue"),
        (
            "unfinished_work_seconds",
            "gauge",
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large \
             values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at \
             which this increases.",
        ),
        (
            "work_duration_seconds",
            "histogram",
            "How long in seconds processing an item from workqueue takes.",
        ),
    ];
    for (name, kind, help) in metrics {
        assert!(text.contains(&format!("# HELP workqueue_{name} [BETA] {help}\n")), "{name} in {text}");
        assert!(text.contains(&format!("# TYPE workqueue_{name} {kind}\n")), "{name} in {text}");
    }
    assert_eq!(text.matches("# HELP").count(), metrics.len());

    let bounds: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("workqueue_work_duration_seconds_bucket{name=\"job\",le=\""))
        .map(|line| line.split('"').next().unwrap().parse().unwrap())
        .collect();
    // The exact numbers that Go's ExponentialBuckets(10e-9, 10, 10) arrives at.
    let upstream =
        [1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 0.001, 0.01, 0.1, 1.0, 10.0];
    assert_eq!(bounds.len(), upstream.len() + 1);
    for (bound, expected) in bounds.iter().zip(upstream) {
        assert!((bound / expected - 1.0).abs() < 1e-12, "{bound} for {expected}");
    }
    assert_eq!(bounds.last(), Some(&f64::INFINITY));
}

#[test]
fn a_registry_takes_one_provider() {
    let registry = Registry::new();
    MetricsProvider::register(&registry).unwrap();
    assert!(matches!(MetricsProvider::register(&registry), Err(Error::Register(_))));
}
