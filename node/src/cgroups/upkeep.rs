//! What is done with the groups of classes and of all pods, besides what pods need.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{CgroupTree, Error};
use crate::events::{EventType, Events};
use crate::resources::ResourceList;

const PERIOD: Duration = Duration::from_secs(60);

/// Keeps limits and weights up to date: what all pods may use, until it is set, since they may use more at first; and the
/// weights of the classes, for good.
pub struct Upkeep {
    /// The tree.
    pub tree: Arc<CgroupTree>,
    /// What all pods may use together.
    pub there: ResourceList,
    /// All pods that are not over.
    pub pods: Arc<dyn Fn() -> Vec<Arc<Pod>> + Send + Sync>,
    /// Where it is said how it went.
    pub events: Events,
    /// The node, for events.
    pub node: ObjectReference,
}

impl Upkeep {
    /// Works until `stop`, at once and then every minute.
    pub async fn run(self, stop: CancellationToken) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut enforced = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            enforced = enforced || self.enforce().await;
            self.weigh().await;
        }
    }

    async fn enforce(&self) -> bool {
        let there = self.there.clone();
        match self.blocking(move |tree| tree.enforce_node(&there)).await {
            Ok(()) => {
                let message = "Updated Node Allocatable limit across pods";
                self.events.event(&self.node, EventType::Normal, "NodeAllocatableEnforced", message);
                true
            }
            Err(error) => {
                let group = self.tree.node_group();
                let message = format!("Failed to update Node Allocatable Limits {group}: {error}");
                warn!(%error, group, "Failed to limit pods to what is left for them");
                self.events.event(
                    &self.node,
                    EventType::Warning,
                    "FailedNodeAllocatableEnforcement",
                    &message,
                );
                false
            }
        }
    }

    async fn weigh(&self) {
        let pods = (self.pods)();
        let weighed = self.blocking(move |tree| tree.update_classes(pods.iter().map(Arc::as_ref))).await;
        if let Err(error) = weighed {
            error!(%error, "Failed to update QoS cgroup configuration");
        }
    }

    async fn blocking(
        &self,
        work: impl FnOnce(&CgroupTree) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let tree = Arc::clone(&self.tree);
        let work = tokio::task::spawn_blocking(move || work(&tree));
        work.await.expect("work on control groups must not panic")
    }
}
