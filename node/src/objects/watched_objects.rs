//! The config maps and secrets of the node's pods.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use parking_lot::Mutex;
use steersman_api::ObjectKey;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::references::References;
use super::watched_object::{Kept, WatchedObject};
use super::{ObjectError, Objects};

/// Config maps and secrets by a watch of each (`metadata.name=...`), which is all that a node may ask for.
///
/// A watch lives while a registered pod refers to its object; it pauses while nobody reads, and ends once an object says
/// that it is immutable.
pub struct WatchedObjects {
    config_maps: Cache<ConfigMap>,
    secrets: Cache<Secret>,
    /// What each registered pod refers to, by its uid.
    pods: Mutex<HashMap<String, References>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl WatchedObjects {
    /// None yet. Watches run in tasks on the current runtime until `stop`; see [`stopped`](Self::stopped).
    ///
    /// `client` must neither limit nor retry; watches of hundreds of objects must spread over its connections.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(client: kube::Client, stop: CancellationToken) -> Self {
        let tasks = TaskTracker::new();
        let spawner = Spawner { client, tasks: tasks.clone(), handle: Handle::current(), stop: stop.clone() };
        Self {
            config_maps: Cache::new(spawner.clone()),
            secrets: Cache::new(spawner),
            pods: Mutex::default(),
            tasks,
            stop,
        }
    }

    /// Waits until all watches have ended, once it was told to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits until no watch runs.
    #[cfg(test)]
    pub(super) async fn tasks_end(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// How many objects are watched, or were read for good.
    pub fn len(&self) -> usize {
        self.config_maps.objects.lock().len() + self.secrets.objects.lock().len()
    }

    /// Whether no registered pod refers to anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[async_trait]
impl Objects for WatchedObjects {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        self.config_maps.read(namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.secrets.read(namespace, name).await
    }

    fn register(&self, pod: &Pod) {
        let (uid, namespace) = identity(pod);
        let now = References::of(pod);
        let mut pods = self.pods.lock();
        let none = References::default();
        let before = pods.get(uid).unwrap_or(&none);
        if *before == now && pods.contains_key(uid) {
            return;
        }
        self.config_maps.add(namespace, now.config_maps.difference(&before.config_maps));
        self.secrets.add(namespace, now.secrets.difference(&before.secrets));
        self.config_maps.remove(namespace, before.config_maps.difference(&now.config_maps));
        self.secrets.remove(namespace, before.secrets.difference(&now.secrets));
        pods.insert(uid.to_owned(), now);
    }

    fn unregister(&self, pod: &Pod) {
        let (uid, namespace) = identity(pod);
        let mut pods = self.pods.lock();
        if let Some(before) = pods.remove(uid) {
            self.config_maps.remove(namespace, before.config_maps.iter());
            self.secrets.remove(namespace, before.secrets.iter());
        }
    }
}

/// Uid and namespace.
fn identity(pod: &Pod) -> (&str, &str) {
    let meta = &pod.metadata;
    (meta.uid.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default())
}

/// The objects of one kind.
struct Cache<T> {
    objects: Mutex<HashMap<ObjectKey, Entry<T>>>,
    spawner: Spawner,
}

struct Entry<T> {
    object: Arc<WatchedObject<T>>,
    /// How many pods refer to it; never 0.
    pods: usize,
}

/// What it takes to begin a watch.
#[derive(Clone)]
struct Spawner {
    client: kube::Client,
    tasks: TaskTracker,
    handle: Handle,
    stop: CancellationToken,
}

impl Spawner {
    fn watch<T: Kept>(&self, key: ObjectKey) -> Arc<WatchedObject<T>> {
        let span = tracing::info_span!("watch", kind = T::SINGULAR, %key);
        let object = Arc::new(WatchedObject::new(key, self.stop.child_token()));
        let (task, client) = (Arc::clone(&object), self.client.clone());
        self.tasks.spawn_on(async move { task.run(client).await }.instrument(span), &self.handle);
        object
    }
}

impl<T: Kept> Cache<T> {
    fn new(spawner: Spawner) -> Self {
        Self { objects: Mutex::default(), spawner }
    }

    fn add<'a>(&self, namespace: &str, names: impl Iterator<Item = &'a String>) {
        for name in names {
            let key = ObjectKey::new(namespace, name);
            let mut objects = self.objects.lock();
            match objects.get_mut(&key) {
                Some(entry) => {
                    entry.pods += 1;
                    entry.object.renew();
                }
                None => {
                    let object = self.spawner.watch(key.clone());
                    objects.insert(key, Entry { object, pods: 1 });
                }
            }
        }
    }

    fn remove<'a>(&self, namespace: &str, names: impl Iterator<Item = &'a String>) {
        let names: BTreeSet<_> = names.map(|name| ObjectKey::new(namespace, name)).collect();
        let mut objects = self.objects.lock();
        for key in names {
            let Some(entry) = objects.get_mut(&key) else { continue };
            entry.pods -= 1;
            if entry.pods == 0 {
                entry.object.stop.cancel();
                objects.remove(&key);
            }
        }
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Arc<T>, ObjectError> {
        let object =
            self.objects.lock().get(&ObjectKey::new(namespace, name)).map(|entry| entry.object.clone());
        match object {
            Some(object) => object.read().await,
            None => Err(ObjectError::Other(format!("object {namespace:?}/{name:?} not registered"))),
        }
    }
}
