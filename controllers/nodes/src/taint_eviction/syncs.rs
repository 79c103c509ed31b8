//! Syncs of nodes and of pods. A sync only sets or cancels timers.

use std::sync::Arc;

use steersman_api::{ObjectKey, Time};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;

use super::evictions::Evictions;

/// Decides on all pods of a node.
pub(super) struct NodeSyncs(pub Arc<Evictions>);

/// Decides on a pod.
pub(super) struct PodSyncs(pub Arc<Evictions>);

/// A step of syncs that have none.
#[derive(Debug)]
pub(super) enum Never {}

/// Implements [`Controller`] for a type whose syncs are done once the key was looked at.
macro_rules! decides {
    ($syncs:ty, |$this:ident, $key:ident| $decide:expr) => {
        impl Controller for $syncs {
            type Key = ObjectKey;
            type Observed = ();
            type Step = Never;
            type Outcome = ();

            async fn observe(&self, $key: &ObjectKey) -> Result<Observation<()>, SyncError> {
                let $this = &self.0;
                $decide.map(|()| Observation::Nothing)
            }

            fn plan(&self, (): &(), _: Time) -> Plan<Never> {
                Plan::done()
            }

            async fn act(&self, _: &ObjectKey, (): &(), step: &Never) -> Result<(), SyncError> {
                match *step {}
            }

            fn absorb(&self, (): &mut (), step: Never, _: StepResult<()>) {
                match step {}
            }
        }
    };
}

decides!(NodeSyncs, |this, key| this.decide_on_node(&key.name));
decides!(PodSyncs, |this, key| this.decide_on_pod(key));
