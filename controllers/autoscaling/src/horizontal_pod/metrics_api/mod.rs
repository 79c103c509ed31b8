//! Reads metrics from the three APIs that monitoring systems serve.
//!
//! | API | what it tells | served by |
//! |---|---|---|
//! | `metrics.k8s.io` | what the containers of pods use of processors and memory | metrics-server |
//! | `custom.metrics.k8s.io` | metrics of objects of the cluster | an adapter of a monitoring system |
//! | `external.metrics.k8s.io` | metrics of anything else | an adapter of a monitoring system |
//!
//! Autoscalers that are synced at about the same time share the answers: see [`MetricsApi`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::ArcStr;
use steersman_client::{RestMapper, Sender};
use steersman_kinds::horizontal_pod_autoscaler::MetricSpec;
use tokio::sync::OnceCell;
use tokio::time::Instant;

mod custom;
mod external;
mod query;
mod refusal;
mod resource;

pub(super) use query::Query;
pub(super) use resource::Usages;
#[cfg(test)]
pub(super) use resource::{ContainerUsage, PodUsage};

use super::pods::Samples;

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    /// What containers use.
    Usage(Usages),
    /// A metric of pods.
    Samples(Samples),
    /// The value of an object's metric, in thousandths.
    Value(i64),
    /// The values of the series of an external metric, in thousandths.
    Values(Vec<i64>),
}

/// Reads metrics, each at most once in a tick, however many autoscalers ask for it.
///
/// A tick is as long as the period of syncs, at most 15 seconds, counted from the start of the process: two syncs of the same
/// autoscaler never get the same answer, unless the period is longer than a tick. Callers that ask at the same time wait for
/// the same call. An error is kept for [`ERROR_KEPT`] only. What is kept of a tick is dropped in the next.
pub(super) struct MetricsApi {
    sender: Sender,
    mapper: Arc<RestMapper>,
    started: Instant,
    tick: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The number of the tick that the answers are from.
    tick: u128,
    answers: HashMap<Query, Answer>,
    /// The version of `custom.metrics.k8s.io` to use.
    custom: Arc<OnceCell<custom::Version>>,
}

/// The answer of a call that is under way or has ended, and when it ended.
type Answer = Arc<OnceCell<(Instant, Result<Arc<Reading>, String>)>>;

/// How long an error is kept: the metrics of an autoscaler that ask the same, and autoscalers that are synced at the same time,
/// share it. Otherwise each of them would wait for a metrics API that does not answer.
const ERROR_KEPT: Duration = Duration::from_secs(1);

/// The longest tick. Metrics-server scrapes nodes as often.
const LONGEST_TICK: Duration = Duration::from_secs(15);

impl MetricsApi {
    /// Reads through `sender`. `period` is the period of syncs.
    pub(super) fn new(sender: Sender, mapper: Arc<RestMapper>, period: Duration) -> Self {
        let tick = period.clamp(Duration::from_millis(1), LONGEST_TICK);
        Self { sender, mapper, started: Instant::now(), tick, known: Mutex::default() }
    }

    /// Drops all answers.
    pub(super) fn forget(&self) {
        *self.known.lock() = Known::default();
    }

    /// Reads a metric.
    ///
    /// # Errors
    /// In upstream's words, why there is no value.
    pub(super) async fn read(&self, query: Query) -> Result<Arc<Reading>, String> {
        let answer = {
            let mut known = self.known();
            let kept: &mut Answer = known.answers.entry(query.clone()).or_default();
            let is_old_error =
                |(at, read): &(Instant, Result<_, _>)| read.is_err() && at.elapsed() >= ERROR_KEPT;
            if kept.get().is_some_and(is_old_error) {
                *kept = Answer::default();
            }
            Arc::clone(kept)
        };
        let ask = || async {
            let read = self.ask(&query).await.map(Arc::new);
            (Instant::now(), read)
        };
        answer.get_or_init(ask).await.1.clone()
    }

    /// What is known of the current tick.
    fn known(&self) -> parking_lot::MutexGuard<'_, Known> {
        let tick = self.started.elapsed().as_nanos() / self.tick.as_nanos();
        let mut known = self.known.lock();
        if known.tick != tick {
            *known = Known { tick, ..Known::default() };
        }
        known
    }

    async fn ask(&self, query: &Query) -> Result<Reading, String> {
        match query {
            Query::Usage { namespace, pods } => self.usage(namespace, pods).await.map(Reading::Usage),
            Query::OfPods { namespace, pods, metric, series } => {
                self.of_pods(namespace, pods, metric, series).await.map(Reading::Samples)
            }
            Query::OfObject { namespace, object, metric, series } => {
                self.of_object(namespace, object, metric, series).await.map(Reading::Value)
            }
            Query::External { namespace, metric, series } => {
                self.external(namespace, metric, series).await.map(Reading::Values)
            }
        }
    }
}

/// The query for a metric of an autoscaler in `namespace`, whose target's pods `pods` selects. `None` for an unknown kind of
/// metric.
pub(super) fn query(metric: &MetricSpec, namespace: &ArcStr, pods: &ArcStr) -> Option<Query> {
    Query::of(metric, namespace, pods)
}
