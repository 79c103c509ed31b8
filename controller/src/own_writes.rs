//! A controller's own writes that its cache may not show yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion, Uid};
use tokio::time::Instant;

use crate::controller::SyncError;

/// Remembers a controller's own writes, by the key of the owner that they were made for, so that no sync decides on a
/// cache that does not show them. Otherwise a sync would create a second pod for each one that the cache does not show
/// yet.
///
/// It remembers of each owner:
/// - for each of the controller's `CACHES`, the version that the cache must reach: the latest that a write was answered
///   with;
/// - whether the outcome of a write is unknown: then there is no version to wait for, and only the API server can tell;
/// - the *condemned*: children whose finalizer the controller has removed. A cache may still show such a child as it
///   was, since the answer to the write that removed a child does not carry the version of the removal;
/// - the last [`Listing`]: a child that is not in it is gone. A cache may still show that child, even if the cache
///   shows all remaining children in their newest state.
///
/// A sync reads the caches' versions *before* it reads any object, and passes them to [`check`](Self::check):
/// - [`Freshness::Current`]: it decides on the caches;
/// - [`Freshness::Behind`]: it ends, and the key is synced again once the cache has moved on;
/// - [`Freshness::Doubtful`]: it reads the owner and its children from the API server, reports that by
///   [`reread`](Self::reread) and [`listed`](Self::listed), and decides on the answer.
///
/// The controller holds an [`Attempt`] during each write. Syncs of one owner must not overlap; syncs of different
/// owners may.
#[derive(Debug)]
pub struct OwnWrites<const CACHES: usize> {
    patience: Duration,
    owners: Mutex<HashMap<ObjectKey, Record<CACHES>>>,
}

/// Whether a sync can decide on the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The caches show all own writes.
    Current,
    /// This cache does not show all own writes yet, and may soon.
    Behind {
        /// The cache's number.
        cache: usize,
        /// Whether this is the first check that finds it so, rather than one more look of a sync that waits already.
        newly: bool,
    },
    /// The outcome of a write is unknown, or a cache has been behind for longer than the controller's patience.
    Doubtful,
}

#[derive(Clone, Debug)]
struct Record<const CACHES: usize> {
    must_see: [ResourceVersion; CACHES],
    unknown: bool,
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
    /// When checks began to find a cache behind. A check that finds the caches current clears it.
    behind_since: Option<Instant>,
}

impl<const CACHES: usize> Default for Record<CACHES> {
    fn default() -> Self {
        Self {
            must_see: [ResourceVersion::ANY; CACHES],
            unknown: false,
            condemned: HashSet::new(),
            listing: None,
            behind_since: None,
        }
    }
}

/// The API server's list of an owner's children.
#[derive(Debug)]
pub struct Listing {
    /// The number of the cache that shows such children.
    pub cache: usize,
    /// The list's version: a state of a child that is as old or older is in the list, or is outdated.
    pub as_of: ResourceVersion,
    /// The children that still had their finalizer.
    pub held: HashSet<Uid>,
}

/// The children that have lost their finalizer, though a cache may still show it. Returned by [`OwnWrites::gone`].
#[derive(Debug, Default)]
pub struct Gone {
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
}

impl Gone {
    /// Whether this process removed the child's finalizer.
    pub fn is_condemned(&self, child: &Uid) -> bool {
        self.condemned.contains(child)
    }

    /// Whether the last listing shows that a child, which a cache shows at `version`, has since lost its finalizer.
    pub fn is_past(&self, child: &Uid, version: ResourceVersion) -> bool {
        let past = |listing: &Listing| version <= listing.as_of && !listing.held.contains(child);
        self.listing.as_deref().is_some_and(past)
    }
}

/// A write under way. If it is dropped, the write's outcome counts as unknown: so it is for a sync that is cancelled,
/// or panics, during a call.
#[derive(Debug)]
#[must_use = "a write whose outcome is not reported counts as unknown"]
pub struct Attempt<'a, const CACHES: usize> {
    writes: &'a OwnWrites<CACHES>,
    owner: &'a ObjectKey,
    told: bool,
}

impl<const CACHES: usize> OwnWrites<CACHES> {
    /// Remembers no writes yet. Once a cache has been behind for `patience`, syncs stop waiting for it.
    pub fn new(patience: Duration) -> Self {
        Self { patience, owners: Mutex::default() }
    }

    /// Whether caches that have reached the versions `seen` show all that the controller wrote for `owner`.
    pub fn check(&self, owner: &ObjectKey, seen: [ResourceVersion; CACHES]) -> Freshness {
        let mut owners = self.owners.lock();
        let Some(record) = owners.get_mut(owner) else { return Freshness::Current };
        if record.unknown {
            return Freshness::Doubtful;
        }
        let Some(cache) = (0..CACHES).find(|cache| seen[*cache] < record.must_see[*cache]) else {
            record.behind_since = None;
            record.listing.take_if(|listing| seen[listing.cache] >= listing.as_of);
            if record.condemned.is_empty() && record.listing.is_none() {
                owners.remove(owner);
            }
            return Freshness::Current;
        };
        let (now, newly) = (Instant::now(), record.behind_since.is_none());
        if now.duration_since(*record.behind_since.get_or_insert(now)) >= self.patience {
            return Freshness::Doubtful;
        }
        Freshness::Behind { cache, newly }
    }

    /// Call this before sending a write for `owner`.
    pub fn attempt<'a>(&'a self, owner: &'a ObjectKey) -> Attempt<'a, CACHES> {
        Attempt { writes: self, owner, told: false }
    }

    /// Call this before removing a child's finalizer: from now on the finalizer counts as gone, whatever the cache
    /// shows.
    pub fn condemn(&self, owner: &ObjectKey, child: &Uid) {
        self.update(owner, |record| _ = record.condemned.insert(child.clone()));
    }

    /// Call this if the write that should have removed the child's finalizer surely had no effect.
    pub fn spare(&self, owner: &ObjectKey, child: &Uid) {
        self.update(owner, |record| _ = record.condemned.remove(child));
    }

    /// The children of `owner` that have lost their finalizer, though the cache, which [`check`](Self::check) found
    /// current, may still show it. `shown` tells whether the cache shows a child with its finalizer; a condemned child
    /// that the cache does not show so is forgotten. Use this for states from the cache only: an answer of the API
    /// server needs no correction.
    pub fn gone(&self, owner: &ObjectKey, shown: impl Fn(&Uid) -> bool) -> Gone {
        let mut owners = self.owners.lock();
        let Some(record) = owners.get_mut(owner) else { return Gone::default() };
        record.condemned.retain(|uid| shown(uid));
        Gone { condemned: record.condemned.clone(), listing: record.listing.clone() }
    }

    /// Call this after reading the owner and its children from the API server. `versions` are the newest versions in
    /// the answer, by cache: later syncs wait until the caches have reached them. `spared` tells whether the answer
    /// shows a child with its finalizer.
    pub fn reread(
        &self,
        owner: &ObjectKey,
        versions: [ResourceVersion; CACHES],
        spared: impl Fn(&Uid) -> bool,
    ) {
        self.update(owner, |record| {
            for (must_see, version) in record.must_see.iter_mut().zip(versions) {
                *must_see = version.max(*must_see);
            }
            record.unknown = false;
            record.behind_since = None;
            record.condemned.retain(|uid| !spared(uid));
        });
    }

    /// Call this after listing all children of `owner` from the API server.
    pub fn listed(&self, owner: &ObjectKey, listing: Listing) {
        self.update(owner, |record| record.listing = Some(Arc::new(listing)));
    }

    /// Forgets an owner that is gone, or finished: the controller will not decide on it again.
    pub fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    /// Forgets all owners. Call this at the start of a term: another process may have written since the last one.
    pub fn clear(&self) {
        self.owners.lock().clear();
    }

    fn update(&self, owner: &ObjectKey, change: impl FnOnce(&mut Record<CACHES>)) {
        let mut owners = self.owners.lock();
        // Most owners have a record already, and its key need not be cloned.
        match owners.get_mut(owner) {
            Some(record) => change(record),
            None => change(owners.entry(owner.clone()).or_default()),
        }
    }
}

impl<const CACHES: usize> Attempt<'_, CACHES> {
    /// The write succeeded; its answer carried this version of an object in that cache.
    pub fn wrote(mut self, cache: usize, version: ResourceVersion) {
        self.told = true;
        self.writes.update(self.owner, |record| {
            record.must_see[cache] = record.must_see[cache].max(version);
        });
    }

    /// The write succeeded, and its answer carried no version to wait for: the child is condemned, or was gone already.
    pub fn done(mut self) {
        self.told = true;
    }

    /// The write failed. Returns whether it surely had no effect.
    pub fn failed(mut self, error: &SyncError) -> bool {
        self.told = error.surely_not_done();
        self.told
    }
}

impl<const CACHES: usize> Drop for Attempt<'_, CACHES> {
    fn drop(&mut self) {
        if !self.told {
            self.writes.update(self.owner, |record| record.unknown = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_api::Status;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn job() -> ObjectKey {
        ObjectKey::new("default", "pi")
    }

    fn at(jobs: u64, pods: u64) -> [ResourceVersion; 2] {
        [ResourceVersion(jobs), ResourceVersion(pods)]
    }

    fn refused(code: u16) -> SyncError {
        SyncError::Refused { what: "creating a pod".to_owned(), status: Status::failure(code, "", "").into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_behind_until_it_has_reached_the_newest_version_written() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        writes.attempt(&job()).wrote(1, ResourceVersion(9));
        writes.attempt(&job()).wrote(1, ResourceVersion(7));
        for (seen, expected) in [
            (at(0, 8), Freshness::Behind { cache: 1, newly: true }),
            (at(0, 8), Freshness::Behind { cache: 1, newly: false }),
            (at(0, 9), Freshness::Current),
            // It was current once: a cache never goes back.
            (at(0, 0), Freshness::Current),
        ] {
            assert_eq!(writes.check(&job(), seen), expected, "{seen:?}");
        }
        assert_eq!(writes.check(&ObjectKey::new("default", "other"), at(0, 0)), Freshness::Current);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_stays_behind_is_doubtful_after_a_while_and_the_while_begins_anew_after_a_reread() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        writes.attempt(&job()).wrote(0, ResourceVersion(5));
        assert_eq!(writes.check(&job(), at(4, 0)), Freshness::Behind { cache: 0, newly: true });
        tokio::time::advance(PATIENCE).await;
        assert_eq!(writes.check(&job(), at(4, 0)), Freshness::Doubtful);
        writes.reread(&job(), at(6, 3), |_| false);
        assert_eq!(writes.check(&job(), at(5, 3)), Freshness::Behind { cache: 0, newly: true });
        assert_eq!(writes.check(&job(), at(6, 2)), Freshness::Behind { cache: 1, newly: false });
        assert_eq!(writes.check(&job(), at(6, 3)), Freshness::Current);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_of_unknown_outcome_makes_the_cache_doubtful_however_new_it_is() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        let unknown = SyncError::Unknown { what: "creating a pod".to_owned(), why: "reset".to_owned() };
        for (name, end) in [
            ("no answer", &(|| _ = writes.attempt(&job()).failed(&unknown)) as &dyn Fn()),
            ("the server failed", &|| _ = writes.attempt(&job()).failed(&refused(500))),
            ("the sync was dropped", &|| drop(writes.attempt(&job()))),
        ] {
            end();
            assert_eq!(writes.check(&job(), at(99, 99)), Freshness::Doubtful, "{name}");
            writes.reread(&job(), at(1, 1), |_| false);
            assert_eq!(writes.check(&job(), at(99, 99)), Freshness::Current, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_was_refused_leaves_no_doubt() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        let fenced = SyncError::Fenced { what: "creating a pod".to_owned() };
        for error in [refused(403), refused(409), fenced] {
            assert!(writes.attempt(&job()).failed(&error));
            assert_eq!(writes.check(&job(), at(0, 0)), Freshness::Current);
        }
    }

    #[test]
    fn a_condemned_child_is_remembered_until_the_cache_shows_it_without_its_finalizer() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        let (a, b) = (Uid::from("a"), Uid::from("b"));
        writes.condemn(&job(), &a);
        writes.condemn(&job(), &b);
        writes.spare(&job(), &b);
        assert_eq!(writes.check(&job(), at(0, 0)), Freshness::Current);
        let gone = |shown: bool| {
            let gone = writes.gone(&job(), |_| shown);
            [&a, &b].map(|uid| gone.is_condemned(uid))
        };
        assert_eq!(gone(true), [true, false]);
        assert_eq!(gone(false), [false, false]);
        assert_eq!(gone(true), [false, false], "it was not shown once: a cache never goes back");
        writes.condemn(&job(), &a);
        writes.reread(&job(), at(0, 0), |uid| *uid == a);
        assert_eq!(gone(true), [false, false], "its finalizer is on still");
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_was_not_listed_is_gone_until_the_cache_is_as_new_as_the_list() {
        let writes = OwnWrites::<2>::new(PATIENCE);
        let (a, b) = (Uid::from("a"), Uid::from("b"));
        writes.reread(&job(), at(3, 6), |uid| *uid == a);
        writes.listed(
            &job(),
            Listing { cache: 1, as_of: ResourceVersion(9), held: HashSet::from([a.clone()]) },
        );
        // Of the states of a child, all that the list could have shown are past.
        let gone = |uid, version| writes.gone(&job(), |_| true).is_past(uid, ResourceVersion(version));
        for (seen, child, version, expected) in [
            (at(3, 6), &a, 5, false),
            (at(3, 6), &b, 5, true),
            (at(3, 8), &b, 8, true),
            (at(10, 8), &b, 9, true),
            // Made since.
            (at(10, 8), &b, 10, false),
            (at(3, 9), &b, 5, false),
        ] {
            assert_eq!(writes.check(&job(), seen), Freshness::Current);
            assert_eq!(gone(child, version), expected, "{seen:?} {child} {version}");
        }
    }
}
