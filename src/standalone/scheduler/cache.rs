//! What the scheduler knows: all pods, and its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_informer::Change;
use steersman_informer::wire::whole::Whole;
use tokio::sync::Notify;

use super::plan;

/// A clone is the same one.
#[derive(Clone, Default)]
pub(super) struct Cache(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Default, Clone)]
pub(super) struct Known {
    pub(super) pods: BTreeMap<ObjectKey, Arc<Pod>>,
    pub(super) node: Option<Arc<Node>>,
    /// Grows whenever there may be room for a pod that there was not before.
    pub(super) chances: u64,
}

impl Cache {
    pub(super) fn known(&self) -> Known {
        self.0.known.lock().clone()
    }

    /// Returns once something changed since the last call.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    pub(super) fn pod(&self, change: &Change<Whole<Pod>>, node: &str) {
        let new = change.new().and_then(|view| view.object().object()).cloned().map(Arc::new);
        if new.is_none() && change.new().is_some() {
            tracing::warn!(pod = %change.key(), "Pod can't be read; its last good state stays");
            return;
        }
        let mut known = self.0.known.lock();
        let stays = new.as_ref().is_some_and(|pod| plan::occupies(pod, node));
        let old = match new {
            Some(pod) => known.pods.insert(change.key().clone(), pod),
            None => known.pods.remove(change.key()),
        };
        if old.is_some_and(|old| plan::occupies(&old, node)) && !stays {
            known.chances += 1;
        }
        drop(known);
        self.0.changed.notify_one();
    }

    pub(super) fn node(&self, change: &Change<Whole<Node>>) {
        let new = change.new().and_then(|view| view.object().object()).cloned().map(Arc::new);
        if new.is_none() && change.new().is_some() {
            tracing::warn!("Node can't be read; its last good state stays");
            return;
        }
        let mut known = self.0.known.lock();
        let same = match (&known.node, &new) {
            (Some(old), Some(new)) => plan::same_for_pods(old, new),
            _ => false,
        };
        known.node = new;
        known.chances += u64::from(!same);
        drop(known);
        self.0.changed.notify_one();
    }

    /// The pod was bound; the watch tells of it later.
    pub(super) fn bound(&self, key: &ObjectKey, node: &str) {
        if let Some(pod) = self.0.known.lock().pods.get_mut(key) {
            Arc::make_mut(pod).spec.get_or_insert_default().node_name = Some(node.to_owned());
        }
    }
}
