//! Watches: a table's history, as one client asked to see it.

mod event;
mod watcher;

pub(crate) use event::Encoder;
pub(crate) use watcher::{Start, Watcher};
