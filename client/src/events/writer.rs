//! The task that writes events.

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use steersman_api::ArcStr;
use tokio::{
    select,
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{Metrics, correlator::Correlator, metrics::Dropped, recorder::Occurrence, sink::Sink};

/// How often one event is tried; client-go: `maxTriesPerEvent`.
const TRIES: u32 = 12;
/// The wait between two tries; client-go: `defaultSleepDuration`.
const RETRY_WAIT: Duration = Duration::from_secs(10);
/// How long the writer goes on after it was told to stop.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// Writes the events of one queue, one after the other.
///
/// While the server can't be reached the writer stays with one event (12 tries, 10 s apart), and the queue fills up.
pub struct Writer {
    queue: mpsc::Receiver<Occurrence>,
    sink: Sink,
    correlator: Correlator,
    metrics: Metrics,
    /// The component whose event is being written.
    in_hand: Option<ArcStr>,
}

impl Writer {
    pub(super) fn new(queue: mpsc::Receiver<Occurrence>, client: kube::Client, metrics: Metrics) -> Self {
        let (sink, correlator) = (Sink::new(client), Correlator::new());
        Self { queue, sink, correlator, metrics, in_hand: None }
    }

    /// Writes until `stop` is cancelled or all recorders are gone.
    ///
    /// When stopped, it takes no more events, tries what is queued once each, and ends within five seconds; what could
    /// not be written by then is counted as dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        let patience = async {
            stop.cancelled().await;
            sleep(FLUSH_TIME).await;
        };
        select! {
            biased;
            () = self.write_all(&stop) => {}
            () = patience => {}
        }
        self.queue.close();
        while let Ok(left) = self.queue.try_recv() {
            self.metrics.dropped(&left.source.component, Dropped::Stopped);
        }
        if let Some(component) = self.in_hand.take() {
            self.metrics.dropped(&component, Dropped::Stopped);
        }
    }

    async fn write_all(&mut self, stop: &CancellationToken) {
        loop {
            let next = select! {
                biased;
                () = stop.cancelled(), if !self.queue.is_closed() => {
                    self.queue.close();
                    continue;
                }
                next = self.queue.recv() => next,
            };
            let Some(occurrence) = next else { return };
            let component = occurrence.source.component.clone();
            self.in_hand = Some(component.clone());
            if let Err(reason) = self.write(occurrence, stop).await {
                self.metrics.dropped(&component, reason);
            }
            self.in_hand = None;
        }
    }

    async fn write(&mut self, occurrence: Occurrence, stop: &CancellationToken) -> Result<(), Dropped> {
        let event = occurrence.into_event();
        let write =
            self.correlator.correlate(event, Instant::now(), Timestamp::now()).ok_or(Dropped::Spam)?;
        for tries in 1..=TRIES {
            let last_chance = stop.is_cancelled();
            let Err(error) = self.sink.write(&write).await else { return Ok(()) };
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
            // A random first wait, so that clients do not come all at once when the server is back.
            let wait = if tries == 1 { RETRY_WAIT.mul_f64(rand::random()) } else { RETRY_WAIT };
            if tries < TRIES {
                unless(stop, sleep(wait)).await;
            }
        }
        Err(Dropped::GaveUp)
    }
}

/// Waits, or no longer than until `stop`.
async fn unless(stop: &CancellationToken, wait: impl Future<Output = ()>) {
    select! {
        () = stop.cancelled() => {}
        () = wait => {}
    }
}

#[cfg(test)]
mod tests;
