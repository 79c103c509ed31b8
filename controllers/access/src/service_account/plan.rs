//! Whether a namespace lacks its service account.

use steersman_controller::plan::Plan;

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// Whether objects can be created in the namespace.
    pub is_active: bool,
    /// Whether the namespace has the account.
    pub has_account: bool,
}

/// An action of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the account.
    Create,
}

/// Creates an account that an active namespace lacks.
pub(super) fn plan(namespace: Observed) -> Plan<Step> {
    match namespace {
        Observed { is_active: true, has_account: false } => Plan::step(Step::Create),
        _ => Plan::done(),
    }
}
