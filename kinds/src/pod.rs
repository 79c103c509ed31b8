//! Pods, in groups of fields.

use steersman_api::ArcStr;
use steersman_informer::{Interned, kind, projection};

use super::condition::{DisruptionTarget, Picked, Ready};
use super::containers::{CompletionIndex, ContainerStatus, ContainerSummary, SidecarNames};
use super::ip::{FamilyOf, IpPair};
use super::ports::{NamedPorts, SidecarPorts};

projection! {
    /// Where a pod runs.
    pub struct Placement {
        /// Empty until it is scheduled.
        pub node: Interned = 10 "nodeName",
    }

    /// How far it is.
    pub struct Phase {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: Interned = 1 "phase",
        /// Such as `Evicted` or `NodeLost`.
        pub reason: Interned = 4 "reason",
    }

    /// How it is reached.
    pub struct Addresses {
        /// Of the first of `ips`.
        pub primary: FamilyOf = 6 "podIP",
        /// One of each family at the most.
        pub ips: IpPair = 12 "podIPs",
    }

    /// Whether it can serve.
    pub struct Readiness {
        /// What its kubelet says.
        pub ready: Picked<Ready> = 2 "conditions",
    }

    /// Whether somebody is about to end it.
    pub struct Disruption {
        /// Who wants to, says so first.
        pub target: Picked<DisruptionTarget> = 2 "conditions",
    }

    /// What it offers, under which names.
    pub struct Offer {
        /// Its name within the domain of the service that `subdomain` names.
        pub hostname: ArcStr = 16 "hostname",
        /// The headless service that its name is found under.
        pub subdomain: Interned = 17 "subdomain",
        /// Of its containers.
        pub ports: NamedPorts = 2 "containers",
        /// Of its sidecars.
        pub sidecar_ports: SidecarPorts = 20 "initContainers",
    }

    /// What its containers came to.
    pub struct Containers {
        /// All but init containers.
        pub regular: ContainerSummary = 8 "containerStatuses",
        /// Init containers, sidecars among them.
        pub init: Vec<ContainerStatus> = 10 "initContainerStatuses",
    }

    /// Which of its init containers are sidecars.
    pub struct Sidecars {
        /// Their names.
        pub names: SidecarNames = 20 "initContainers",
    }

    /// Which part of an indexed job it does.
    pub struct Completion {
        /// Of the job's indexes.
        pub index: CompletionIndex = 12 "annotations",
    }
}

impl Phase {
    /// Whether all of its containers have ended for good, as upstream's `IsPodTerminal`.
    pub fn is_terminal(&self) -> bool {
        self.phase == "Succeeded" || self.phase == "Failed"
    }
}

kind! {
    /// A pod.
    pub struct Pod("", "v1", "pods") {
        placement: Placement = 2 "spec",
        phase: Phase = 3 "status",
        addresses: Addresses = 3 "status",
        readiness: Readiness = 3 "status",
        disruption: Disruption = 3 "status",
        offer: Offer = 2 "spec",
        containers: Containers = 3 "status",
        sidecars: Sidecars = 2 "spec",
        completion: Completion = 1 "metadata",
    }
}
