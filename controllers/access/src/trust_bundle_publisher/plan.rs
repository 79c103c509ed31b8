//! What to do about the bundles of the signer.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use steersman_api::{ArcStr, Uid};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::SIGNER;

/// How many bytes of the digest are in a bundle's name.
const NAMED_BYTES: usize = 12;

/// The bundles of the signer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// The bundle of the present authority.
    pub current: Current,
    /// The other bundles, by name and uid.
    pub others: Vec<(ArcStr, Uid)>,
}

/// The state of the bundle of the present authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Current {
    /// There is no bundle of that name.
    #[default]
    Missing,
    /// It has other certificates than its name says.
    Wrong,
    /// It is as it should be.
    Right,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the bundle.
    Create,
    /// Set the bundle's certificates.
    Restore,
    /// Delete another bundle of the signer.
    Delete(ArcStr, Uid),
}

/// Publishes the bundle, and deletes the others after that.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    match observed.current {
        Current::Missing => return Plan::step(Step::Create),
        Current::Wrong => return Plan::step(Step::Restore),
        Current::Right => {}
    }
    let steps: Vec<_> =
        observed.others.iter().map(|(name, uid)| Step::Delete(name.clone(), uid.clone())).collect();
    if steps.is_empty() {
        return Plan::done();
    }
    // One that can't be deleted does not hold up the others.
    Plan::Act(Batch { steps, pace: Pace::Together(1), on_failure: OnFailure::Stop })
}

/// The name of the bundle with these certificates. Upstream: `constructBundleName`.
pub(super) fn bundle_name(certificates: &str) -> ArcStr {
    let mut name = format!("{}:", SIGNER.replace('/', ":"));
    for byte in &digest(&SHA256, certificates.as_bytes()).as_ref()[..NAMED_BYTES] {
        _ = write!(name, "{byte:02x}");
    }
    name.into()
}
