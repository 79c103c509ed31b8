//! What the agent sets up in the machine's kernel: sysctls that nodes need, and the iptables chains of a kubelet.
//!
//! What to write is decided by pure functions; [`Kernel`] is the way to the files and programs.

mod iptables;
mod sysctls;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use iptables::keep_chains;
pub use iptables::{Ended, Iptables};
pub use sysctls::Mismatches;

/// Access to the kernel of the machine that the node stands for.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The root under which `proc/sys` is.
    root: PathBuf,
    iptables: Arc<dyn Iptables>,
}

impl Kernel {
    /// The kernel of this machine, and the programs `iptables` and `ip6tables` that the PATH leads to.
    pub fn this() -> Self {
        Self { root: PathBuf::from("/"), iptables: Arc::new(iptables::Programs) }
    }

    /// A machine of a test: its `proc/sys` is in a folder, and it has no iptables.
    #[cfg(test)]
    pub(crate) fn at(root: &std::path::Path) -> Self {
        Self { root: root.to_owned(), iptables: Arc::<tests::InMemory>::default() }
    }

    /// The iptables programs.
    pub(crate) fn iptables(&self) -> Arc<dyn Iptables> {
        Arc::clone(&self.iptables)
    }
}
