//! What can go wrong with control groups.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A failure in the file system of control groups. All may go away, and are worth another try later, but for the last
/// five, which the machine's set-up or the pod's manifest must change for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A group can't be made.
    #[error("make control group {path}: {source}", path = path.display())]
    Make {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A limit can't be set.
    #[error("write {value:?} to {path}: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The limit.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A file or folder can't be read.
    #[error("read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process can't be killed.
    #[error("kill process {process}: {source}")]
    Kill {
        /// Its id.
        process: i32,
        /// Why.
        source: io::Error,
    },
    /// A group can't be removed, mostly since what was killed in it has not ended yet.
    #[error("remove control group {path}: {source}", path = path.display())]
    Remove {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// systemd, which keeps the group as a slice, does not do what it is asked to.
    #[error("control group {path}: {source}")]
    Systemd {
        /// The group.
        path: String,
        /// Why.
        source: Box<super::systemd::Error>,
    },
    /// Groups are to be slices, and there is no systemd that would keep them.
    #[error("cgroupDriver is systemd: {source}")]
    NoSystemd {
        /// Why.
        source: Box<super::systemd::Error>,
    },
    /// Controllers that limits need are not handed down to a group.
    #[error("control group {path} lacks controllers: {missing}", path = path.display())]
    NoControllers {
        /// Its folder.
        path: PathBuf,
        /// The controllers.
        missing: String,
    },
    /// The machine has no control groups.
    #[error("no control groups are mounted")]
    NoHierarchy,
    /// The group under which all others are to be made is not there.
    #[error("cgroup-root {root:?} doesn't exist")]
    NoRoot {
        /// The group as configured.
        root: String,
    },
    /// A group of the host's own that is to be limited is not there. Whoever runs the daemons makes it.
    #[error("{group:?} cgroup does not exist")]
    NoGroup {
        /// The group as configured.
        group: String,
    },
    /// A pod's uid can't be the name of a group.
    #[error("pod uid {uid:?} can't name a control group: only letters, digits, \"-\" and \".\" can")]
    Uid {
        /// The uid.
        uid: String,
    },
}

impl Error {
    pub(super) fn os_error(&self) -> Option<Errno> {
        match self {
            Self::Make { source, .. }
            | Self::Write { source, .. }
            | Self::Read { source, .. }
            | Self::Kill { source, .. }
            | Self::Remove { source, .. } => Errno::from_io_error(source),
            Self::Systemd { .. }
            | Self::NoSystemd { .. }
            | Self::NoControllers { .. }
            | Self::NoHierarchy
            | Self::NoRoot { .. }
            | Self::NoGroup { .. }
            | Self::Uid { .. } => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = error.os_error().map_or(io::ErrorKind::Other, |errno| io::Error::from(errno).kind());
        Self::new(kind, error)
    }
}
