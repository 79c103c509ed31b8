//! Leader election on a `coordination.k8s.io/v1` Lease, by the rules of client-go's leaderelection package.
//!
//! A process is a candidate, leads for a [`Term`], loses or releases it, and may then be a candidate again: losing
//! the lease does not end the process. A [`Fence`](crate::fence::Fence) stops the leader's writes before another
//! candidate leads, under the assumptions in its doc. The controllers need not cooperate.
//!
//! A candidate watches the Lease, so that it takes a Lease as soon as it is released or has expired. client-go polls it
//! every 2 to 4.4 s. Where the watch fails, stalls or is forbidden, candidates poll as client-go does. The role
//! `system:kube-controller-manager` allows the watch.
//!
//! This is stricter than client-go in four points:
//! - the renew deadline counts from the start of the last successful renewal, not from the first try that failed;
//! - a leader that finds its Lease deleted, emptied or taken ends its term at once and becomes a candidate again.
//!   client-go re-creates or retakes the Lease and continues, although another candidate may have led in between;
//! - a candidate that has seen the Lease waits after its deletion until the term of any other candidate must have
//!   expired, counted from when the candidate found the Lease gone. client-go creates the Lease at once, while the
//!   last holder may still write. The exception is a candidate that renewed the Lease less than a renew deadline ago:
//!   it creates the Lease at once, since no other candidate can have led since then;
//! - a clean stop always releases the Lease (upstream: feature gate
//!   `ControllerManagerReleaseLeaderElectionLockOnExit`).

mod config;
mod decide;
mod elector;
mod lease;
mod lease_watch;
mod metrics;
mod term;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Mode, identity};
pub use elector::Elector;
pub use metrics::Metrics;
pub use term::Term;

/// Maximum jitter that a candidate adds to the retry period, as a multiple of it; client-go: `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;
