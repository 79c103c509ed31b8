//! Candidates against a server in memory, under paused time.

mod candidates;
mod following;
mod lease_server;
mod rules;
mod terms;
