//! The ClusterRole aggregation controller: gives each aggregated role, such as `admin`, `edit` and `view`, the rules of the
//! roles that its selectors select.
//!
//! ```text
//! changes of roles ─> the aggregated roles whose selectors match ─> queue "ClusterRoleAggregator"
//!   ─> observe: the role, all roles ─> plan: the union of the rules ─> server-side apply
//! ```
//!
//! As upstream's controller, except that
//! - a changed role queues only the roles that aggregate it, before the change or after it. Upstream queues all that are
//!   aggregated;
//! - the apply names the role's uid, so that it creates no role anew that was deleted in the meantime.

use std::sync::Arc;

use steersman_controller::client::ResourceClient;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::keep;
use steersman_informer::wire::Kind;
use steersman_kinds::cluster_role::{Aggregation, ClusterRole, Rules};

mod controller;
mod mapping;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("clusterrole-aggregation-controller", &["clusterrole-aggregation"], construct).rules(&[
        Rule::new(&["rbac.authorization.k8s.io"], &["clusterroles"], &["list", "watch", "patch", "escalate"])
            .because("Aggregated roles have rights that the controller lacks."),
    ]);

keep! {
    /// What the controller reads of a role.
    pub struct Role: ClusterRole => Rules, Aggregation
}

/// The number of roles that are synced at a time, as upstream.
const WORKERS: usize = 5;

/// Makes the controller.
///
/// # Errors
/// The cache of roles runs already, without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let roles = context.informers.informer::<Role>()?;
    let queue = context.queue("ClusterRoleAggregator");
    mapping::map(&roles, &queue);
    let resource = steersman_controller::client::resource::<ClusterRole>();
    let sender = context.client_for("clusterrole-aggregation-controller");
    let client = ResourceClient::new(sender, resource, ClusterRole::KIND);
    let controller = controller::Aggregator { roles: roles.lister(), client };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(WORKERS).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [roles.any()]))
}
