//! What parts of the node ask of the Node object and of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What is known of this node.
pub trait NodeInfo: Send + Sync + 'static {
    /// The node's name, as registered.
    fn name(&self) -> &str;
    /// The Node object as the API server last told it; `None` before, and always on a node without API server.
    fn node(&self) -> Option<Arc<Node>>;
    /// The node's addresses as pods are told them (`hostIPs`): one of each family, the first family first.
    fn host_ips(&self) -> Vec<String>;
    /// What pods may have of each resource.
    fn allocatable(&self) -> BTreeMap<String, Quantity>;
}
