//! A cluster on one thread, with the faults of a seed: an API server, two controller managers that compete for a Lease, nodes, and
//! users who change their minds. Time is paused: it jumps to the next moment at which something is to happen.
//!
//! Faults: the network delays, loses and doubles requests, holds them, and breaks connections; managers are killed and started; the
//! API server is away; wall clocks jump; nodes fall silent.
//!
//! Invariants at every moment: only the leader writes, and no index of a Job runs twice at the same time. When the faults have ended,
//! users get what they want, the caches of each manager equal the API server, and a namespace is deleted with all its objects.
//!
//! A seed decides on the faults, and mostly on what users and nodes do. Two runs of a seed still differ in the order of tasks and in
//! generated names. A run that fails prints its story.

mod invariants;
mod network;
mod nodes;
mod process;
mod users;
mod world;

pub use world::{Summary, run};
