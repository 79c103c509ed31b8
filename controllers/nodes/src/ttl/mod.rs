//! The TTL controller: annotates each node with the time for which its kubelet may cache secrets and config maps. The larger
//! the cluster, the longer.
//!
//! ```text
//! a node appears or goes ─> size ─┬─ the TTL changes: all nodes ─┐
//! a node changes ─────────────────┴──────────────────────────────┴─> queue "ttlcontroller" ─> the node's annotation
//! ```
//!
//! As upstream's, except that a change of the TTL queues all nodes at once. Upstream waits until their kubelets write their
//! status.

mod controller;
mod plan;
mod size;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, keep};
use steersman_kinds::node::{Node, ObjectTtl};

use self::controller::TtlController;
use self::size::ClusterSize;

/// The registry's entry of the TTL controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("ttl-controller", &["ttl"], construct)
    .rules(&[Rule::new(&[""], &["nodes"], &["list", "watch", "patch"])]);

/// How many nodes are synced at a time, as upstream.
const WORKERS: usize = 5;

keep! {
    /// What the controller reads of a node.
    pub struct AnnotatedNode: Node => ObjectTtl
}

/// Makes the controller.
///
/// # Errors
/// The cache of nodes runs already without the annotation.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let nodes = context.informers.informer::<AnnotatedNode>()?;
    let queue = context.queue("ttlcontroller");
    let size = Arc::new(ClusterSize::default());
    nodes.map({
        let (size, cache, queue) = (Arc::clone(&size), nodes.lister(), queue.clone());
        move |change| {
            let is_other_count = matches!(change, Change::Added { .. } | Change::Deleted { .. });
            if is_other_count && size.resize(cache.len()) {
                cache.for_each_meta(|node| queue.add(node.key.clone()));
            }
            if change.new().is_some_and(|node| !size.fits(node.get::<ObjectTtl>())) {
                queue.add(change.key().clone());
            }
        }
    });
    let client = Client::new(context.client_for("ttl-controller"));
    let controller = TtlController { nodes: nodes.lister(), client, size };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(WORKERS).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [nodes.any()]))
}
