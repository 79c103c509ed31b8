//! A controller's own writes that its caches may not show yet.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steersman_api::{GroupVersionResource, ObjectKey, ResourceVersion, Uid};
use steersman_informer::AnyInformer;
use steersman_informer::wire::Kind;
use tokio::time::Instant;

use crate::client::{WriteOutcome, Wrote};
use crate::controller::SyncError;

mod children;
#[cfg(test)]
mod tests;

use children::Children;
pub use children::{Gone, Listing};

/// Remembers a controller's own writes, by the key of the owner that they were made for, so that no sync decides on a
/// cache that does not show them. Otherwise a sync would create a second pod for each one that the cache does not show
/// yet.
///
/// It remembers of each owner:
/// - for each cache, the version that the cache must reach: the latest that a write was answered with;
/// - whether the outcome of a write is unknown: then there is no version to wait for, and only the API server can tell;
/// - for each kind of children, the *condemned*: children that the controller has removed, or whose finalizer it has
///   removed. A cache may still show such a child as it was, since the answer to the write that removed a child does not
///   always carry the version of the removal;
/// - for each kind of children, the last [`Listing`]: a child that is not in it is gone. A cache may still show that child,
///   even if the cache shows all remaining children in their newest state.
///
/// The caches are known by their resources, and may come and go ([`watch`](Self::watch), [`unwatch`](Self::unwatch)): a
/// write to a kind that no cache shows is not waited for.
///
/// A sync calls [`check`](Self::check) *before* it reads any object from a cache:
/// - [`Freshness::Current`]: it decides on the caches;
/// - [`Freshness::Behind`]: it ends, and the key is synced again once the cache has moved on;
/// - [`Freshness::Doubtful`]: it reads the owner and its children from the API server, reports that by
///   [`reread`](Self::reread) and [`listed`](Self::listed), and decides on the answer.
///
/// The controller makes its writes through [`write`](Self::write) and [`remove`](Self::remove). Syncs of one owner must not
/// overlap; syncs of different owners may.
pub struct OwnWrites<K = ObjectKey> {
    patience: Duration,
    /// Never shrinks: the place of a cache in it is the cache's number in records.
    caches: RwLock<Vec<Cache>>,
    owners: Mutex<HashMap<K, Record>>,
}

/// Whether a sync can decide on the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The caches show all own writes.
    Current,
    /// A cache does not show all own writes yet, and may soon.
    Behind {
        /// The resource that the cache shows.
        resource: GroupVersionResource,
        /// Whether this is the first check that finds it so, rather than one more look of a sync that waits already.
        newly: bool,
    },
    /// The outcome of a write is unknown, or a cache has been behind for longer than the controller's patience.
    Doubtful,
}

/// A write of this process that a cache does not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The resource that was written to.
    pub resource: GroupVersionResource,
    /// The version that the cache must reach.
    pub version: ResourceVersion,
    /// The version that the cache has reached.
    pub reached: ResourceVersion,
}

type Version = Box<dyn Fn() -> ResourceVersion + Send + Sync>;

struct Cache {
    resource: GroupVersionResource,
    /// Returns the version that the cache has reached. `None`: the cache is gone, and no sync decides on it any more.
    version: Option<Version>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    /// By the number of the cache.
    must_see: Vec<(usize, ResourceVersion)>,
    unknown: bool,
    children: Children,
    /// When checks began to find a cache behind. A check that finds the caches current clears it.
    behind_since: Option<Instant>,
}

/// A write under way. If it is dropped, the write's outcome counts as unknown: so it is for a sync that is cancelled,
/// or panics, during a call.
struct Attempt<'a, K: Hash + Eq + Clone> {
    writes: &'a OwnWrites<K>,
    owner: &'a K,
    told: bool,
}

impl<K: Hash + Eq + Clone> OwnWrites<K> {
    /// Remembers no writes, and knows no caches. Once a cache has been behind for `patience`, syncs stop waiting for it.
    pub fn new(patience: Duration) -> Self {
        Self { patience, caches: RwLock::default(), owners: Mutex::default() }
    }

    /// Waits for this cache from now on to show the writes to its resource.
    #[must_use]
    pub fn over(self, cache: &Arc<dyn AnyInformer>) -> Self {
        self.watch(cache);
        self
    }

    /// Waits for this cache from now on to show the writes to its resource. Replaces an earlier cache of that resource.
    pub fn watch(&self, cache: &Arc<dyn AnyInformer>) {
        let reached = Arc::clone(cache);
        self.watch_version(cache.resource().clone(), move || reached.last_sync_resource_version());
    }

    /// As [`watch`](Self::watch), for a cache that is known by a function which returns the version it has reached.
    pub fn watch_version(
        &self,
        resource: GroupVersionResource,
        version: impl Fn() -> ResourceVersion + Send + Sync + 'static,
    ) {
        let mut caches = self.caches.write();
        let version = Some(Box::new(version) as Version);
        match caches.iter_mut().find(|cache| cache.resource == resource) {
            Some(cache) => cache.version = version,
            None => caches.push(Cache { resource, version }),
        }
    }

    /// Waits no longer for the cache of a resource: it is gone, and the caller decides on it no more.
    pub fn unwatch(&self, resource: &GroupVersionResource) {
        let mut caches = self.caches.write();
        if let Some(cache) = caches.iter_mut().find(|cache| cache.resource == *resource) {
            cache.version = None;
        }
    }

    /// Whether the caches show all that the controller wrote for `owner`. The caller must not have read objects from the
    /// caches before: what it reads afterwards is at least as new.
    pub fn check(&self, owner: &K) -> Freshness {
        let caches = self.caches.read();
        let mut owners = self.owners.lock();
        let Some(record) = owners.get_mut(owner) else { return Freshness::Current };
        if record.unknown {
            return Freshness::Doubtful;
        }
        let reached = |cache: usize| caches[cache].version.as_ref().map(|version| version());
        let is_behind = |(cache, version): &&(usize, ResourceVersion)| {
            reached(*cache).is_some_and(|reached| reached < *version)
        };
        let Some((cache, _)) = record.must_see.iter().find(is_behind) else {
            record.behind_since = None;
            record.must_see.clear();
            record.children.forget_listings(reached);
            if record.children.is_empty() {
                owners.remove(owner);
            }
            return Freshness::Current;
        };
        let (now, newly) = (Instant::now(), record.behind_since.is_none());
        if now.duration_since(*record.behind_since.get_or_insert(now)) >= self.patience {
            return Freshness::Doubtful;
        }
        Freshness::Behind { resource: caches[*cache].resource.clone(), newly }
    }

    /// The writes for `owner` that the caches do not show yet.
    pub fn awaited(&self, owner: &K) -> Vec<Awaited> {
        let caches = self.caches.read();
        let owners = self.owners.lock();
        let Some(record) = owners.get(owner) else { return Vec::new() };
        let behind = record.must_see.iter().filter_map(|&(cache, version)| {
            let Cache { resource, version: reached } = &caches[cache];
            let reached = reached.as_ref().map(|reached| reached())?;
            (reached < version).then(|| Awaited { resource: resource.clone(), version, reached })
        });
        behind.collect()
    }

    /// Awaits a write for `owner`, and remembers the version that it gave an object. If the write fails and may have had an
    /// effect all the same, or this future is dropped under way, its outcome counts as unknown.
    ///
    /// # Errors
    /// The write failed.
    pub async fn write<T: WriteOutcome>(
        &self,
        owner: &K,
        write: impl Future<Output = Result<T, SyncError>>,
    ) -> Result<T, SyncError> {
        let attempt = Attempt { writes: self, owner, told: false };
        let written = write.await;
        match &written {
            Ok(outcome) => attempt.done(outcome.wrote()),
            Err(error) => attempt.failed(error),
        }
        written
    }

    /// As [`write`](Self::write), for a write that removes a child or the child's finalizer: from now on the child is
    /// condemned, whatever the cache shows. If the write surely had no effect, the child is spared again.
    ///
    /// # Errors
    /// The write failed.
    pub async fn remove<C: Kind, T: WriteOutcome>(
        &self,
        owner: &K,
        child: &Uid,
        write: impl Future<Output = Result<T, SyncError>>,
    ) -> Result<T, SyncError> {
        let cache = self.number(C::GROUP, C::RESOURCE);
        if let Some(cache) = cache {
            self.update(owner, |record| record.children.condemn(cache, child));
        }
        let written = self.write(owner, write).await;
        if let (Some(cache), Err(error)) = (cache, &written)
            && error.surely_not_done()
        {
            self.update(owner, |record| record.children.spare(cache, child));
        }
        written
    }

    /// The children of `owner` of kind `C` that have lost their finalizer or are gone, though the cache, which
    /// [`check`](Self::check) found current, may still show them. `shown` tells whether the cache shows a child so; a
    /// condemned child that the cache does not show so is forgotten. Use this for states from the cache only: an answer of
    /// the API server needs no correction.
    pub fn gone<C: Kind>(&self, owner: &K, shown: impl Fn(&Uid) -> bool) -> Gone {
        let Some(cache) = self.number(C::GROUP, C::RESOURCE) else { return Gone::default() };
        let mut owners = self.owners.lock();
        owners.get_mut(owner).map_or_else(Gone::default, |record| record.children.gone(cache, shown))
    }

    /// Call this after reading the owner and its children from the API server. `newest` are the newest versions in the
    /// answers, one for each kind: later syncs wait until the caches have reached them. `spared` tells whether the answer
    /// shows a child with its finalizer.
    pub fn reread<'a>(
        &self,
        owner: &K,
        newest: impl IntoIterator<Item = Wrote<'a>>,
        spared: impl Fn(&Uid) -> bool,
    ) {
        self.update(owner, |record| {
            record.unknown = false;
            record.behind_since = None;
            record.children.spare_all(spared);
        });
        newest.into_iter().for_each(|newest| self.must_see(owner, newest));
    }

    /// Call this after listing all children of kind `C` of `owner` from the API server.
    pub fn listed<C: Kind>(&self, owner: &K, listing: Listing) {
        if let Some(cache) = self.number(C::GROUP, C::RESOURCE) {
            self.update(owner, |record| record.children.listed(cache, listing));
        }
    }

    /// Forgets an owner that is gone, or finished: the controller will not decide on it again.
    pub fn forget(&self, owner: &K) {
        self.owners.lock().remove(owner);
    }

    /// Forgets all owners. Call this at the start of a term: another process may have written since the last one.
    pub fn clear(&self) {
        self.owners.lock().clear();
    }

    /// The number of the cache of a resource. Other versions of a resource are the same objects.
    fn number(&self, group: &str, resource: &str) -> Option<usize> {
        let is_it = |cache: &Cache| cache.resource.group == group && cache.resource.resource == resource;
        self.caches.read().iter().position(is_it)
    }

    fn must_see(&self, owner: &K, wrote: Wrote<'_>) {
        let Some(cache) = self.number(wrote.group, wrote.resource) else { return };
        self.update(owner, |record| match record.must_see.iter_mut().find(|(other, _)| *other == cache) {
            Some((_, version)) => *version = wrote.version.max(*version),
            None => record.must_see.push((cache, wrote.version)),
        });
    }

    fn update(&self, owner: &K, change: impl FnOnce(&mut Record)) {
        let mut owners = self.owners.lock();
        // Most owners have a record already, and its key need not be cloned.
        match owners.get_mut(owner) {
            Some(record) => change(record),
            None => change(owners.entry(owner.clone()).or_default()),
        }
    }
}

impl<K: Hash + Eq + Clone> Attempt<'_, K> {
    fn done(mut self, wrote: Option<Wrote<'_>>) {
        self.told = true;
        if let Some(wrote) = wrote {
            self.writes.must_see(self.owner, wrote);
        }
    }

    fn failed(mut self, error: &SyncError) {
        self.told = error.surely_not_done();
    }
}

impl<K: Hash + Eq + Clone> Drop for Attempt<'_, K> {
    fn drop(&mut self) {
        if !self.told {
            self.writes.update(self.owner, |record| record.unknown = true);
        }
    }
}

impl<K> fmt::Debug for OwnWrites<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrites").field("owners", &self.owners.lock().len()).finish_non_exhaustive()
    }
}
