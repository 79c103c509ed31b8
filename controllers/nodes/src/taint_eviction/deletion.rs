//! Deletes the pods whose time on their node is over.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use steersman_api::{ObjectKey, Status, Time};
use steersman_client::events::EventType;
use steersman_controller::client::{Changed, Client, Delete, Deleted, Patch};
use steersman_controller::controller::SyncError;
use steersman_kinds::pod::{Disruption, Pod};
use tokio::select;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::event;
use super::evictions::Evictions;
use super::metrics::Metrics;
use super::timers::Due;

/// Maximum number of deletions under way. The client's rate limit is far lower in the long run.
const AT_ONCE: usize = 64;
/// How often a deletion is tried at once, as upstream. Unlike upstream, the controller tries again later.
const TRIES: u32 = 5;
/// The wait between these.
const PAUSE: Duration = Duration::from_millis(10);

/// Deletes pods when their timers fire.
pub(super) struct Deletions {
    pub evictions: Arc<Evictions>,
    pub client: Client<Pod>,
    pub metrics: Metrics,
}

impl Deletions {
    /// Runs until `stop` is cancelled and the deletions under way have ended.
    pub(super) async fn run(&self, stop: CancellationToken) {
        self.evictions.term_begins();
        let mut under_way = FuturesUnordered::new();
        while !stop.is_cancelled() {
            while under_way.len() < AT_ONCE
                && let Some(due) = self.next_due()
            {
                under_way.push(async move { (self.delete(&due).await, due) });
            }
            let next = self.evictions.state.lock().timers.next().filter(|_| under_way.len() < AT_ONCE);
            select! {
                () = stop.cancelled() => {}
                Some((result, due)) = under_way.next() => self.ended(&due, &result),
                () = async { sleep_until(next.expect("guarded")).await }, if next.is_some() => {}
                () = self.evictions.earlier.notified() => {}
            }
        }
        while let Some((result, due)) = under_way.next().await {
            self.ended(&due, &result);
        }
    }

    fn next_due(&self) -> Option<Due> {
        self.evictions.state.lock().timers.due(Instant::now())
    }

    fn ended(&self, due: &Due, result: &Result<(), SyncError>) {
        let mut state = self.evictions.state.lock();
        match result {
            Ok(()) => state.timers.deleted(due),
            Err(error) => {
                state.timers.failed(due, Instant::now());
                if !error.is_end_of_leadership() {
                    tracing::warn!(pod = %due.pod, %error, "Failed to delete pod, retrying");
                }
            }
        }
    }

    async fn delete(&self, due: &Due) -> Result<(), SyncError> {
        if due.attempts == 0 {
            tracing::info!(pod = %due.pod, "Deleting pod");
            let message = format!("Marking for deletion Pod {}", due.pod);
            event(&self.evictions.recorder, &due.pod, EventType::Normal, message);
        }
        let mut tried = 1;
        loop {
            match self.mark_and_delete(due).await {
                Ok(deleted) => {
                    if deleted == Outcome::Deleted {
                        self.metrics.deleted(due.at.elapsed());
                    }
                    return Ok(());
                }
                Err(error) if tried == TRIES || error.is_end_of_leadership() => return Err(error),
                Err(_) => {
                    tried += 1;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Sets the condition `DisruptionTarget`, and deletes the pod with its own grace period. A pod that is gone, or another
    /// pod of the same name, needs nothing.
    async fn mark_and_delete(&self, due: &Due) -> Result<Outcome, SyncError> {
        let patch = Patch::Strategic(self.mark(&due.pod, due));
        match self.client.patch_status(&due.pod, &patch).await? {
            Changed::Now(_) => {}
            Changed::Gone => return Ok(Outcome::Gone),
            Changed::Conflict(status) => return self.conflict(due, "marking", status),
        }
        match self.client.delete(&due.pod, &Delete::of(&due.uid)).await? {
            Deleted::Now(..) => Ok(Outcome::Deleted),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => self.conflict(due, "deleting", status),
        }
    }

    /// Tells the two causes of a conflict apart: another pod has the name, or other writers of this pod came first.
    fn conflict(&self, due: &Due, doing: &str, status: Box<Status>) -> Result<Outcome, SyncError> {
        let pod = self.evictions.pods.get(&due.pod);
        // A pod that can't be read exists.
        if pod.is_ok_and(|pod| pod.is_none_or(|pod| pod.meta().uid != due.uid)) {
            return Ok(Outcome::Gone);
        }
        Err(SyncError::Refused { what: format!("{doing} Pod {}", due.pod), status })
    }

    fn mark(&self, key: &ObjectKey, due: &Due) -> Value {
        let pod = self.evictions.pods.get(key).ok().flatten().filter(|pod| pod.meta().uid == due.uid);
        let target = pod.as_ref().map(|pod| pod.get::<Disruption>().target);
        let since = target.filter(|target| target.is_true()).and_then(|target| target.last_transition_time);
        let generation = pod.map_or(0, |pod| pod.meta().generation);
        let mut condition = mark(since.unwrap_or(self.evictions.clock.now()));
        // Zero if the API server does not count generations of pods.
        if generation != 0 {
            condition["observedGeneration"] = generation.into();
        }
        json!({"metadata": {"uid": due.uid}, "status": {"conditions": [condition]}})
    }
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Deleted,
    Gone,
}

fn mark(since: Time) -> Value {
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastProbeTime": null,
        "lastTransitionTime": since,
    })
}
