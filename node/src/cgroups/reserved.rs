//! Groups of the host's daemons, held to what is reserved for them.

use super::limits::Limits;
use crate::resources::ResourceList;

/// A group that somebody else made for daemons, and what it is to have at most (`enforceNodeAllocatable` beyond `pods`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Whose it is.
    pub whose: Whose,
    /// `systemReservedCgroup` or `kubeReservedCgroup`: its path below where hierarchies are mounted, as the driver names it.
    pub group: String,
    /// `systemReserved` or `kubeReserved`.
    pub amounts: ResourceList,
    /// Which of them count.
    pub extent: Extent,
}

/// Whose daemons are in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The operating system's.
    System,
    /// Kubernetes's.
    Kubernetes,
}

/// How far a group is held to what is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Processor time, memory and numbers of processes.
    All,
    /// What can be taken back without harm: processor time.
    Compressible,
}

impl Reserved {
    pub(super) fn limits(&self) -> Limits {
        // What is left out stays as it is; huge pages are the host's business.
        let all = Limits::of_node(&self.amounts, &[]);
        match self.extent {
            Extent::All => all,
            Extent::Compressible => Limits { cpu_shares: all.cpu_shares, ..Limits::default() },
        }
    }

    /// What the event of a success says.
    pub(super) fn done(&self) -> String {
        let whose = match self.whose {
            Whose::System => "system",
            Whose::Kubernetes => "kube",
        };
        format!("Updated limits on {whose} reserved cgroup {}", self.group)
    }

    /// What the event of a failure says.
    pub(super) fn failed(&self, error: &super::Error) -> String {
        let whose = match self.whose {
            Whose::System => "System",
            Whose::Kubernetes => "Kube",
        };
        format!("Failed to enforce {whose} Reserved Cgroup Limits on {:?}: {error}", self.group)
    }
}
