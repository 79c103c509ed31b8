//! What to do for a claim: release it from consumers that are done, and take its devices back after the last one.

use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_kinds::device_allocation::Consumer;

use super::facts::ClaimFacts;

/// Maximum number of pods that a sync reads from the API server at a time.
const READS: usize = 8;

/// What a sync of a claim decides on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClaimObserved {
    pub claim: ClaimFacts,
    /// What is known of each consumer in `claim.reserved_for`, in that order.
    pub consumers: Vec<ConsumerState>,
    /// The pod that owns the claim.
    pub owner: Owner,
    /// Whether this sync has released the claim from a consumer.
    pub has_released: bool,
}

/// What is known of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ConsumerState {
    /// The consumer may use the claim. So may one of a kind that this program does not know.
    #[default]
    Uses,
    /// The consumer is a pod that is gone, or that certainly will not run any more.
    Done,
    /// The cache does not have a pod of that name and uid: only the API server knows whether it exists.
    Doubtful,
}

/// The pod that owns a claim that was made for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// No pod owns the claim, or the pod may run. If the cache has no pod of that name, the garbage collector deletes the
    /// claim once the pod is gone.
    #[default]
    Keeps,
    /// The pod certainly will not run any more.
    Done,
    /// The cache has another pod of that name: only the API server knows whether the owner exists.
    Doubtful,
}

/// A step of a sync of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimStep {
    /// Ask the API server whether this consumer exists.
    ReadConsumer(Consumer),
    /// Ask the API server whether the owner exists.
    ReadOwner,
    /// Write the status: only these consumers are left. Without any, the allocation goes as well if the claim has the
    /// finalizer.
    Release(Vec<Consumer>),
    /// Write the status: the allocation goes.
    Deallocate,
    /// Remove the finalizer, so that the claim can be deleted.
    RemoveFinalizer,
    /// Delete the claim.
    Delete,
}

/// Decides on the next steps for a claim.
pub(super) fn plan(observed: &ClaimObserved) -> Plan<ClaimStep> {
    let ClaimObserved { claim, consumers, owner, has_released } = observed;
    let states = || claim.reserved_for.iter().zip(consumers);
    let doubtful = states().filter(|(_, state)| **state == ConsumerState::Doubtful);
    let reads: Vec<_> = doubtful.map(|(consumer, _)| ClaimStep::ReadConsumer(consumer.clone())).collect();
    if !reads.is_empty() {
        return Plan::Act(Batch { steps: reads, pace: Pace::Together(READS), on_failure: OnFailure::Stop });
    }
    if consumers.contains(&ConsumerState::Done) {
        let left = states().filter(|(_, state)| **state != ConsumerState::Done);
        return Plan::step(ClaimStep::Release(left.map(|(consumer, _)| consumer.clone()).collect()));
    }
    let is_unused = claim.reserved_for.is_empty();
    if claim.has_finalizer() {
        // kube-scheduler adds the finalizer before it allocates the claim, so that a claim which merely is not allocated may
        // be about to be.
        if *has_released && !claim.is_allocated {
            return Plan::step(ClaimStep::RemoveFinalizer);
        }
        if claim.meta.is_deleting() && is_unused {
            return Plan::step(if claim.is_allocated {
                ClaimStep::Deallocate
            } else {
                ClaimStep::RemoveFinalizer
            });
        }
    }
    if !is_unused || claim.meta.is_deleting() {
        return Plan::done();
    }
    match owner {
        Owner::Keeps => Plan::done(),
        Owner::Doubtful => Plan::step(ClaimStep::ReadOwner),
        Owner::Done => Plan::step(ClaimStep::Delete),
    }
}

impl ClaimObserved {
    /// Records whether a consumer exists.
    pub(super) fn read_consumer(&mut self, consumer: &Consumer, exists: bool) {
        let state = if exists { ConsumerState::Uses } else { ConsumerState::Done };
        let all = self.claim.reserved_for.iter().zip(&mut self.consumers);
        all.filter(|(one, _)| *one == consumer).for_each(|(_, known)| *known = state);
    }

    /// Takes over the claim's state after a write. Its consumers are those that are left.
    pub(super) fn written(&mut self, claim: ClaimFacts) {
        self.consumers = vec![ConsumerState::Uses; claim.reserved_for.len()];
        self.claim = claim;
    }
}
