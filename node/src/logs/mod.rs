//! Containers' logs on the node's disk: reading them, also while they are written, and rotating them.
//!
//! A runtime writes what a container says to a file, a line each: the time, the stream, a tag (`F` for a line that is
//! full, `P` for a part of one that goes on in the next), and the text. [`LogReader`] gives the text back as
//! `kubectl logs` shows it; [`read_last`] gives the end of a log; [`LogRotator`] keeps the files small and few.
//!
//! No reader holds more than two blocks of a log in memory, however long its lines are.

mod error;
mod folder;
mod format;
mod line;
mod open;
mod options;
mod reader;
mod rotate;
mod rotated;
mod tail;
#[cfg(test)]
mod tests;
mod watch;

pub use error::Error;
pub use folder::is_below;
pub use options::{LogOptions, Streams};
pub use reader::{Followed, LogReader};
pub use rotate::{InvalidPolicy, LogRotator, RotatePolicy};
pub use rotated::{all_logs, remove_logs};
pub use tail::{read_last, tail_start};
