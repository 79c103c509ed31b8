//! What the machine is, measured: processors, memory, disks, addresses, and how much of them is in use.
//!
//! Files of `/proc` and `/sys` are read under [`Machine`]'s root and understood by pure functions ([`parse`]); interfaces
//! and their addresses come from the kernel over a routing socket. All calls block, shortly.

mod facts;
pub mod interfaces;
mod netlink;
pub mod node_ip;
mod open_files;
pub mod parse;
pub mod routes;
mod usage;

use std::io;
use std::path::{Path, PathBuf};

pub use facts::{CgroupVersion, Facts, HugePages, architecture};
pub use interfaces::Interface;
pub use open_files::limit_open_files;
pub use routes::{Family, Route};
pub use usage::{Amount, FileSystem};

/// The machine that the node stands for.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What paths of `/proc`, `/sys` and `/etc` are read under.
    root: PathBuf,
}

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that must be there is not, or can't be read.
    #[error("reading {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file does not say what it should.
    #[error("reading {path}: {why}")]
    Parse {
        /// Which.
        path: PathBuf,
        /// What is missing or malformed.
        why: String,
    },
    /// A file system could not be measured.
    #[error("measuring the file system of {path}: {source}")]
    FileSystem {
        /// A path on it.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel could not be asked for interfaces.
    #[error("asking the kernel for network interfaces: {0}")]
    Links(#[source] io::Error),
    /// The kernel could not be asked for addresses.
    #[error("asking the kernel for addresses: {0}")]
    Addresses(#[source] io::Error),
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        Self::at("/")
    }

    /// A machine whose files lie under another root: that of the host, seen from a container, or one of a test.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where a file of the machine is; `path` is absolute.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> Result<String, Error> {
        let path = self.path(path);
        std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
    }

    /// Where something is mounted, as this process sees it, in the order in which it was mounted.
    ///
    /// # Errors
    /// The list of mounts can't be read.
    pub fn mount_points(&self) -> Result<Vec<PathBuf>, Error> {
        let path = self.path("/proc/self/mountinfo");
        let table = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
        Ok(parse::mount_points(&table))
    }

    /// The first of these files that can be read, without white space around it.
    fn read_first(&self, paths: &[&str]) -> Option<String> {
        paths.iter().find_map(|path| self.read(path).ok()).map(|text| text.trim().to_owned())
    }
}

fn malformed(path: impl AsRef<Path>, why: impl Into<String>) -> Error {
    Error::Parse { path: path.as_ref().to_owned(), why: why.into() }
}
