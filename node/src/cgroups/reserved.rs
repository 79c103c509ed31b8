//! Groups of the host's daemons, held to what is reserved for them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::task::spawn_blocking;

use super::limits::Limits;
use super::{CgroupTree, Error};
use crate::events::{EventType, Events};
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

/// A group can't be held to what is reserved for it. The node must not start: whoever made the configuration counts on it.
#[derive(Debug, thiserror::Error)]
#[error("Failed to enforce {} Cgroup Limits on {:?}: {source}", reserved.title(), reserved.group)]
pub struct NotHeld {
    reserved: Reserved,
    source: Error,
}

/// Holds groups to what is reserved for them, one after the other, up to one that can't be held; tells of each by an event.
///
/// # Errors
/// The group is not there, or the file system says no; on version 1, also, its daemons use more memory than that.
pub async fn hold(
    tree: &Arc<CgroupTree>,
    all: Vec<Reserved>,
    events: &Events,
    node: &ObjectReference,
) -> Result<(), NotHeld> {
    for reserved in all {
        let (tree, asked) = (Arc::clone(tree), reserved.clone());
        let held = spawn_blocking(move || tree.enforce_reserved(&asked));
        match held.await.expect("work on control groups must not panic") {
            Ok(()) => events.event(node, EventType::Normal, "NodeAllocatableEnforced", &reserved.done()),
            Err(source) => {
                let failure = NotHeld { reserved, source };
                let reason = "FailedNodeAllocatableEnforcement";
                events.event(node, EventType::Warning, reason, &failure.to_string());
                return Err(failure);
            }
        }
    }
    Ok(())
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
    fn done(&self) -> String {
        let whose = match self.whose {
            Whose::System => "system",
            Whose::Kubernetes => "kube",
        };
        format!("Updated limits on {whose} reserved cgroup {}", self.group)
    }

    /// What it is called where it fails.
    fn title(&self) -> &'static str {
        match (self.whose, self.extent) {
            (Whose::System, Extent::All) => "System Reserved",
            (Whose::Kubernetes, Extent::All) => "Kube Reserved",
            (Whose::System, Extent::Compressible) => "System Reserved Compressible",
            (Whose::Kubernetes, Extent::Compressible) => "Kube Reserved Compressible",
        }
    }
}
