//! Leader election on a `coordination.k8s.io/v1` Lease, by the rules of client-go's leaderelection package.
//!
//! A process stands as a candidate, leads for a [`Term`], loses it or gives it up, and may stand again: a lost lease
//! never ends the process. A [`Fence`](crate::fence::Fence) guards what a leader writes, and closes before another
//! candidate leads (its doc says what that assumes); the controllers need not cooperate.
//!
//! Where this is stricter than client-go:
//! - the renew deadline counts from the start of the last successful renewal, not from the first try that failed;
//! - a leader whose Lease was deleted, emptied or taken ends its term at once and stands again, where client-go would
//!   re-create or retake the Lease and go on as if nobody could have led in between;
//! - a candidate that saw the Lease creates it after a deletion only once a term of another candidate must have
//!   expired, counted from when the candidate found the Lease gone, where client-go creates it at once, while the last
//!   holder may still write. A candidate that renewed the Lease less than a renew deadline ago creates it at once: no
//!   other can have led since;
//! - the Lease of a clean stop is released always (upstream: feature gate
//!   `ControllerManagerReleaseLeaderElectionLockOnExit`).

mod config;
mod decide;
mod elector;
mod lease;
mod metrics;
mod term;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Mode, identity};
pub use elector::Elector;
pub use metrics::Metrics;
pub use term::Term;

/// How much longer than the retry period a candidate may wait, as a factor; client-go: `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;
