//! Why a server can't start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server can't start. A retry does not help: an administrator must change something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or is not an address of this machine.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A certificate, a key or a bundle of authorities can't be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The contents of a file are invalid.
    #[error("{path:?}: {message}")]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A bundle of authorities that does not come from a file is invalid.
    #[error("invalid certificate authorities: {0}")]
    Authorities(String),
    /// A serving certificate can't be generated.
    #[error("unable to generate self signed cert: {0}")]
    Generate(#[source] rcgen::Error),
    /// The generated certificate can't be written to its file.
    #[error("cannot write {path:?}: {source}")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// TLS can't be set up as configured.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] rustls::Error),
}
