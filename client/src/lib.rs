#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! How Steersman talks to an API server: connector, limits, retries, leadership, events, discovery.
//!
//! [`config_from`] reads the address and credentials of the API server. [`Clients`] makes a client for each
//! controller, with a rate limit and user agent of its own, over shared connections. A [`WriteGate`] stops the writes
//! of a process that must not write, such as one that does not lead. [`RestMapper`] maps kinds to the server's
//! resources and back.

pub mod clients;
pub mod config;
pub mod discovery;
pub mod events;
pub mod fault;
pub mod fence;
pub mod gate;
pub mod leader_election;
pub mod limits;
pub mod metrics;
pub mod rest_mapper;
pub mod retry;
pub mod service_accounts;
pub mod traffic;
pub mod transport;

mod attempt;
mod host_metrics;
mod response_body;
mod sender;
mod service;
#[cfg(test)]
mod testing;

pub use clients::Clients;
pub use config::{config_from, root_ca};
pub use gate::{GateClosed, WriteGate};
pub use limits::Limits;
pub use response_body::ResponseBody;
pub use rest_mapper::RestMapper;
pub use sender::Sender;
