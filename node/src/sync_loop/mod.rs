//! The sync loop: what sources say, what the PLEG and probes notice, and what time brings, become updates of pod workers.
//!
//! ```text
//! PodConfig --updates--\
//! PLEG ----- events ----+--> SyncLoop --updates--> PodWorkers
//! probes --- updates ---+       |  \--refusals---> StatusManager
//! each second, due pods-+       \--each two seconds--> housekeeping: observe the node, plan, act
//! ```
//!
//! It is the one place that says which pods there are. It never waits for any one pod or for the runtime: housekeeping's
//! reads and removals run beside it, what follows from them is decided in one go. So does the end of pods that make room for
//! one that the node can't do without: pods that come meanwhile [wait](Held) to be admitted. While the runtime is
//! [not well](RuntimeState) the loop rests, and what comes in waits.

pub mod active_deadline;
pub mod agent;
pub mod container_deletor;
mod handlers;
mod held;
mod housekeeping;
mod metrics;
mod run;
pub mod runtime_state;
#[cfg(test)]
mod tests;

pub use agent::{Agent, CleanUp, OnNode};
pub use container_deletor::{ContainerDeletor, ContainerRemover, Deletions};
pub use held::Held;
pub use metrics::Metrics;
pub use run::{Inputs, LoopHealth, Parts, SyncLoop};
pub use runtime_state::RuntimeState;
