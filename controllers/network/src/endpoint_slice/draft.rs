//! A slice in the making.

use std::sync::{Arc, LazyLock};

use steersman_kinds::endpoint_slice::{Endpoint, EndpointSlice, Hints, Port};

use super::wanted::Wanted;

/// A slice as it will be.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    /// The stored slice that this one replaces; `None` for a slice to create.
    pub stored: Option<&'a Arc<EndpointSlice>>,
    /// The slice's ports.
    pub ports: &'a [Port],
    /// The slice's endpoints. An unchanged slice of a service whose endpoints have no hints and get none is not listed.
    pub entries: Vec<Entry<'a>>,
    /// What happens to the slice.
    pub action: Action,
}

/// An endpoint of a slice, with its hints.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// The endpoint.
    pub wanted: &'a Wanted,
    /// The endpoint's hints.
    pub hints: Option<Arc<Hints>>,
}

/// What happens to a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing, unless its hints change.
    Leave,
    /// It is written because its hints may change.
    WriteHints,
    /// It is created, or written because its endpoints or labels change.
    Write,
    /// It is deleted.
    Delete,
}

impl Draft<'_> {
    /// Whether there will be such a slice.
    pub(super) fn is_kept(&self) -> bool {
        self.action != Action::Delete
    }

    /// Whether nothing has changed in the slice so far.
    pub(super) fn is_unchanged(&self) -> bool {
        self.action == Action::Leave
    }

    /// Writes the slice, whose hints change.
    pub(super) fn write(&mut self) {
        if self.action == Action::Leave {
            self.action = Action::WriteHints;
        }
    }

    /// Whether the slice must be written: not if only its hints were to change, and they have not.
    pub(super) fn must_be_written(&self) -> bool {
        match (self.action, self.stored) {
            (Action::Write, _) => true,
            (Action::WriteHints, Some(stored)) => {
                let hints = |entry: &Entry<'_>| entry.hints.as_deref().cloned();
                let are = stored.members().iter().map(|member| member.hints.as_deref().cloned());
                !are.eq(self.entries.iter().map(hints))
            }
            _ => false,
        }
    }

    /// The slice's endpoints with their hints.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |entry: &Entry<'_>| Endpoint {
            hints: entry.hints.as_deref().cloned(),
            ..entry.wanted.endpoint.clone()
        };
        self.entries.iter().map(endpoint).collect()
    }
}

impl Entry<'_> {
    /// The endpoint's hints; empty ones if it has none.
    pub(super) fn hints(&self) -> &Hints {
        static NONE: LazyLock<Hints> = LazyLock::new(Hints::default);
        self.hints.as_deref().unwrap_or(&NONE)
    }
}

/// Removes the hints of all endpoints, as upstream's `RemoveHintsFromSlices`.
pub(super) fn remove_hints(drafts: &mut [Draft<'_>]) {
    for draft in drafts.iter_mut().filter(|draft| draft.is_kept()) {
        if draft.entries.iter().any(|entry| entry.hints.is_some()) {
            draft.write();
            draft.entries.iter_mut().for_each(|entry| entry.hints = None);
        }
    }
}
