//! The state of a namespace's deletion.

use steersman_api::{ArcStr, GroupVersionResource, Meta, Uid};
use steersman_controller::controller::StepResult;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::namespace::{Namespace as Kind, NamespaceFinalizers, NamespaceStatus};

use super::conditions::Status;
use super::contents::{Content, Contents, Leftover, Progress};
use super::plan::Step;

/// A namespace's deletion, as far as one sync knows it. Each sync begins anew: objects may have come in the meantime.
#[derive(Debug, Default)]
pub(super) struct Deletion {
    /// The namespace.
    pub namespace: Sight,
    /// What the namespace holds. `None` until the sync has discovered the API server's kinds.
    pub contents: Option<Contents>,
    /// Whether the sync has written the conditions, or has tried to.
    pub is_reported: bool,
}

/// A namespace, as the API server shows it.
#[derive(Debug)]
pub(super) enum Sight {
    /// The sync has to read the namespace. It must have this uid, if the sync has read it before.
    Unread(Option<Uid>),
    /// The namespace.
    Found(Box<Namespace>),
    /// The namespace is gone, or another one has its name.
    Gone,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Namespace {
    pub meta: Meta,
    /// The finalizers of the spec.
    pub finalizers: Vec<ArcStr>,
    pub status: Status,
}

/// The result of a [`Step`] that did not end the sync.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The namespace after a read or a write.
    Namespace(Sight),
    /// The conditions could not be written.
    NotReported,
    /// The kinds of the API server.
    Discovered(Contents),
    /// The result of a call for the objects of a kind.
    Called(GroupVersionResource, Called),
}

/// The result of a call for the objects of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The API server has accepted the deletion of the objects.
    Deleted,
    /// The API server can't delete the objects of this kind at once.
    Unsupported,
    /// The objects.
    Counted(Leftover),
    /// The call failed with this error.
    Failed(String),
}

impl Default for Sight {
    fn default() -> Self {
        Self::Unread(None)
    }
}

impl Namespace {
    pub(super) fn of(namespace: &Kind) -> Self {
        let groups = NamespaceFinalizers::of(namespace).zip(NamespaceStatus::of(namespace));
        let (spec, status) = groups.expect("the groups that the controller reads must be kept");
        Self {
            meta: namespace.meta().clone(),
            finalizers: spec.finalizers.iter().map(|finalizer| finalizer.as_arc().clone()).collect(),
            status: Status::of(status),
        }
    }
}

impl Deletion {
    /// The namespace.
    ///
    /// # Panics
    /// If the sync has not read it.
    pub(super) fn found(&self) -> &Namespace {
        match &self.namespace {
            Sight::Found(namespace) => namespace,
            Sight::Unread(_) | Sight::Gone => panic!("the plan must begin with reading the namespace"),
        }
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: &Step, result: StepResult<Outcome>) {
        let StepResult::Done(outcome) = result else { return };
        match outcome {
            Outcome::Namespace(sight) => {
                self.is_reported |= matches!((step, &sight), (Step::WriteConditions(_), Sight::Found(_)));
                self.namespace = sight;
            }
            Outcome::NotReported => self.is_reported = true,
            Outcome::Discovered(contents) => self.contents = Some(contents),
            Outcome::Called(kind, called) => {
                let contents = self.contents.as_mut();
                if let Some(content) = contents.and_then(|contents| contents.kinds.get_mut(&kind)) {
                    content.absorb(called);
                }
            }
        }
    }
}

impl Content {
    fn absorb(&mut self, called: Called) {
        match called {
            Called::Deleted => self.progress = self.verbs.deleted(),
            Called::Unsupported => self.progress = self.verbs.refused(),
            Called::Counted(left) => self.counted(left),
            Called::Failed(error) => self.progress = Progress::Failed(error),
        }
    }
}
