//! Candidates against a server in memory, under paused time.

mod lease_server;
mod rules;
mod terms;
