//! The taints with the effect `NoExecute`: which nodes get them, when, and which lose them.

use std::time::Duration;

use futures::StreamExt;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, ObjectKey};
use steersman_controller::controller::SyncError;
use steersman_informer::View;
use steersman_kinds::node::{Health, Taints};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::WatchedNode;
use super::monitor::{AT_ONCE, Monitor};
use super::taints::{NOT_READY, TaintChange, UNREACHABLE};
use super::writes::Tainted;

/// How often nodes that wait for a taint are looked at. Upstream: `NodeEvictionPeriod`.
const TAINT_PERIOD: Duration = Duration::from_millis(100);

impl Monitor {
    /// Gives nodes their taints, at the rates of their zones, until `stop` is cancelled.
    pub(super) async fn taint(&self, stop: CancellationToken) {
        loop {
            while !stop.is_cancelled()
                && let Some((zone, node)) = self.next_to_taint()
            {
                self.taint_next(&zone, &node).await;
            }
            // From the end of the calls, as upstream: a tick of an interval may come a little less than the period after the
            // token was taken, and at the default rates would find the next one not there yet.
            if stop.run_until_cancelled(sleep(TAINT_PERIOD)).await.is_none() {
                return;
            }
        }
    }

    /// Sees to the taints with the effect `NoExecute`. Upstream's `processTaintBaseEviction`.
    pub(super) async fn follow(
        &self,
        node: &View<WatchedNode>,
        ready: Option<ConditionStatus>,
        is_new: bool,
    ) -> Result<(), SyncError> {
        let (meta, taints) = (node.meta(), &node.get::<Taints>().taints);
        let (wanted, other) = match ready {
            Some(ConditionStatus::False) => (NOT_READY, UNREACHABLE),
            Some(ConditionStatus::Unknown) => (UNREACHABLE, NOT_READY),
            Some(ConditionStatus::True) => return self.release(node).await,
            None if is_new => return self.release(node).await,
            None => return Ok(()),
        };
        let is_tainted = wanted.is_among(taints) || other.is_among(taints);
        if is_tainted && self.watching.state.lock().zones.is_dark(&meta.key.name) {
            // The taint could not be removed when the zones went dark, or its write was under way.
            return self.release(node).await;
        }
        if other.is_among(taints) {
            // The node's pods leave already, so the rate does not matter.
            return self.writes.drive_away(&meta.key.name, &meta.uid).await.map(drop);
        }
        if !wanted.is_among(taints)
            && let Some(zone) = self.watching.state.lock().zones.of(&meta.key.name)
        {
            zone.queue.add(&meta.key.name, Instant::now());
        }
        Ok(())
    }

    /// Removes the taints with the effect `NoExecute` from a node.
    async fn release(&self, node: &View<WatchedNode>) -> Result<(), SyncError> {
        let (meta, taints) = (node.meta(), &node.get::<Taints>().taints);
        if let Some(zone) = self.watching.state.lock().zones.of(&meta.key.name) {
            zone.queue.remove(&meta.key.name);
        }
        if !NOT_READY.is_among(taints) && !UNREACHABLE.is_among(taints) {
            return Ok(());
        }
        let change = TaintChange::without(&[UNREACHABLE, NOT_READY]);
        self.writes.taint(&meta.key.name, &meta.uid, &change).await.map(drop)
    }

    /// Removes the taints from all nodes: no node is ready, so it is rather the control plane that sees nothing.
    pub(super) async fn release_all(&self) {
        let (nodes, _) = self.watching.nodes.list_readable();
        futures::stream::iter(nodes)
            .for_each_concurrent(AT_ONCE, |node| async move {
                if let Err(error) = self.release(&node).await
                    && !error.is_end_of_leadership()
                {
                    tracing::warn!(node = %node.meta().key.name, %error, "Failed to remove taints from Node");
                }
                // Nodes that are not ready wait for a taint again, until the zones have recovered.
                self.watching.state.lock().changed.insert(node.meta().key.name.clone());
            })
            .await;
    }

    /// The next node that gets a taint, with its zone.
    fn next_to_taint(&self) -> Option<(ArcStr, ArcStr)> {
        let mut state = self.watching.state.lock();
        if !state.zones.any_waits() {
            return None;
        }
        let now = Instant::now();
        state.zones.iter_mut().find_map(|(name, zone)| Some((name.clone(), zone.queue.next(now)?)))
    }

    /// Gives a node the taint that its condition asks for now. A node whose condition can't be told comes back into the queue
    /// when a round can tell it.
    async fn taint_next(&self, zone: &ArcStr, name: &ArcStr) {
        let Ok(Some(node)) = self.watching.nodes.get(&ObjectKey::new("", name.clone())) else { return };
        let ready = node.get::<Health>().conditions.ready.map(|ready| ready.status);
        let is_ready = ready == Some(ConditionStatus::True) && !self.watching.state.lock().is_behind(&node);
        if is_ready || ready.is_none() {
            return;
        }
        match self.writes.drive_away(name, &node.meta().uid).await {
            Ok(Tainted::Changed) => self.metrics.evicted(zone),
            Ok(Tainted::Nothing) => {}
            Err(error) => {
                if !error.is_end_of_leadership() {
                    tracing::warn!(node = %name, %error, "Failed to taint a node, retrying");
                }
                if let Some(zone) = self.watching.state.lock().zones.of(name) {
                    zone.queue.retry(name, Instant::now());
                }
            }
        }
    }
}
