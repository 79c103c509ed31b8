//! What every call goes through.

use std::future::Future;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::time::{Instant, timeout};

use super::{Code, Deadline, Error, Metrics, Operation, Result};

/// Gives calls their deadline, and counts and times them. Whoever implements the traits lets each call go through it.
#[derive(Debug, Clone)]
pub struct Calls {
    metrics: Metrics,
    default: Duration,
}

impl Calls {
    /// `default` is the length of [`Deadline::Default`].
    pub fn new(metrics: Metrics, default: Duration) -> Self {
        Self { metrics, default }
    }

    /// Where they are counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The time that a call of class `deadline` has.
    pub fn limit(&self, deadline: Deadline) -> Option<Duration> {
        deadline.limit(self.default)
    }

    /// Awaits `call`. One that is dropped before its end counts as an error, as a cancelled one does upstream.
    ///
    /// # Errors
    /// Those of `call`; `DeadlineExceeded` when its time is up.
    pub async fn run<T>(
        &self,
        operation: Operation,
        deadline: Deadline,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut observation = self.observe(operation);
        let result = match self.limit(deadline) {
            Some(limit) => timeout(limit, call)
                .await
                .unwrap_or_else(|_| Err(Error::status(Code::DeadlineExceeded, "context deadline exceeded"))),
            None => call.await,
        };
        match &result {
            Ok(_) => observation.succeeded = true,
            Err(error) => tracing::debug!(operation = operation.as_str(), %error, "runtime call failed"),
        }
        result
    }

    /// Counts a stream when it ends: as an error, unless it ended by itself. It ends with its first error.
    pub fn stream<T: Send + 'static>(
        &self,
        operation: Operation,
        items: impl Stream<Item = Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T>> {
        let open = Some((items.boxed(), self.observe(operation)));
        stream::unfold(open, |open| async move {
            let (mut items, mut observation) = open?;
            match items.next().await {
                Some(Ok(item)) => Some((Ok(item), Some((items, observation)))),
                Some(Err(error)) => Some((Err(error), None)),
                None => {
                    observation.succeeded = true;
                    None
                }
            }
        })
        .boxed()
    }

    fn observe(&self, operation: Operation) -> Observation {
        Observation { metrics: self.metrics.clone(), operation, start: Instant::now(), succeeded: false }
    }
}

/// Tells the metrics of a call when it is dropped, at the call's end or before.
struct Observation {
    metrics: Metrics,
    operation: Operation,
    start: Instant,
    succeeded: bool,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.metrics.ended(self.operation, self.start.elapsed());
        if !self.succeeded {
            self.metrics.failed(self.operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use prometheus::{Registry, TextEncoder};

    use super::*;

    fn calls() -> Calls {
        Calls::new(Metrics::new(), Deadline::DEFAULT)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_with_its_deadline() {
        let calls = calls();
        let start = Instant::now();
        let error = calls.run(Operation::RunPodSandbox, Deadline::Sandbox, pending::<Result<()>>()).await;
        assert!(error.unwrap_err().is_deadline_exceeded());
        assert_eq!(start.elapsed().as_secs(), 240);
        assert_eq!(calls.metrics().errors(Operation::RunPodSandbox), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_given_up_counts_as_an_error() {
        let calls = calls();
        let call = calls.run(Operation::PullImage, Deadline::Unbounded, pending::<Result<()>>());
        assert!(timeout(Duration::from_secs(7), call).await.is_err());
        assert_eq!(calls.metrics().operations(Operation::PullImage), 1);
        assert_eq!(calls.metrics().errors(Operation::PullImage), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_counts_when_it_ends_and_ends_with_its_first_error() {
        let calls = calls();
        let operation = Operation::GetContainerEvents;
        let lost = || Err(Error::status(Code::Unavailable, "lost"));
        let mut broken = calls.stream(operation, stream::iter([Ok(1), lost(), Ok(2)]));
        assert_eq!(broken.next().await, Some(Ok(1)));
        assert_eq!(calls.metrics().operations(operation), 0);
        assert_eq!(broken.next().await, Some(lost()));
        assert_eq!(broken.next().await, None);
        assert_eq!((calls.metrics().operations(operation), calls.metrics().errors(operation)), (1, 1));

        assert_eq!(calls.stream(operation, stream::iter([Ok(1)])).count().await, 1);
        assert_eq!((calls.metrics().operations(operation), calls.metrics().errors(operation)), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_shown_under_the_kubelets_names_and_buckets() {
        let calls = calls();
        let registry = Registry::new();
        calls.metrics().register(&registry).unwrap();
        let slow = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        };
        calls.run(Operation::ListPodSandbox, Deadline::Default, slow).await.unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"list_podsandbox\"} 1",
            "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"list_podsandbox\"} 1",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_podsandbox\",le=\"0.0125\"} 0",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"list_podsandbox\",le=\"+Inf\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert_eq!(text.matches("_bucket{").count(), 15);
        assert!(!text.contains("errors_total{"), "{text}");
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Operation::ALL.iter().map(|o| o.as_str()).collect();
        assert_eq!(names.len(), Operation::ALL.len());
    }
}
