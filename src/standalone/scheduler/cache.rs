//! What the scheduler knows: the pods that have no node, those on its node, and the node. Of pods on other nodes, which may
//! be all that there are, it keeps nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_informer::Change;
use steersman_informer::wire::whole::Whole;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::plan;

/// How long a pod that was bound is counted where nobody tells that it came. As kube-scheduler once had it.
const ASSUMED: Duration = Duration::from_secs(30);

/// A clone is the same one.
#[derive(Clone, Default)]
pub(super) struct Cache(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    changed: Notify,
}

/// The two kinds of pods come over watches of their own, of which each may be behind the other.
#[derive(Default, Clone)]
pub(super) struct Known {
    /// Those without a node, whoever is to place them.
    homeless: BTreeMap<ObjectKey, Arc<Pod>>,
    /// Those with this node.
    here: BTreeMap<ObjectKey, Arc<Pod>>,
    /// Those that are being bound, or were, by uid, and until when they count; the watch of the node's pods, once it tells of
    /// one, takes it out. Until then whatever else is told of it is older.
    assumed: BTreeMap<String, (Arc<Pod>, Instant)>,
    pub(super) node: Option<Arc<Node>>,
    /// Grows whenever there may be room for a pod that there was not before.
    pub(super) chances: u64,
}

impl Known {
    /// The pods that wait for a node.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&ObjectKey, &Pod)> {
        self.homeless.iter().map(|(key, pod)| (key, &**pod)).filter(|(key, pod)| self.waits(key, pod))
    }

    /// The pod of that name, if it waits for a node.
    pub(super) fn waiting_at(&self, key: &ObjectKey) -> Option<&Pod> {
        self.homeless.get(key).map(|pod| &**pod).filter(|pod| self.waits(key, pod))
    }

    fn waits(&self, key: &ObjectKey, pod: &Pod) -> bool {
        let is_here = self.here.get(key).is_some_and(|here| uid_of(here) == uid_of(pod));
        plan::waits(pod) && !is_here && !self.assumed.contains_key(uid_of(pod))
    }

    /// The pods that take room on the node.
    pub(super) fn on_node(&self) -> impl Iterator<Item = &Pod> {
        let here = self.here.values().filter(|pod| plan::takes_room(pod));
        here.chain(self.assumed.values().map(|(pod, _)| pod)).map(|pod| &**pod)
    }

    /// When the first of those that are only assumed no longer counts.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.assumed.values().map(|(_, until)| *until).min()
    }

    /// Forgets those whose time is over.
    fn expire(&mut self, now: Instant) {
        let before = self.assumed.len();
        self.assumed.retain(|_, (_, until)| *until > now);
        self.chances += u64::from(self.assumed.len() < before);
    }
}

fn uid_of(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

impl Cache {
    /// All of it, as it is now.
    pub(super) fn known(&self) -> Known {
        let mut known = self.0.known.lock();
        known.expire(Instant::now());
        known.clone()
    }

    /// Returns once something changed since the last call.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The watch of pods without a node tells of one.
    pub(super) fn homeless(&self, change: &Change<Whole<Pod>>) {
        if let Some(new) = read(change) {
            self.see_homeless(change.key(), new);
        }
    }

    /// The watch of the node's pods tells of one.
    pub(super) fn here(&self, change: &Change<Whole<Pod>>) {
        if let Some(new) = read(change) {
            self.see_here(change.key(), new);
        }
    }

    fn see_homeless(&self, key: &ObjectKey, new: Option<Arc<Pod>>) {
        let mut known = self.0.known.lock();
        match new {
            Some(pod) => known.homeless.insert(key.clone(), pod),
            None => known.homeless.remove(key),
        };
        drop(known);
        self.0.changed.notify_one();
    }

    fn see_here(&self, key: &ObjectKey, new: Option<Arc<Pod>>) {
        let mut known = self.0.known.lock();
        let stays = new.as_ref().is_some_and(|pod| plan::takes_room(pod));
        let assumed = new.as_ref().and_then(|pod| known.assumed.remove(uid_of(pod)));
        let old = match new {
            Some(pod) => known.here.insert(key.clone(), pod),
            None => known.here.remove(key),
        };
        if let Some(gone) = old.as_ref().filter(|_| !known.here.contains_key(key))
            && known.homeless.get(key).is_some_and(|pod| uid_of(pod) == uid_of(gone))
        {
            // That it once had no node is all that its other watch has told yet.
            known.homeless.remove(key);
        }
        let took_room = assumed.is_some() || old.is_some_and(|old| plan::takes_room(&old));
        known.chances += u64::from(took_room && !stays);
        drop(known);
        self.0.changed.notify_one();
    }

    /// The node changed.
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

    /// The pod is about to be bound. To be called before anybody else can know.
    pub(super) fn assume(&self, pod: &Pod) {
        let until = Instant::now() + ASSUMED;
        self.0.known.lock().assumed.insert(uid_of(pod).to_owned(), (Arc::new(pod.clone()), until));
    }

    /// The pod was not bound after all.
    pub(super) fn give_up(&self, pod: &Pod) {
        self.0.known.lock().assumed.remove(uid_of(pod));
    }
}

/// The new state of a pod, or that it is gone; `None` if it can't be read.
#[allow(clippy::option_option, reason = "what can't be read is not gone")]
fn read(change: &Change<Whole<Pod>>) -> Option<Option<Arc<Pod>>> {
    let new = change.new().and_then(|view| view.object().object()).cloned().map(Arc::new);
    if new.is_none() && change.new().is_some() {
        tracing::warn!(pod = %change.key(), "Pod can't be read; its last good state stays");
        return None;
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use steersman_testing as testing;

    use super::*;

    /// A pod without a node.
    fn waiting(uid: &str) -> testing::Pod {
        testing::pod("p").namespace("default").uid(uid).phase("Pending")
    }

    /// A pod on this node.
    fn here(uid: &str, phase: &str) -> testing::Pod {
        waiting(uid).on("n").phase(phase)
    }

    fn shown(pod: testing::Pod) -> Option<Arc<Pod>> {
        Some(Arc::new(serde_json::from_value(pod.build()).unwrap()))
    }

    fn key() -> ObjectKey {
        ObjectKey::new("default", "p")
    }

    /// The uid of the pod that waits, those of the pods on the node, and the chances so far.
    fn state(cache: &Cache) -> (Option<String>, Vec<String>, u64) {
        let known = cache.known();
        let waiting = known.waiting_at(&key()).map(|pod| uid_of(pod).to_owned());
        (waiting, known.on_node().map(|pod| uid_of(pod).to_owned()).collect(), known.chances)
    }

    fn are(waiting: &str, on_node: &[&str], chances: u64) -> (Option<String>, Vec<String>, u64) {
        let waiting = (!waiting.is_empty()).then(|| waiting.to_owned());
        (waiting, on_node.iter().map(|uid| (*uid).to_owned()).collect(), chances)
    }

    #[test]
    fn a_pod_takes_room_from_when_it_is_assumed_until_it_has_ended_whatever_comes_late() {
        let cache = Cache::default();
        let first = shown(waiting("1"));
        cache.see_homeless(&key(), first.clone());
        assert_eq!(state(&cache), are("1", &[], 0));
        cache.assume(&first.unwrap());
        assert_eq!(state(&cache), are("", &["1"], 0));
        // An older state, and that it has no longer no node.
        cache.see_homeless(&key(), shown(waiting("1")));
        cache.see_homeless(&key(), None);
        assert_eq!(state(&cache), are("", &["1"], 0));
        cache.see_here(&key(), shown(here("1", "Running")));
        assert_eq!(state(&cache), are("", &["1"], 0));
        // Another pod of the name is there before the end of the first is told.
        cache.see_homeless(&key(), shown(waiting("2")));
        assert_eq!(state(&cache), are("2", &["1"], 0));
        cache.see_here(&key(), shown(here("1", "Succeeded")));
        assert_eq!(state(&cache), are("2", &[], 1));
        cache.see_here(&key(), None);
        assert_eq!(state(&cache), are("2", &[], 1));
    }

    #[test]
    fn a_pod_that_came_and_went_while_it_was_bound_leaves_nothing() {
        let cache = Cache::default();
        let first = shown(waiting("1"));
        cache.see_homeless(&key(), first.clone());
        cache.assume(&first.unwrap());
        cache.see_here(&key(), shown(here("1", "Pending")));
        assert_eq!(state(&cache), are("", &["1"], 0), "it does not wait again");
        cache.see_here(&key(), None);
        assert_eq!(state(&cache), are("", &[], 1));
        cache.see_homeless(&key(), None);
        assert_eq!(state(&cache), are("", &[], 1));
    }

    #[test]
    fn a_pod_that_was_not_bound_waits_again() {
        let cache = Cache::default();
        let first = shown(waiting("1"));
        cache.see_homeless(&key(), first.clone());
        cache.assume(first.as_ref().unwrap());
        cache.give_up(&first.unwrap());
        assert_eq!(state(&cache), are("1", &[], 0));
    }

    #[test]
    fn a_pod_that_nobody_tells_of_after_it_was_bound_counts_for_a_while() {
        let cache = Cache::default();
        cache.assume(&shown(waiting("1")).unwrap());
        let until = cache.known().next_expiry().unwrap();
        cache.0.known.lock().expire(until - Duration::from_secs(1));
        assert_eq!(state(&cache), are("", &["1"], 0));
        cache.0.known.lock().expire(until);
        assert_eq!((state(&cache), cache.known().next_expiry()), (are("", &[], 1), None));
    }
}
