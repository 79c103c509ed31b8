//! The node's HTTPS server, by default on port 10250: what the API server, `kubectl` by way of it, and collectors of
//! metrics ask of a node.
//!
//! | path | method | authorized as `nodes/` | what |
//! |---|---|---|---|
//! | `/healthz` | any | not at all | `ok`, or which check failed |
//! | `/healthz/{ping,log,syncloop}` | any | `healthz`, else `proxy` | one check, with its reason |
//! | `/pods` | GET | `pods`, else `proxy` | the pods the node has to run |
//! | `/runningpods/` | GET | `pods`, else `proxy` | those the runtime runs |
//! | `/configz` | GET | `configz`, else `proxy` | the configuration |
//! | `/metrics` | GET | `metrics` | metrics of the agent |
//! | `/metrics/probes` | GET | `metrics` | what probes of pods found |
//! | `/metrics/resource` | GET | `metrics` | what the node, its pods and their containers use |
//! | `/containerLogs/<namespace>/<pod>/<container>` | GET | `proxy` | a container's log |
//! | `/exec`, `/attach` `/<namespace>/<pod>[/<uid>]/<container>` | GET, POST | `proxy` | streams of a command, of a container |
//! | `/portForward/<namespace>/<pod>[/<uid>]` | GET, POST | `proxy` | streams to ports of a pod |
//! | `/run/<namespace>/<pod>[/<uid>]/<container>?cmd=` | POST | `proxy` | a command's output |
//!
//! Not offered: checkpoints, the machine's own logs, profiles, flags (all refused in words), and cadvisor's metrics and the
//! summary of statistics (404). A command for `/exec` is part of the query; bodies of requests are not read.
//!
//! A request comes from whom its client certificate (of the authority in `clientCAFile`) or its bearer token (which the API
//! server reviews) says; the API server is asked whether that user may. Nothing else decides: a request that is neither
//! `/healthz` nor anybody's gets 401, even for a path that leads nowhere. `/exec`, `/attach` and `/portForward` are
//! upgrades: the runtime says where its streaming server is, the upgrade is passed on to it, and what follows is carried
//! byte for byte in both directions, whatever its protocol is. The kubelet's feature `ExtendWebSocketsToKubelet`, which
//! translates between protocols, is not among them: a node must not declare it.
//!
//! [`steersman_serving`] has the listener, TLS, authentication and the limits. A request whose review would have to wait for
//! too long gets 429.

mod attributes;
pub mod auth;
mod container_logs;
mod health;
mod host;
mod listen;
mod metrics;
mod pods;
mod query;
mod resource_metrics;
mod route;
mod service;
mod streaming;
#[cfg(test)]
mod tests;
mod tunnel;

pub use health::serve_healthz;
pub use host::Host;
pub use listen::serve;
pub use metrics::Metrics;
pub use resource_metrics::NodeUsage;
pub use service::{Handlers, Parts};
pub use steersman_serving::{Error, bind, tls};

use steersman_serving::{answers, socket};
