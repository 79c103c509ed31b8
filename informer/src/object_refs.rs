//! Triggers for kube-runtime's controllers. With the feature `kube-runtime`.
//!
//! A kube-runtime `Controller` watches whole objects of its own kind and of every kind that it relates to, and decodes
//! all of each. [`ObjectRefs`] lets an informer take the place of the related kinds' watches: the informer caches a
//! projection, shared with all other users in the process, and the controller gets a stream of the objects to reconcile.
//! The stream fits `Controller::reconcile_on` (behind kube-runtime's feature `unstable-runtime-reconcile-on`), and, with each
//! item wrapped in `Ok`, the queue of `kube_runtime::applier`. Reconcilers read the related objects with a
//! [`Lister`](crate::Lister).

use std::collections::VecDeque;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ::kube_runtime::reflector::{Lookup, ObjectRef};
use futures::Stream;
use hashbrown::HashSet;
use parking_lot::Mutex;

use crate::shared_informer::{Informer, MappingRegistration};
use crate::wire::{Selection, View};

/// The objects that a controller should reconcile because of changes in an informer's cache. From
/// [`Informer::object_refs`] and [`Informer::owner_refs`].
///
/// An object that waits in the stream waits only once, so a slow controller costs no more than one entry for each object.
/// Objects come in the order in which they began to wait. The stream begins with those of all cached objects, and ends when
/// the informer does. Dropping the stream removes it from the informer.
pub struct ObjectRefs<K: Lookup> {
    waiting: Arc<Mutex<Waiting<K>>>,
    mapping: MappingRegistration,
}

/// The number of objects for which an empty stream keeps memory.
const KEPT: usize = 64;

struct Waiting<K: Lookup> {
    line: VecDeque<ObjectRef<K>>,
    /// Exactly the objects in `line`.
    members: HashSet<ObjectRef<K>>,
    /// The task that polled the stream last and found it empty.
    waker: Option<Waker>,
    /// The informer calls the mapping no more.
    ended: bool,
}

/// The mapping's end. Dropped with the mapping.
struct Feed<K: Lookup>(Arc<Mutex<Waiting<K>>>);

impl<K: Lookup> Feed<K>
where
    K::DynamicType: Clone + Eq + Hash,
{
    /// Locks once for each object, because `objects` runs the user's code.
    fn add(&self, objects: impl IntoIterator<Item = ObjectRef<K>>) {
        for object in objects {
            let mut waiting = self.0.lock();
            if waiting.members.insert(object.clone()) {
                waiting.line.push_back(object);
            }
            let waker = waiting.waker.take();
            drop(waiting);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<K: Lookup> Drop for Feed<K> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.ended = true;
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<K: Lookup> Stream for ObjectRefs<K>
where
    K::DynamicType: Eq + Hash,
{
    type Item = ObjectRef<K>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ObjectRef<K>>> {
        let mut waiting = self.waiting.lock();
        if let Some(object) = waiting.line.pop_front() {
            waiting.members.remove(&object);
            return Poll::Ready(Some(object));
        }
        if waiting.ended {
            return Poll::Ready(None);
        }
        // The first objects are all that are cached; later ones are few.
        waiting.line.shrink_to(KEPT);
        waiting.members.shrink_to(KEPT);
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<K: Lookup> Drop for ObjectRefs<K> {
    fn drop(&mut self) {
        self.mapping.remove();
    }
}

impl<S: Selection> Informer<S> {
    /// The objects to reconcile because of changes of this informer's objects. `objects` names those that a state concerns;
    /// the stream has them for the old and the new state of each change, and for resyncs.
    ///
    /// `objects` runs as a mapping: see [`map`](Self::map).
    pub fn object_refs<K, I>(&self, objects: impl Fn(&View<S>) -> I + Send + Sync + 'static) -> ObjectRefs<K>
    where
        K: Lookup + 'static,
        K::DynamicType: Clone + Eq + Hash + Send,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let waiting = Arc::new(Mutex::new(Waiting {
            line: VecDeque::new(),
            members: HashSet::new(),
            waker: None,
            ended: false,
        }));
        let feed = Feed(Arc::clone(&waiting));
        let mapping = self.map(move |change| {
            let newest = change.newest();
            let replaced = change.old().filter(|old| !Arc::ptr_eq(old.object(), newest.object()));
            feed.add(replaced.into_iter().chain([newest]).flat_map(&objects));
        });
        ObjectRefs { waiting, mapping }
    }

    /// The owners, of kind `K`, of the objects that change: what kube-runtime's `Controller::owns` reconciles. An owner is
    /// looked for in the namespace of the object that refers to it.
    pub fn owner_refs<K>(&self) -> ObjectRefs<K>
    where
        K: Lookup<DynamicType = ()> + 'static,
    {
        self.object_refs(|view| {
            let meta = view.meta();
            let is_owner = |owner: &&steersman_api::OwnerReference| {
                owner.kind == K::kind(&()) && owner.api_version == K::api_version(&())
            };
            let namespace = &meta.key.namespace;
            let object = |owner: &steersman_api::OwnerReference| {
                let object = ObjectRef::new(&owner.name);
                if namespace.is_empty() { object } else { object.within(namespace) }
            };
            meta.owners.iter().filter(is_owner).map(object).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use steersman_api::{GroupVersionResource, ObjectKey};
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::shared_informer::{Config, SharedInformer};
    use crate::testing::ScriptedSource;
    use crate::wire::meta::MetaOnly;

    fn owned(name: &str, owner: &str) -> serde_json::Value {
        let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner});
        let owners = [owner("ConfigMap"), owner("Secret")];
        json!({ "metadata": { "name": name, "namespace": "default", "uid": name, "ownerReferences": owners } })
    }

    /// All that waits in the stream now.
    fn now(objects: &mut ObjectRefs<ConfigMap>) -> Vec<String> {
        std::iter::from_fn(|| objects.next().now_or_never().flatten()).map(|object| object.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_users_function_runs_under_no_lock_of_the_stream() {
        let source = ScriptedSource::<MetaOnly>::default();
        let resource = GroupVersionResource::new("", "v1", "things");
        let shared = SharedInformer::new(Arc::new(source.clone()), resource, Config::default());
        let waiting = Arc::new(Mutex::new(None::<Arc<Mutex<Waiting<ConfigMap>>>>));
        let (seen, free) = (Arc::clone(&waiting), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&free);
        let objects = shared.select::<MetaOnly>().unwrap().object_refs::<ConfigMap, _>(move |view| {
            let is_free = seen.lock().as_ref().is_some_and(|waiting| !waiting.is_locked());
            noted.lock().push(is_free);
            [ObjectRef::new(&view.meta().key.name)]
        });
        *waiting.lock() = Some(Arc::clone(&objects.waiting));
        source.apply(owned("a", "one"));
        source.apply(owned("b", "one"));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&shared).run(stop.clone()));
        assert_eq!(objects.map(|object| object.name).take(2).collect::<Vec<_>>().await, ["a", "b"]);
        assert_eq!(*free.lock(), [true, true]);
        stop.cancel();
        while tasks.join_next().await.is_some() {}
    }

    #[tokio::test(start_paused = true)]
    async fn owners_wait_once_each_and_old_owners_are_told_too() {
        let source = ScriptedSource::<MetaOnly>::default();
        let resource = GroupVersionResource::new("", "v1", "things");
        let shared = SharedInformer::new(Arc::new(source.clone()), resource, Config::default());
        let informer = shared.select::<MetaOnly>().unwrap();
        let mut objects = informer.owner_refs::<ConfigMap>();
        let dropped = informer.owner_refs::<ConfigMap>();
        for name in ["a", "b"] {
            source.apply(owned(name, "one"));
        }
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(Arc::clone(&shared).run(stop.clone()));
        let first = objects.next().await.unwrap();
        assert_eq!(first, ObjectRef::<ConfigMap>::new("one").within("default"));
        assert!(informer.synced().await);
        now(&mut objects);
        let seen = async |informer: &Informer<MetaOnly>| {
            while informer.last_sync_resource_version() < source.version() {
                tokio::task::yield_now().await;
            }
        };
        source.apply(owned("b", "two"));
        source.apply(owned("b", "two"));
        seen(&informer).await;
        assert_eq!(now(&mut objects), ["one", "two"]);
        source.delete(&ObjectKey::new("default", "b"));
        assert_eq!(objects.next().await.unwrap().name, "two", "the stream wakes its task");

        for i in 0..10 * KEPT {
            source.apply(owned(&format!("many-{i}"), &format!("owner-{i}")));
        }
        seen(&informer).await;
        let room = |objects: &ObjectRefs<ConfigMap>| {
            let waiting = objects.waiting.lock();
            waiting.line.capacity().max(waiting.members.capacity())
        };
        assert!(room(&objects) >= 10 * KEPT);
        assert_eq!(now(&mut objects).len(), 10 * KEPT);
        assert!(room(&objects) <= 2 * KEPT, "an empty stream gives its memory back");

        let waiting = Arc::downgrade(&dropped.waiting);
        drop(dropped);
        source.apply(owned("c", "three"));
        seen(&informer).await;
        assert_eq!(waiting.strong_count(), 0, "the mapping of a dropped stream is gone");

        stop.cancel();
        while tasks.join_next().await.is_some() {}
        assert_eq!(now(&mut objects), ["three"]);
        assert_eq!(objects.next().await, None);
    }
}
