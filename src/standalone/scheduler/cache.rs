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
    /// The uids of pods that were bound here, and their nodes, until the watch tells so: what it tells meanwhile is older.
    bound: BTreeMap<ObjectKey, (Option<String>, String)>,
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
        self.see(change.key(), new, node);
    }

    /// A state of a pod, or that it is gone.
    fn see(&self, key: &ObjectKey, mut new: Option<Arc<Pod>>, node: &str) {
        let mut known = self.0.known.lock();
        let bound = known.bound.get(key).filter(|(uid, _)| {
            let older = |pod: &Arc<Pod>| pod.metadata.uid == *uid && plan::node_of(pod).is_none();
            new.as_ref().is_some_and(older)
        });
        match (bound.map(|(_, node)| node.clone()), &mut new) {
            (Some(node), Some(pod)) => {
                Arc::make_mut(pod).spec.get_or_insert_default().node_name = Some(node);
            }
            _ => drop(known.bound.remove(key)),
        }
        let stays = new.as_ref().is_some_and(|pod| plan::occupies(pod, node));
        let old = match new {
            Some(pod) => known.pods.insert(key.clone(), pod),
            None => known.pods.remove(key),
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

    /// The pod of that uid was bound; the watch tells of it later.
    pub(super) fn bound(&self, key: &ObjectKey, uid: Option<&str>, node: &str) {
        let mut known = self.0.known.lock();
        let Some(pod) = known.pods.get_mut(key) else { return };
        if pod.metadata.uid.as_deref() == uid && plan::node_of(pod).is_none() {
            Arc::make_mut(pod).spec.get_or_insert_default().node_name = Some(node.to_owned());
            known.bound.insert(key.clone(), (uid.map(str::to_owned), node.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, label: &str, node: Option<&str>) -> Option<Arc<Pod>> {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": uid, "labels": {"a": label}},
            "spec": {"containers": [], "nodeName": node},
        });
        Some(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    #[test]
    fn a_bound_pod_stays_so_whatever_older_states_the_watch_still_tells() {
        let cache = Cache::default();
        let key = ObjectKey::new("default", "p");
        let node = || cache.known().pods.get(&key).and_then(|pod| plan::node_of(pod).map(str::to_owned));
        cache.see(&key, pod("1", "first", None), "n");
        cache.bound(&key, Some("1"), "n");
        cache.see(&key, pod("1", "second", None), "n");
        cache.see(&key, pod("1", "third", None), "n");
        assert_eq!(node().as_deref(), Some("n"));
        assert_eq!(cache.known().chances, 0, "its room was never free");
        cache.see(&key, pod("1", "third", Some("n")), "n");
        assert_eq!(node().as_deref(), Some("n"));
        // Another pod of the name has nothing of it.
        cache.see(&key, pod("2", "first", None), "n");
        assert_eq!((node(), cache.known().chances), (None, 1));
    }

    #[test]
    fn a_pod_that_went_while_it_was_bound_binds_no_other_of_its_name() {
        let cache = Cache::default();
        let key = ObjectKey::new("default", "p");
        cache.see(&key, pod("1", "first", None), "n");
        cache.see(&key, None, "n");
        cache.bound(&key, Some("1"), "n");
        cache.see(&key, pod("2", "first", None), "n");
        cache.bound(&key, Some("1"), "n");
        assert!(plan::waits(&cache.known().pods[&key]));
        cache.bound(&key, Some("2"), "n");
        assert!(!plan::waits(&cache.known().pods[&key]));
        cache.see(&key, None, "n");
        assert!(cache.known().bound.is_empty());
    }
}
