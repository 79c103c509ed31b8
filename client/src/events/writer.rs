//! Writes the events of one component.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{Metrics, correlator::Write, metrics::Dropped, queue::Queue, sink::Sink};

/// Maximum number of tries for one event; client-go: `maxTriesPerEvent`.
pub(super) const TRIES: u32 = 12;
/// The wait between two tries; client-go: `defaultSleepDuration`.
pub(super) const RETRY_WAIT: Duration = Duration::from_secs(10);
/// How long a writer goes on after it was told to stop.
pub(super) const FLUSH_TIME: Duration = Duration::from_secs(5);

/// Writes the events of one queue, one after the other. When it is dropped, for whatever reason, it closes the queue
/// and counts what was not written.
pub(super) struct Writer {
    queue: Arc<Queue>,
    sink: Sink,
    metrics: Metrics,
    /// Whether a write is under way.
    busy: bool,
}

impl Writer {
    pub(super) fn new(queue: Arc<Queue>, sink: Sink, metrics: Metrics) -> Self {
        Self { queue, sink, metrics, busy: false }
    }

    /// Writes until the queue is closed and empty, or until [`FLUSH_TIME`] after `stop` was cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let patience = async {
            stop.cancelled().await;
            sleep(FLUSH_TIME).await;
        };
        select! {
            biased;
            () = self.write_all(&stop) => {}
            () = patience => {}
        }
    }

    async fn write_all(&mut self, stop: &CancellationToken) {
        while let Some(write) = self.queue.next().await {
            self.busy = true;
            // Boxed, so that an idle writer does not keep the memory of a call.
            if let Err(reason) = Box::pin(self.write(&write, stop)).await {
                self.metrics.dropped(self.queue.component(), reason);
            }
            self.busy = false;
        }
    }

    async fn write(&self, write: &Write, stop: &CancellationToken) -> Result<(), Dropped> {
        for tries in 1..=TRIES {
            let last_chance = stop.is_cancelled();
            let Err(error) = self.sink.write(write).await else { return Ok(()) };
            if error.is_servers_fault() {
                // One line a minute tells how many, for all components: each sync that fails may record an event.
                tracing::debug!(%error, "Server failed to write event, will not retry");
                return Err(Dropped::ServerFailed);
            }
            if !error.is_retriable() {
                if error.is_expected() {
                    tracing::debug!(%error, "Server rejected event, will not retry");
                } else {
                    tracing::warn!(%error, "Server rejected event, will not retry");
                }
                return Err(Dropped::Rejected);
            }
            tracing::debug!(%error, tries, "Unable to write event, may retry");
            if last_chance {
                return Err(Dropped::Stopped);
            }
            // The first wait is random, so that clients do not all come at once when the server is back.
            let wait = if tries == 1 { RETRY_WAIT.mul_f64(rand::random()) } else { RETRY_WAIT };
            if tries < TRIES {
                unless(stop, sleep(wait)).await;
            }
        }
        Err(Dropped::GaveUp)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        for _ in 0..self.queue.clear() + usize::from(self.busy) {
            self.metrics.dropped(self.queue.component(), Dropped::Stopped);
        }
    }
}

/// Waits for `wait`, but no longer than until `stop` is cancelled.
async fn unless(stop: &CancellationToken, wait: impl Future<Output = ()>) {
    select! {
        () = stop.cancelled() => {}
        () = wait => {}
    }
}
