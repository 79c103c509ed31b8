//! How Steersman talks to an API server: connector, limits, retries, leadership, events, discovery.
//!
//! [`config_from`] tells where the server is, [`Clients`] makes clients for it: one for each controller, with its own
//! limit and user agent, over connections that all share. A [`WriteGate`] stops the writes of those who must not write.
//! [`RestMapper`] tells which resources the server has.

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
pub use config::config_from;
pub use gate::{GateClosed, WriteGate};
pub use limits::Limits;
pub use response_body::ResponseBody;
pub use rest_mapper::RestMapper;
pub use sender::Sender;
