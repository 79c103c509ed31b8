//! Syncs one key once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Running;
use super::batch::carry_out;
use super::busy_time::with_busy_time;
use crate::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use crate::plan::{OnFailure, Plan};

/// Maximum number of plans in one sync. If policy still wants more, it will hardly ever be done, and the sync fails. A
/// sync without faults takes a few rounds: read, create, write the status.
pub const MAX_ROUNDS: usize = 100;

/// The result of a sync.
#[derive(Debug)]
pub(super) enum Synced {
    /// The plan is done, until something changes or `requeue_after` has passed.
    Done { requeue_after: Option<Duration> },
    /// The sync did nothing because a cache is behind. The key must be synced again after this time at the latest.
    Behind(Duration),
    /// The loop was stopped in the middle of the plan. The calls that were under way have ended.
    Stopped,
    /// An observation or a step failed, or the controller panicked. The key comes again after its back-off, or after
    /// `requeue_after` if policy was asked once more and wants it sooner.
    Failed { error: SyncError, requeue_after: Option<Duration> },
}

/// Observes, plans and acts until the plan is done, and tells the controller how the sync ended. Counts and logs a panic,
/// and treats it as any other failure. Measures how long all of that kept its thread busy.
///
/// Calls `progress` after the observation and after each step. Once `stop` is cancelled, the sync begins no further step.
pub(super) async fn sync<C: Controller>(
    controller: &C,
    key: &C::Key,
    running: &Running,
    stop: &CancellationToken,
    progress: impl Fn() + Sync,
) -> Synced {
    let whole = drive_and_tell(controller, key, running, stop, progress);
    let (ended, busy) = with_busy_time(whole, Instant::now).await;
    running.metrics.busy(running.controller, busy);
    ended
}

async fn drive_and_tell<C: Controller>(
    controller: &C,
    key: &C::Key,
    running: &Running,
    stop: &CancellationToken,
    progress: impl Fn() + Sync,
) -> Synced {
    let panicked = |panic: Box<dyn Any + Send>| {
        running.metrics.panics(running.controller).inc();
        let error = SyncError::Failed(format!("panic: {}", panic_text(&*panic)));
        tracing::error!(%error, "Observed a panic");
        failed(error)
    };
    let begun = Instant::now();
    let mut observed = None;
    let drive = drive(controller, key, running, stop, progress, &mut observed);
    let driven = AssertUnwindSafe(drive).catch_unwind().await;
    let ended = driven.unwrap_or_else(panicked);
    let result = match &ended {
        // The sync has not begun, so it has not finished either.
        Synced::Behind(_) => return ended,
        // The next leader ends it.
        Synced::Stopped => return ended,
        Synced::Done { .. } => Ok(()),
        Synced::Failed { error, .. } => Err(error),
    };
    let finished = FinishedSync { took: begun.elapsed(), observed, result };
    let told = catch_unwind(AssertUnwindSafe(|| controller.finished(key, finished)));
    told.map_or_else(panicked, |()| ended)
}

/// The message of a panic.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&'static str>().copied()).unwrap_or("no message")
}

fn failed(error: SyncError) -> Synced {
    Synced::Failed { error, requeue_after: None }
}

/// Runs the sync's rounds. Keeps the observed state in `slot`, so that it outlives a panic.
async fn drive<C: Controller>(
    controller: &C,
    key: &C::Key,
    running: &Running,
    stop: &CancellationToken,
    progress: impl Fn() + Sync,
    slot: &mut Option<C::Observed>,
) -> Synced {
    let observed = match controller.observe(key).await {
        Ok(Observation::Ready(observed)) => slot.insert(observed),
        Ok(Observation::Behind(at_most)) => return Synced::Behind(at_most),
        Ok(Observation::Nothing) => return Synced::Done { requeue_after: None },
        Err(error) => return failed(error),
    };
    progress();
    let mut first_error = None;
    for _ in 0..MAX_ROUNDS {
        let batch = match (controller.plan(observed, running.clock.now()), first_error) {
            (Plan::Done { requeue_after }, Some(error)) => return Synced::Failed { error, requeue_after },
            (Plan::Done { requeue_after }, None) => return Synced::Done { requeue_after },
            (Plan::Act(_), _) if stop.is_cancelled() => return Synced::Stopped,
            (Plan::Act(batch), error) => {
                first_error = error;
                batch
            }
        };
        let results = carry_out(controller, key, observed, &batch, stop, &progress).await;
        let mut first_of_batch = None;
        for (step, result) in batch.steps.into_iter().zip(results) {
            if let (StepResult::Failed(error), None) = (&result, &first_of_batch) {
                first_of_batch = Some(error.clone());
            }
            controller.absorb(observed, step, result);
        }
        match (first_of_batch, batch.on_failure) {
            (Some(error), OnFailure::Stop) => return failed(error),
            (error, _) => first_error = first_error.or(error),
        }
    }
    let why = format!("{} is not done with {key} after planning {MAX_ROUNDS} times", running.controller);
    failed(first_error.unwrap_or(SyncError::Failed(why)))
}
