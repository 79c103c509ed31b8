//! What a pod's sandbox and containers are run with, beyond what its spec says in so many words: environment, mounts, the
//! hosts file, DNS settings and host name.
//!
//! Policy is in pure functions, a file each; [`PodEnvironment`] gives them what they need and keeps the hosts files.

pub mod dns;
pub mod env;
pub mod env_file;
pub mod expansion;
pub mod hostname;
pub mod hosts;
pub mod mounts;
mod pod_environment;
pub mod resolv_conf;
pub mod service_env;

pub use dns::DnsSettings;
pub use pod_environment::{Parts, PodEnvironment, Settings};
