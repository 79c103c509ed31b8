//! An embedded Kubernetes API server: all kinds of Kubernetes 1.36, in process and in memory.
//!
//! Tests use it through [`TestServer`]. A request's way: `serve` (or [`InMemory`]) → `rest` (which resource, which verb,
//! which encoding) → `registry` (what is particular to the kind) → `store` (versions and history); changes go from the
//! store's history through `watch` to the clients.
//!
//! JSON is the form the server works on. One state of an object is made once, and its encodings at most once each:
//! readers and watchers share them.

mod calls;
mod clock;
mod codec;
mod discovery;
mod faults;
mod field;
mod in_memory;
mod meta;
mod names;
mod object;
mod patch;
mod recorder;
mod refusal;
mod registry;
mod rest;
mod select;
mod serve;
mod store;
mod test_server;
mod watch;

pub use calls::Calls;
pub use clock::Clock;
pub use faults::{Failure, Faults};
pub use in_memory::InMemory;
pub use recorder::{Recorded, Recording};
pub use rest::{Reset, ResponseBody, Settings, Verb};
pub use test_server::{Builder, TestServer};
