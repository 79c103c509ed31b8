//! From an HTTP request to its answer.

mod apply;
mod body;
mod bootstrap;
mod connect;
mod definitions;
mod delete;
mod eviction;
mod expiry;
mod grant;
mod incoming;
mod negotiate;
mod options;
mod page;
mod read;
mod request;
mod review;
mod route;
mod server;
mod subresource;
mod token;
mod track;
mod watch;
mod write;

pub use body::ResponseBody;
pub use connect::OutboundError;
pub(crate) use connect::{Connection, Outbound};
pub(crate) use negotiate::Shape as ObjectShape;
pub(crate) use read::object_bytes;
pub use request::Verb;
pub(crate) use request::{Call, Query, Request};
pub(crate) use server::{ApiServer, answer, refuse, unknown_path};
pub use server::{Reset, Settings};
