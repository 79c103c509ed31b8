//! Carries out the steps of a plan at the plan's pace.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, StepResult};
use crate::plan::{Batch, Pace};

/// Carries out the steps of a batch, and returns a result for each, in their order. Calls `done` after each step, and begins
/// no step once `stop` is cancelled.
///
/// All steps run in the caller's task: dropping the future drops every step that is under way.
pub(super) async fn carry_out<C: Controller>(
    controller: &C,
    key: &C::Key,
    observed: &C::Observed,
    Batch { steps, pace, .. }: &Batch<C::Step>,
    stop: &CancellationToken,
    done: impl Fn() + Sync,
) -> Vec<StepResult<C::Outcome>> {
    let mut results: Vec<_> = steps.iter().map(|_| StepResult::Skipped).collect();
    let (mut round, at_once, then) = match *pace {
        Pace::InOrder => (1, 1, Then::Stop),
        Pace::SlowStart => (1, usize::MAX, Then::Stop),
        Pace::Together(at_most) => (steps.len(), at_most.max(1), Then::GoOn),
    };
    let mut begun = 0;
    while begun < steps.len() {
        let end = begun.saturating_add(round).min(steps.len());
        let mut stopped = false;
        let mut under_way = FuturesUnordered::new();
        loop {
            while begun < end && under_way.len() < at_once && !stop.is_cancelled() {
                under_way.push(carry_out_one(controller, key, observed, begun, &steps[begun]));
                begun += 1;
            }
            let Some((index, result)) = under_way.next().await else { break };
            done();
            stopped |= match &result {
                StepResult::Done(outcome) => controller.ends_batch(outcome),
                StepResult::Failed(_) | StepResult::Skipped => true,
            };
            results[index] = result;
        }
        if stopped && then == Then::Stop || stop.is_cancelled() {
            break;
        }
        if *pace == Pace::SlowStart {
            round = round.saturating_mul(2);
        }
    }
    results
}

/// What a failure, or an outcome that ends the batch, does to the steps after its round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Stop,
    GoOn,
}

async fn carry_out_one<C: Controller>(
    controller: &C,
    key: &C::Key,
    observed: &C::Observed,
    index: usize,
    step: &C::Step,
) -> (usize, StepResult<C::Outcome>) {
    (index, controller.act(key, observed, step).await.map_or_else(StepResult::Failed, StepResult::Done))
}
