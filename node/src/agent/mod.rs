//! The node agent: all parts of a node, put together and kept running.
//!
//! ```text
//! build    machine measured ─> folders, cgroups ─> parts, each given what it needs; nothing runs yet
//! run      runtime answers ─> PLEG, workers, sync loop ─> Node registered and known ─> sources of pods ─> server
//! stop     sources, loop ─> workers ─> the rest; containers go on
//! ```
//!
//! [`Agent`] is the whole: `settings` translates the configuration, `assembly` connects the parts, `running` starts and ends
//! them. `syncer` says what is done to one pod, `caretaker` who may run here and what is tidied up, `host`
//! what the server shows.

mod assembly;
mod caretaker;
mod cgroup_driver;
mod error;
mod host;
mod inspect;
mod maintenance;
mod node_agent;
mod observe;
mod options;
mod parts;
mod running;
mod serving;
mod settings;
mod sources;
mod start_failures;
mod syncer;
#[cfg(test)]
mod tests;
mod unenforced;

pub use error::Error;
pub use node_agent::Agent;
pub use options::{Connections, Options};
