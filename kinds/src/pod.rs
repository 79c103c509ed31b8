//! The cached fields of pods, in groups.

use steersman_api::ArcStr;
use steersman_informer::{Interned, kind, projection};

use super::condition::{DisruptionTarget, Picked, PodScheduled, Ready, ReasonOf};
use super::containers::{CompletionIndex, ContainerStatus, ContainerSummary, SidecarNames};
use super::deletion_cost::Cost;
use super::index_failures::IndexFailures;
pub use super::pod_addresses::Addresses;
use super::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use super::pod_failure::PodFailure;
use super::pod_group::Membership;
use super::pod_resources::{PodAllotment, PodDemand};
use super::pod_secrets::PodSecrets;
use super::pod_start::PodStart;
use super::pod_volumes::{PodVolumes, Running};
use super::ports::{NamedPorts, SidecarPorts};
use super::scheduling::PinnedNode;
use super::selinux::SelinuxMounts;
use super::shared::{Shared, pooled};
use super::tolerations::Tolerations;

projection! {
    /// The node that a pod runs on.
    pub struct Placement {
        /// The node's name. Empty until the pod is scheduled.
        pub node: Interned = 10 "nodeName",
    }

    /// The node that the pod's affinity allows, for pods that the scheduler has not bound yet.
    pub struct Pinning {
        /// The node's name. Empty if the affinity names no single node.
        pub pinned: PinnedNode = 18 "affinity",
    }

    /// The pod's phase.
    pub struct Phase {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: Interned = 1 "phase",
        /// Why the pod is in this phase, such as `Evicted` or `NodeLost`.
        pub reason: Interned = 4 "reason",
    }

    /// Whether the pod can serve requests.
    pub struct Readiness {
        /// The condition `Ready`, which the pod's kubelet sets.
        pub ready: Picked<Ready> = 2 "conditions",
    }

    /// When the pod was bound to its node.
    pub struct Binding {
        /// The condition `PodScheduled`. Pods that were created with a node lack it until their kubelet reports.
        pub scheduled: Picked<PodScheduled> = 2 "conditions",
    }

    /// Whether the pod is about to be disrupted.
    pub struct Disruption {
        /// The condition `DisruptionTarget`, which the component that ends the pod sets first.
        pub target: Picked<DisruptionTarget> = 2 "conditions",
    }

    /// Why the pod is about to be disrupted.
    pub struct DisruptionReason {
        /// The reason of the condition `DisruptionTarget`, such as `EvictionByEvictionAPI`.
        pub target: ReasonOf<DisruptionTarget> = 2 "conditions",
    }

    /// The pod's name in DNS.
    pub struct DnsName {
        /// The pod's name within the domain of the service `subdomain`.
        pub hostname: ArcStr = 16 "hostname",
        /// The headless service in whose domain the pod's name is.
        pub subdomain: Interned = 17 "subdomain",
    }

    /// The ports that the pod offers. The pods of one template have the same.
    #[derive(Eq, Hash)]
    pub struct Offer {
        /// The named ports of the pod's containers.
        pub ports: NamedPorts = 2 "containers",
        /// The named ports of the pod's sidecars.
        pub sidecar_ports: SidecarPorts = 20 "initContainers",
    }

    /// The statuses of the pod's containers, without init containers.
    pub struct Containers {
        /// A summary of them.
        pub regular: ContainerSummary = 8 "containerStatuses",
    }

    /// The statuses of the pod's init containers.
    pub struct InitContainers {
        /// Their statuses, sidecars included.
        pub statuses: Vec<ContainerStatus> = 10 "initContainerStatuses",
    }

    /// The pod's sidecars.
    pub struct Sidecars {
        /// The names of the init containers that are sidecars.
        pub names: SidecarNames = 20 "initContainers",
    }

    /// The part of an indexed job that the pod does.
    pub struct Completion {
        /// The pod's index in the job.
        pub index: CompletionIndex = 12 "annotations",
    }

    /// The failures of earlier pods of the same index.
    pub struct EarlierFailures {
        /// Their numbers.
        pub of_index: IndexFailures = 12 "annotations",
    }

    /// The cost of deleting the pod, which its users set.
    pub struct DeletionCost {
        /// When an owner scales down, it deletes pods of lower cost first.
        pub cost: Cost = 12 "annotations",
    }
}

pooled!(Offer);

impl Phase {
    /// Whether the pod has ended for good, as upstream's `IsPodTerminal`.
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
        disruption_reason: DisruptionReason = 3 "status",
        dns_name: DnsName = 2 "spec",
        offer: Shared<Offer> = 2 "spec",
        containers: Containers = 3 "status",
        init_containers: InitContainers = 3 "status",
        sidecars: Sidecars = 2 "spec",
        completion: Completion = 1 "metadata",
        deletion_cost: DeletionCost = 1 "metadata",
        pinning: Pinning = 2 "spec",
        binding: Binding = 3 "status",
        tolerations: Shared<Tolerations> = 2 "spec",
        failure: PodFailure = 3 "status",
        earlier_failures: EarlierFailures = 1 "metadata",
        secrets: PodSecrets = 2 "spec",
        volumes: PodVolumes = 2 "spec",
        running: Running = 3 "status",
        demand: Shared<PodDemand> = 2 "spec",
        allotment: Shared<PodAllotment> = 3 "status",
        device_claims: DeviceClaims = 2 "spec",
        device_claim_status: DeviceClaimStatus = 3 "status",
        start: PodStart = 3 "status",
        membership: Membership = 2 "spec",
        selinux: SelinuxMounts = 2 "spec",
    }
}
