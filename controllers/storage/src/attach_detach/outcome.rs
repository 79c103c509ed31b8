//! What actions change in an observation.

use steersman_controller::controller::StepResult;

use super::observed::{Attachment, Observed};
use super::plan::{Action, Step};

/// The result of an action that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The action is done.
    Done,
    /// The node does not exist.
    NodeGone,
    /// What the node's status at the API server says: whether the kubelet uses the volume, and whether the node lists it.
    Use { in_use: bool, listed: bool },
    /// The VolumeAttachment at the API server, if there is one.
    Found(Option<Attachment>),
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        let now = self.now;
        let Some(site) = self.sites.get_mut(&step.node) else { return };
        let memory = &mut site.memory;
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Skipped => return,
            StepResult::Failed(_) => {
                match step.action {
                    Action::List | Action::Unlist | Action::UnlistUnused => memory.listing.fail(now),
                    Action::CheckUse | Action::Delete(_) => memory.detaching.fail(now),
                    Action::Probe | Action::Create(_) => memory.attaching.fail(now),
                    Action::Force(_) | Action::Announce | Action::Fail(_) | Action::Refuse(_) => {}
                }
                return;
            }
        };
        match (step.action, outcome) {
            (_, Outcome::NodeGone) => {
                site.node = None;
                site.is_unused = true;
            }
            (Action::List | Action::Unlist | Action::UnlistUnused, _) if site.node.is_none() => {}
            (Action::UnlistUnused, Outcome::Use { .. }) => {
                site.in_use = true;
                memory.detaching.fail(now);
            }
            (action @ (Action::List | Action::Unlist | Action::UnlistUnused), _) => {
                memory.listing.reset();
                if action != Action::List {
                    memory.announced = false;
                }
                if let Some(node) = &mut site.node {
                    node.listed = action == Action::List;
                }
            }
            (Action::CheckUse, Outcome::Use { in_use, listed }) => {
                if let Some(node) = &mut site.node {
                    node.listed = listed;
                }
                // An answer from before the volume was unlisted proves nothing.
                site.is_unused = !in_use && !listed;
                site.in_use = in_use;
                if in_use {
                    memory.detaching.fail(now);
                }
            }
            (Action::Probe | Action::Create(_), Outcome::Found(found)) => {
                site.is_probed = true;
                site.attachment = found;
                memory.attaching_since = site.attachment.is_some().then_some(now);
            }
            (Action::Delete(_), Outcome::Found(left)) => {
                memory.detaching_since = left.is_some().then_some(memory.detaching_since.unwrap_or(now));
                // The external attacher holds it by a finalizer.
                site.attachment = left.map(|left| Attachment { deleting: true, ..left });
            }
            (Action::Force(_), _) => memory.forced = true,
            (Action::Announce, _) => memory.announced = true,
            (Action::Fail(_), _) => {
                memory.attaching.fail(now);
                memory.attaching_since = None;
            }
            (Action::Refuse(_), _) => memory.reported_elsewhere = true,
            (Action::CheckUse | Action::Probe | Action::Create(_) | Action::Delete(_), _) => {}
        }
    }
}
