//! The owner of all event writers.

use std::sync::Arc;

use tokio::{select, sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Metrics, broadcaster::Queues, queue::Queue, sink::Sink, writer::Writer};
use crate::{Clients, Limits};

/// Writes the events of all components, each component's in a task of its own.
///
/// A component's writer writes its events one after the other, and stays with one event for up to twelve tries, 10 s
/// apart, while the API server can't be reached. Dropping this drops the writers and closes the queues.
pub struct Writers {
    queues: Arc<Queues>,
    /// Queues that have got their first event.
    started: mpsc::UnboundedReceiver<Arc<Queue>>,
    clients: Clients,
    limits: Limits,
    metrics: Metrics,
}

impl Writers {
    pub(super) fn new(
        queues: Arc<Queues>,
        started: mpsc::UnboundedReceiver<Arc<Queue>>,
        clients: Clients,
        limits: Limits,
        metrics: Metrics,
    ) -> Self {
        Self { queues, started, clients, limits, metrics }
    }

    /// Writes events until `stop` is cancelled, or until all broadcasters and recorders are dropped and the queues
    /// are empty.
    ///
    /// When stopped, the writers take no more events, try once to write each event in the queues, and end within five
    /// seconds. Events that are not written by then are counted as dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        loop {
            let queue = select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next() => {
                    log_panic(ended);
                    continue;
                }
                queue = self.started.recv() => queue,
            };
            let Some(queue) = queue else { break };
            self.start(queue, &stop, &mut tasks);
        }
        self.queues.close();
        while let Ok(queue) = self.started.try_recv() {
            self.start(queue, &stop, &mut tasks);
        }
        while let Some(ended) = tasks.join_next().await {
            log_panic(ended);
        }
    }

    fn start(&self, queue: Arc<Queue>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        let span = tracing::info_span!("event_writer", component = %queue.component());
        let clients = queue.account().map(|account| self.clients.acting_as(account));
        let clients = clients.as_ref().unwrap_or(&self.clients);
        let sink = Sink::new(clients.sender_with(queue.component(), self.limits));
        let writer = Writer::new(queue, sink, self.metrics.clone());
        tasks.spawn(writer.run(stop.clone()).instrument(span));
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.queues.close();
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "Event writer panicked, its component's events are dropped from now on");
    }
}
