//! One sync of one key.

use std::time::Duration;

use super::{Running, batch::carry_out};
use crate::controller::{Controller, Observation, StepResult, SyncError};
use crate::plan::{OnFailure, Plan};

/// How often policy may be asked within one sync. A plan that is still not done then will hardly ever be: the sync fails.
/// (The longest honest one takes a few rounds: read, create, write the status.)
pub const MAX_ROUNDS: usize = 100;

/// How a sync ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// Policy has nothing more to do, until something changes or so long has passed.
    Done { requeue_after: Option<Duration> },
    /// Nothing was done: the cache is behind. It will have caught up, or never will, after so long.
    Behind(Duration),
}

/// Observes, plans and acts until there is nothing more to do, and tells the controller how it ended.
///
/// `progress` is called whenever something was got done.
pub(super) async fn sync<C: Controller>(
    controller: &C,
    key: &C::Key,
    running: &Running,
    progress: impl Fn() + Sync,
) -> Result<Synced, SyncError> {
    let ended = drive(controller, key, running, progress).await;
    match &ended {
        // Nothing was begun, so that nothing ended.
        Ok(Synced::Behind(_)) => {}
        Ok(Synced::Done { .. }) => controller.finished(key, Ok(())),
        Err(error) => controller.finished(key, Err(error)),
    }
    ended
}

async fn drive<C: Controller>(
    controller: &C,
    key: &C::Key,
    running: &Running,
    progress: impl Fn() + Sync,
) -> Result<Synced, SyncError> {
    let mut observed = match controller.observe(key).await? {
        Observation::Ready(observed) => observed,
        Observation::Behind(at_most) => return Ok(Synced::Behind(at_most)),
        Observation::Nothing => return Ok(Synced::Done { requeue_after: None }),
    };
    progress();
    let mut first_error = None;
    for _ in 0..MAX_ROUNDS {
        let batch = match (controller.plan(&observed, running.clock.now()), first_error) {
            (Plan::Done { .. }, Some(error)) => return Err(error),
            (Plan::Done { requeue_after }, None) => return Ok(Synced::Done { requeue_after }),
            (Plan::Act(batch), error) => {
                first_error = error;
                batch
            }
        };
        let results = carry_out(controller, key, &batch.steps, batch.pace, &progress).await;
        let mut failed = None;
        for (step, result) in batch.steps.into_iter().zip(results) {
            if let (StepResult::Failed(error), None) = (&result, &failed) {
                failed = Some(error.clone());
            }
            controller.absorb(&mut observed, step, result);
        }
        match (failed, batch.on_failure) {
            (Some(error), OnFailure::Stop) => return Err(error),
            (failed, _) => first_error = first_error.or(failed),
        }
    }
    let why = format!("{} is not done with {key} after planning {MAX_ROUNDS} times", running.controller);
    Err(first_error.unwrap_or(SyncError::Failed(why)))
}
