//! Watches: a table's history, as one client asked to see it.

mod event;
mod watcher;

pub(crate) use event::{Encoder, Rows};
pub(crate) use watcher::{Start, Watcher};
