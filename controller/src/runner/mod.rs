//! Runs controllers: takes keys from queues, calls controllers to observe, plan and act, and reports workers that are
//! stuck.
//!
//! ```text
//! Controllers ── one task each: jitter, caches synced ──> loops of the controller
//!   Queue     N workers: take a key ─> sync ─> forget it, park it, or requeue it after its back-off
//!   Periodic  sync, wait, sync, ...
//!   Task      a future of the controller's own, until the runner stops it
//!
//! sync: observe ─> plan ─> act ─> absorb ─> plan ─> ... ─> done
//! ```
//!
//! All loops have in common:
//! - a panic ends one sync and nothing else;
//! - a loop that is stopped begins no further sync and no further step of a plan. It waits for the calls under way, unless
//!   the shutdown timeout passes and the runner drops them;
//! - a loop can run again after it has ended, since a process may lead again.

mod batch;
mod busy_time;
mod controllers;
mod failures;
mod loops;
mod metrics;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod watch;
mod workers;

pub use controllers::{BuiltController, Controllers, ShutdownTimeout, Timing};
pub use failures::Failure;
pub use loops::{Loop, PeriodicLoop, TaskLoop};
pub use metrics::Metrics;
pub use status::{
    ControllerStatus, Disabled, LoopSort, LoopStatus, QueueState, RetryState, Stage, WaitingState,
};
pub use sync::MAX_ROUNDS;
pub use watch::{Busy, CacheHealth, ControllerHealth};
pub use workers::{GiveUp, QueueLoop};

/// The context that a loop runs in.
#[derive(Clone, Debug)]
pub struct Running {
    /// The controller's name, for logs, metrics and errors.
    pub controller: &'static str,
    /// The clock whose time policy sees.
    pub clock: crate::context::Clock,
    /// Counts syncs.
    pub metrics: Metrics,
}
