//! Decides which claim a pod lacks.

use steersman_api::{ArcStr, Meta};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

/// A pod and the claims for its generic ephemeral volumes.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The pod's metadata.
    pub pod: Meta,
    /// The volumes, in the order of the pod's spec.
    pub volumes: Vec<Volume>,
    /// Whether a step found that the pod needs no claims any more.
    pub is_over: bool,
}

/// A generic ephemeral volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// The volume's name in the pod.
    pub name: ArcStr,
    /// The name of the volume's claim.
    pub claim: ArcStr,
    /// Whether the claim exists.
    pub state: State,
}

/// Whether the claim of a volume exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is no claim of that name.
    Missing,
    /// The claim was made for the pod.
    Made,
    /// The claim of that name was not made for the pod.
    Foreign,
}

/// An action of the controller, on the volume at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the claim.
    Create(usize),
    /// Tell the pod's user that the claim is not the pod's, and fail.
    Refuse(usize),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The claim is in this state.
    Is(State),
    /// The pod is gone or being deleted, or its namespace is.
    Over,
}

impl State {
    /// The state of a claim with this metadata, for `pod`. `None`: there is none. Upstream: `VolumeIsForPod`.
    pub(super) fn of(claim: Option<&Meta>, pod: &Meta) -> Self {
        match claim {
            None => Self::Missing,
            Some(claim) if claim.is_controlled_by(&pod.uid) => Self::Made,
            Some(_) => Self::Foreign,
        }
    }
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: &StepResult<Outcome>) {
        let (Step::Create(at) | Step::Refuse(at)) = step;
        match result {
            StepResult::Done(Outcome::Is(state)) => self.volumes[at].state = *state,
            StepResult::Done(Outcome::Over) => self.is_over = true,
            StepResult::Failed(_) | StepResult::Skipped => {}
        }
    }
}

/// Creates the missing claims one after the other, and stops at the first that is another's.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.is_over || observed.pod.is_deleting() {
        return Plan::done();
    }
    let lacking = observed.volumes.iter().position(|volume| volume.state != State::Made);
    lacking.map_or_else(Plan::done, |at| {
        Plan::step(match observed.volumes[at].state {
            State::Foreign => Step::Refuse(at),
            State::Missing | State::Made => Step::Create(at),
        })
    })
}
