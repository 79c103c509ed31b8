//! Runs controllers: takes keys from queues, has controllers observe, plan and act, and knows who is stuck on what.
//!
//! ```text
//! Controllers ── one task each: jitter, caches synced ──> loops of the controller
//!   Queue     N workers: take a key ─> sync ─> forget it, park it, or add it again after its back-off
//!   Periodic  sync, wait, sync, ...
//!   Task      whatever it likes, until it is stopped
//!
//! sync: observe ─> plan ─> act ─> absorb ─> plan ─> ... ─> done
//! ```
//!
//! What holds for all loops: a panic ends one sync and nothing else; when the loop is stopped no work is begun any more,
//! and what is under way goes to its end, unless the one who waits for it runs out of patience and drops it; a loop can be
//! run again after it has ended, since leadership comes and goes.

mod batch;
mod controllers;
mod loops;
mod metrics;
mod sync;
#[cfg(test)]
mod tests;
mod watch;
mod workers;

pub use controllers::{BuiltController, Controllers, ShutdownTimeout, Timing};
pub use loops::{Loop, PeriodicLoop, TaskLoop};
pub use metrics::Metrics;
pub use sync::MAX_ROUNDS;
pub use watch::{Busy, ControllerHealth};
pub use workers::{GiveUp, QueueLoop};

/// What a loop is given to run with.
#[derive(Clone, Debug)]
pub struct Running {
    /// The controller's name, for logs, metrics and errors.
    pub controller: &'static str,
    /// What policy is told about the time.
    pub clock: crate::context::Clock,
    /// Where syncs are counted.
    pub metrics: Metrics,
}
