//! The audit log: who asked for what, and what became of it, one JSON object a line.

mod event;
mod log;

pub(super) use self::event::{Event, Stage};
pub(super) use self::log::AuditLog;
pub use self::log::{AuditError, AuditOptions};
