//! A cluster on one thread, with the faults of a seed: an API server, two controller managers that compete for a Lease, nodes, and
//! users who change their minds. Time is paused: it jumps to the next moment at which something is to happen.
//!
//! Faults: the network delays, loses and doubles requests, holds them, and breaks connections; managers are killed, frozen and started;
//! the API server is away, loses its power, and its disk fails and fills up; wall clocks jump; nodes fall silent.
//!
//! Invariants at every moment: only the leader writes, no index of a Job runs twice at the same time, and the API server keeps each
//! version that it has told somebody of. When the faults have ended, users get what they want, the caches of each manager equal the API
//! server, and a namespace is deleted with all its objects. When the cluster has ended, its memory is free.
//!
//! A seed decides on everything: `steersman_replay` replaces randomness and clocks, and hosts take turns on one thread. So two runs
//! of a seed by one build of the program tell the same story, with the same requests.

mod api_server;
mod faults;
mod hosts;
mod invariants;
mod network;
mod nodes;
mod process;
mod users;
mod world;

pub use world::{Summary, run};
