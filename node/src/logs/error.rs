//! How reading a log fails.

use std::io;
use std::path::PathBuf;

use crate::runtime;

/// Why a log could not be read, or not further. Worded as upstream, since users see it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be opened: it was removed with its container, or never made. Asking again soon won't help.
    #[error("failed to open log file {path:?}: {source}")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its last lines could not be found.
    #[error("failed to tail {lines} lines of log file {path:?}: {source}")]
    Tail {
        /// How many lines were asked for.
        lines: u64,
        /// Of which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The disk failed.
    #[error("failed to read log file {path:?}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The first line is not in the CRI's format: this is no log, or one of another kind of runtime.
    #[error("failed to get parse function: unsupported log format: {0:?}")]
    Format(String),
    /// The runtime did not say whether a container that is followed still runs.
    #[error(transparent)]
    Status(runtime::Error),
}
