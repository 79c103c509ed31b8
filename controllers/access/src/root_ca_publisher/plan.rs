//! Whether a namespace's ConfigMap is as it should be.

use steersman_controller::plan::Plan;
use steersman_kinds::config_map::PublishedCa;
use steersman_kinds::content_digest::ContentDigest;

/// The ConfigMap of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// There is none.
    Missing,
    /// The cache, or the API server, has it.
    Found {
        /// Its data.
        data: PublishedCa,
        /// Whether it says what it is for, in whatever words.
        is_described: bool,
    },
    /// As it should be, or nothing can be done about it.
    Settled,
}

/// An action of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the ConfigMap.
    Create,
    /// Set the ConfigMap's data and its description.
    Restore,
}

/// Creates a missing ConfigMap, and restores one that has other data than this certificate authority, or no description.
pub(super) fn plan(map: Observed, ca: ContentDigest) -> Plan<Step> {
    match map {
        Observed::Missing => Plan::step(Step::Create),
        Observed::Found { data: PublishedCa { ca: Some(found), has_others: false }, is_described: true }
            if found == ca =>
        {
            Plan::done()
        }
        Observed::Found { .. } => Plan::step(Step::Restore),
        Observed::Settled => Plan::done(),
    }
}
