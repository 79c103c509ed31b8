//! How the server fails to start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server can't be started. Nothing about it mends itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A certificate, key or bundle of authorities can't be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is there, and is not what it must be.
    #[error("{path:?}: {message}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The serving certificate can't be made.
    #[error("unable to generate self signed cert: {0}")]
    Generate(#[source] rcgen::Error),
    /// It can't be kept.
    #[error("cannot write {path:?}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// TLS can't be set up as asked.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] rustls::Error),
}
