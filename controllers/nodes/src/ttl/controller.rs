//! Syncs of nodes.

use std::sync::Arc;

use serde_json::json;
use steersman_api::{ObjectKey, Time};
use steersman_controller::client::{Client, Patch};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_kinds::node::{Node, ObjectTtl};
use steersman_kinds::object_ttl::OBJECT_TTL;

use super::AnnotatedNode;
use super::plan::{Annotate, Observed, plan};
use super::size::ClusterSize;

/// Writes the annotation of nodes.
///
/// A sync needs no cache that shows the controller's own writes: the annotation's value does not depend on an older one, and
/// each write queues the node again.
pub(super) struct TtlController {
    pub nodes: Lister<AnnotatedNode>,
    pub client: Client<Node>,
    pub size: Arc<ClusterSize>,
}

impl Controller for TtlController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Annotate;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let node = self.nodes.get(key).map_err(|node| SyncError::Unreadable(format!("Node {}", node.key)))?;
        Ok(node.map_or(Observation::Nothing, |node| {
            let current = node.get::<ObjectTtl>().seconds.0;
            Observation::Ready(Observed { current, wanted: self.size.ttl() })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Annotate> {
        plan(*observed)
    }

    async fn act(&self, key: &ObjectKey, _: &Observed, step: &Annotate) -> Result<(), SyncError> {
        let patch = Patch::Strategic(json!({"metadata": {"annotations": {OBJECT_TTL: step.0.to_string()}}}));
        let patched = self.client.patch(key, &patch).await?;
        patched.or_conflict(|| format!("patching Node {key}")).map(drop)
    }

    fn absorb(&self, observed: &mut Observed, step: Annotate, result: StepResult<()>) {
        if let StepResult::Done(()) = result {
            observed.current = Some(step.0);
        }
    }
}
