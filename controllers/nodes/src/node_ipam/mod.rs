//! The node IPAM controller: gives each node the ranges from which its pods get their addresses.
//!
//! ```text
//! a node appears, or its ranges change ─> queue "cidrallocator_node" ─> sync ─┬─ it has ranges: record them
//!                                              a list of all nodes first      └─ it has none: hold blocks, write them
//! a node is deleted ─> its blocks are free ─> queue the nodes that wait for blocks
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `cidr_set` | the blocks of one cluster range: which is free, which comes next |
//! | `ledger` | which node holds which blocks |
//! | `allocator` | the ledger of the current term, and the metrics |
//! | `settings` | the flags, checked |
//!
//! Runs only with `--allocate-node-cidrs`. As upstream's, except that
//! - a node with a range that the cluster ranges do not provide for fails by itself, and keeps no other node from its range.
//!   Upstream's manager exits;
//! - blocks whose write may have failed stay with their node until the outcome is known, and none is lost;
//! - a block is free when the last of several nodes that have it is deleted, and blocks of a service range are never free;
//! - nodes that wait for a free block get the first one. Upstream's wait for their back-off or their next change.

mod allocator;
mod cidr_set;
mod controller;
mod ledger;
mod metrics;
mod plan;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, keep};
use steersman_kinds::node::Node;
use steersman_kinds::pod_cidrs::PodCidrs;

use self::allocator::Allocator;
use self::controller::NodeIpam;
use self::ledger::Ledger;
use self::metrics::Metrics;
use self::settings::Settings;

/// The registry's entry of the node IPAM controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("node-ipam-controller", &["nodeipam"], construct)
    .options::<NodeIpamOptions>()
    .shared_options::<CloudOptions>()
    .rules(&[Rule::new(&[""], &["nodes"], &["list", "watch", "patch"])]);

options! {
    /// Settings of the node IPAM controller.
    pub struct NodeIpamOptions("NodeIPAMController") {
        /// CIDR range for services in cluster, which no node gets; only used with --allocate-node-cidrs
        pub service_cidr: String = String::new(), "service-cluster-ip-range", "ServiceCIDR";
        /// Mask size for node CIDRs; 0 for 24 of IPv4 and 64 of IPv6; not with dual stack
        pub mask_size: i32 = 0, "node-cidr-mask-size", "NodeCIDRMaskSize";
        /// Mask size for IPv4 node CIDRs in a dual-stack cluster; 0 for 24
        pub mask_size_ipv4: i32 = 0, "node-cidr-mask-size-ipv4", "NodeCIDRMaskSizeIPv4";
        /// Mask size for IPv6 node CIDRs in a dual-stack cluster; 0 for 64
        pub mask_size_ipv6: i32 = 0, "node-cidr-mask-size-ipv6", "NodeCIDRMaskSizeIPv6";
    }
}

options! {
    /// Settings that upstream's controllers share with cloud providers.
    pub struct CloudOptions("KubeCloudShared") {
        /// Whether nodes get ranges for the addresses of their pods; needs --cluster-cidr
        pub allocate_node_cidrs: bool = false, "allocate-node-cidrs", "AllocateNodeCIDRs";
        /// Type of CIDR allocator to use; RangeAllocator is the only one
        pub cidr_allocator_type: String = "RangeAllocator".to_owned(), "cidr-allocator-type", "CIDRAllocatorType";
        /// CIDR range for pods in cluster, or one of each IP family; only used with --allocate-node-cidrs
        pub cluster_cidr: String = String::new(), "cluster-cidr", "ClusterCIDR";
    }
}

/// How many nodes are synced at a time, as upstream.
const WORKERS: usize = 30;
/// Upstream's name for this controller in the source of events.
const COMPONENT: &str = "cidrAllocator";

keep! {
    /// What the controller reads of a node.
    pub struct PoddedNode: Node => PodCidrs
}

/// Makes the controller.
///
/// # Errors
/// The flags contradict each other, the cache of nodes runs already without the nodes' ranges, or the controller's metrics
/// are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let (cloud, options) = (context.options::<CloudOptions>(), context.options::<NodeIpamOptions>());
    Settings::check(&cloud, &options)?;
    if !cloud.allocate_node_cidrs {
        return Ok(Construction::declined("--allocate-node-cidrs is not set"));
    }
    let settings = Settings::of(&cloud, &options)?;
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let allocator = Arc::new(Allocator::new(Ledger::new(&settings)?, metrics));
    let nodes = context.informers.informer::<PoddedNode>()?;
    let queue = context.queue("cidrallocator_node");
    nodes.map({
        let (allocator, queue) = (Arc::clone(&allocator), queue.clone());
        move |change| {
            let [old, new] = [change.old(), change.new()].map(|node| node.map(|node| &node.meta().uid));
            if let Some(gone) = old.filter(|_| old != new) {
                allocator.release(gone).into_iter().for_each(|waiting| queue.add(waiting));
            }
            if needs_sync(change) {
                queue.add(change.key().clone());
            }
        }
    });
    let controller = NodeIpam {
        nodes: nodes.lister(),
        client: Client::keeping::<PoddedNode>(context.client_for("node-controller")),
        recorder: context.recorder(COMPONENT),
        queue: queue.clone(),
        allocator,
        list_failed: tokio::sync::Mutex::default(),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(WORKERS).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [nodes.any()]))
}

/// Whether a node has no ranges, or others than before.
fn needs_sync(change: &Change<PoddedNode>) -> bool {
    match change {
        Change::Added { .. } | Change::Resync { .. } => true,
        Change::Updated { old, new } => {
            let [before, now] = [old, new].map(|node| &node.get::<PodCidrs>().cidrs);
            now.is_empty() || before != now || old.meta().uid != new.meta().uid
        }
        Change::Deleted { .. } => false,
    }
}
