//! What of a log is wanted.

use jiff::Timestamp;

/// What of a log is wanted, and how it is shown. The default is all of it, as the container wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Only that many of the last lines there are at the beginning; a line that is not complete yet does not count.
    pub tail_lines: Option<u64>,
    /// Ends after that many bytes, stamps included.
    pub limit_bytes: Option<u64>,
    /// Only lines of that time and later.
    pub since: Option<Timestamp>,
    /// Each line begins with its time, to the nanosecond, as far from UTC as it is written.
    pub timestamps: bool,
    /// What the container wrote to which stream.
    pub streams: Streams,
}

/// Which of a container's streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Streams {
    /// Both, in the order of writing.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
