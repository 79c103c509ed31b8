//! Why an agent does not start.

use std::io;
use std::path::PathBuf;

/// Why an agent does not start. Somebody has to look: starting it again changes little.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder can't be made.
    #[error("making {}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The machine can't be measured.
    #[error("measuring the machine: {0}")]
    Machine(#[from] crate::machine::Error),
    /// The configuration can't be followed on this machine.
    #[error("{0}")]
    Configuration(crate::configuration::Fault),
    /// The runtime does not tell how it is configured.
    #[error(transparent)]
    RuntimeConfig(crate::runtime::Error),
    /// The runtime makes control groups in a way that nobody knows.
    #[error("runtime returned an unknown cgroup driver {0}")]
    UnknownCgroupDriver(i32),
    /// The kernel's settings are not those of a node, and may not be set.
    #[error(transparent)]
    Kernel(#[from] crate::kernel::Mismatches),
    /// Control groups can't be used as the configuration asks.
    #[error("control groups: {0}")]
    Cgroups(#[from] crate::cgroups::Error),
    /// Daemons of the host can't be held to what is reserved for them.
    #[error(transparent)]
    Reserved(#[from] crate::cgroups::NotHeld),
    /// What pods have can't be told.
    #[error(transparent)]
    Allocation(#[from] crate::allocation::Error),
    /// Images can't be managed as the configuration asks.
    #[error(transparent)]
    Images(#[from] crate::images::Error),
    /// Images can't be verified as the configuration asks.
    #[error(transparent)]
    ImageVerification(#[from] crate::images::PolicyError),
    /// Logs can't be rotated as the configuration asks.
    #[error(transparent)]
    Logs(#[from] crate::logs::InvalidPolicy),
    /// The server can't be set up.
    #[error(transparent)]
    Server(#[from] crate::server::Error),
    /// A cipher suite is none.
    #[error("tlsCipherSuites: {0}")]
    CipherSuites(#[from] crate::server::tls::UnknownCipherSuite),
    /// A header for manifests from a URL is none.
    #[error("staticPodURLHeader: {0}")]
    ManifestHeader(String),
    /// Sysctls that are allowed are none.
    #[error("allowedUnsafeSysctls: {0}")]
    Sysctls(#[from] crate::admission::sysctl::Error),
    /// A setting is beyond what can be.
    #[error("{0}")]
    Setting(String),
    /// Two parts want one metric.
    #[error("registering metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Metrics of the PLEG.
    #[error(transparent)]
    PlegMetrics(#[from] crate::pleg::MetricsError),
    /// Metrics of probes.
    #[error(transparent)]
    ProbeMetrics(#[from] crate::probes::MetricsError),
}

impl From<crate::configuration::Fault> for Error {
    fn from(fault: crate::configuration::Fault) -> Self {
        Self::Configuration(fault)
    }
}
