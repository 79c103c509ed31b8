//! Why a configuration can't be had.

use std::fmt;
use std::path::PathBuf;

/// Where a setting stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File(PathBuf),
    /// On the command line: the flag, with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field, with dots between names.
    pub path: String,
    /// Its value and what is wrong with it.
    pub reason: String,
}

impl Fault {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Why there is no configuration: one line that says where and what. The start must end, and somebody mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("reading the configuration: file {}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The folder of drop-ins can't be read.
    #[error("reading the configuration: folder {}: {source}", .path.display())]
    Walk {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file says nothing.
    #[error("reading the configuration: {0} is empty")]
    Empty(Origin),
    /// A file is neither YAML nor JSON.
    #[error("reading the configuration: {origin}: {reason}")]
    Parse {
        /// Which.
        origin: Origin,
        /// Where, and why.
        reason: String,
    },
    /// A field that there is not, or with a value that can't be.
    #[error("reading the configuration: {origin}: {fault}")]
    Field {
        /// Where it stands.
        origin: Origin,
        /// What is wrong.
        fault: Fault,
    },
    /// Values that can't be, by themselves or together.
    #[error("invalid configuration: {}", joined(.0))]
    Invalid(Vec<Fault>),
}

fn joined(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
