//! What a sync of a service decides on.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_api::{ArcStr, Time};
use steersman_controller::children::Grounds;
use steersman_controller::controller::StepResult;
use steersman_informer::View;
use steersman_kinds::endpoint_slice::EndpointSlice;

use super::step::{Note, Step};
use super::topology::Ratios;
use crate::membership::{RoutedService, ServedPod, Triggers};
use crate::slices::Outcome;

/// The zones of nodes, by the nodes' names. A node without a zone is in it as well.
pub(super) type Zones = HashMap<ArcStr, Option<ArcStr>>;

/// A service with its pods and slices, and what the sync has done so far.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The service.
    pub service: View<RoutedService>,
    /// The pods that the service selects, in no particular order.
    pub pods: Vec<View<ServedPod>>,
    /// The nodes of these pods, as far as they are known.
    pub zones: Zones,
    /// The service's slices that this controller manages, by name.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Whether these are all of them, so that the sync may write.
    pub grounds: Grounds,
    /// Maximum number of endpoints in a slice.
    pub max_endpoints: usize,
    /// The zones' shares in the processors of the cluster.
    pub ratios: Ratios,
    /// Whether an earlier sync gave the service's endpoints topology aware hints.
    pub had_hints: bool,
    /// The time that a write must put into the annotation of the trigger time; `None` removes the annotation.
    pub trigger: Option<Time>,
    /// The times of changes that `trigger` was chosen from. The next sync compares its own with them.
    pub triggers: Triggers,
    /// The parts that the sync has begun, in order.
    pub begun: Vec<Note>,
    /// The parts of `begun` that failed, or could not be completed.
    pub incomplete: Vec<usize>,
    /// Why steps failed, in upstream's words.
    pub failures: Vec<String>,
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        if step == Step::Confirm {
            if let StepResult::Done(Outcome::Slices(slices)) = result {
                (self.slices, self.grounds) = (slices, Grounds::Sure);
            }
            return;
        }
        if let Step::Begin(note) = step {
            // Later parts of the sync do not tell again that hints are enabled.
            self.had_hints = note.hints.is_some() || (self.had_hints && note.keeps_hints);
            self.begun.push(*note);
            return;
        }
        if !matches!(result, StepResult::Done(Outcome::Done)) && !self.begun.is_empty() {
            self.incomplete.push(self.begun.len() - 1);
        }
        if let StepResult::Failed(error) = result {
            let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
            let failure = step.failure(&self.service.meta().key, &why);
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }

    /// The errors of the sync as one text, as upstream's aggregate prints them.
    pub(super) fn failure(&self) -> String {
        match &self.failures[..] {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}
