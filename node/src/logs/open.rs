//! Opening log files.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::regular_file::open_regular;

/// Opens a log for reading. Only a regular file is a log: whoever can write to the folder of logs, such as a pod that mounts
/// it, could otherwise have the agent read any file of the node by a link, or wait for ever at a pipe. (Upstream follows
/// links, for runtimes that keep logs elsewhere; those do not write the CRI's format.) Blocks.
///
/// # Errors
/// The file system's, or that `path` is no regular file.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    open_regular(path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())
}
