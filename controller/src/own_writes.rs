//! What a controller has written and its cache may not show yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion, Uid};
use tokio::time::Instant;

use crate::controller::SyncError;

/// What is remembered of a controller's own writes, by the key of the owner on whose behalf they were made, so that no
/// sync decides from a cache that does not show them: a second pod would be made for every one that the cache lacks.
///
/// Of each owner it knows
/// - for each of the controller's `CACHES`, the version that the cache must have reached, since a write was answered with it;
/// - whether the outcome of a write is unknown: then no version can be waited for, and only the API server knows;
/// - the *condemned*: children whose finalizer was taken off. A cache may still show one as it was, since the answer to the
///   write that made a child vanish does not carry the version of its end;
/// - the last [`Listing`]: a child that it lacks is gone, and a cache may show it all the same, even one that shows every
///   child that is left in its newest state.
///
/// A sync first asks [`check`](Self::check), with versions that it has read *before* it reads any object:
/// [`Freshness::Current`]: go on. [`Freshness::Behind`]: look again once the cache has moved on. [`Freshness::Doubtful`]: ask the
/// API server for the owner and its children, decide from the answer, and say so by [`reread`](Self::reread) and
/// [`listed`](Self::listed).
///
/// Around each write it holds an [`Attempt`]. Syncs of one owner must not overlap; any number of owners may.
#[derive(Debug)]
pub struct OwnWrites<const CACHES: usize> {
    patience: Duration,
    owners: Mutex<HashMap<ObjectKey, Record<CACHES>>>,
}

/// How far the cache is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It shows all own writes.
    Current,
    /// This cache does not yet, and may soon.
    Behind {
        /// Which of the caches.
        cache: usize,
        /// Whether this is the first check that finds it so, rather than one more look of a sync that waits already.
        newly: bool,
    },
    /// A write's outcome is unknown, or the cache has been behind for longer than one should wait.
    Doubtful,
}

#[derive(Clone, Debug)]
struct Record<const CACHES: usize> {
    must_see: [ResourceVersion; CACHES],
    unknown: bool,
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
    /// Since when checks have found a cache behind, without one in between that did not.
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

/// What the API server listed of an owner's children.
#[derive(Debug)]
pub struct Listing {
    /// The cache that shows such children.
    pub cache: usize,
    /// The version of the list: any state that is as old is in it, or is past.
    pub as_of: ResourceVersion,
    /// The children that had their finalizer.
    pub held: HashSet<Uid>,
}

/// The children whose finalizer is off, though a cache may show it: see [`OwnWrites::gone`].
#[derive(Debug, Default)]
pub struct Gone {
    condemned: HashSet<Uid>,
    listing: Option<Arc<Listing>>,
}

impl Gone {
    /// Whether a child's finalizer was taken off by this process.
    pub fn is_condemned(&self, child: &Uid) -> bool {
        self.condemned.contains(child)
    }

    /// Whether a child that is shown in a state of this version had lost its finalizer when the children were last listed.
    pub fn is_past(&self, child: &Uid, version: ResourceVersion) -> bool {
        let past = |listing: &Listing| version <= listing.as_of && !listing.held.contains(child);
        self.listing.as_deref().is_some_and(past)
    }
}

/// A write under way. Dropping it leaves the write's outcome unknown: that is what becomes of a sync that is cancelled, or
/// panics, in the middle of a call.
#[derive(Debug)]
#[must_use = "a write whose end nobody tells counts as unknown"]
pub struct Attempt<'a, const CACHES: usize> {
    writes: &'a OwnWrites<CACHES>,
    owner: &'a ObjectKey,
    told: bool,
}

impl<const CACHES: usize> OwnWrites<CACHES> {
    /// Nothing written yet. A cache that has been behind for longer than `patience` is no longer waited for.
    pub fn new(patience: Duration) -> Self {
        Self { patience, owners: Mutex::default() }
    }

    /// Whether caches that have reached the versions `seen` show everything that was written for `owner`.
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

    /// A write for `owner` is about to be sent.
    pub fn attempt<'a>(&'a self, owner: &'a ObjectKey) -> Attempt<'a, CACHES> {
        Attempt { writes: self, owner, told: false }
    }

    /// The finalizer of a child is about to be taken off: from now on it counts as gone, whatever the cache shows.
    pub fn condemn(&self, owner: &ObjectKey, child: &Uid) {
        self.update(owner, |record| _ = record.condemned.insert(child.clone()));
    }

    /// The write for which the child was condemned has surely not been done.
    pub fn spare(&self, owner: &ObjectKey, child: &Uid) {
        self.update(owner, |record| _ = record.condemned.remove(child));
    }

    /// The children of `owner` that have lost their finalizer whatever a cache, found current, shows; `shown` tells whether it
    /// shows a child with its finalizer, and a condemned one that it does not need not be remembered any longer. To be asked
    /// about what a cache shows only: what the API server itself has just shown is so.
    pub fn gone(&self, owner: &ObjectKey, shown: impl Fn(&Uid) -> bool) -> Gone {
        let mut owners = self.owners.lock();
        let Some(record) = owners.get_mut(owner) else { return Gone::default() };
        record.condemned.retain(|uid| shown(uid));
        Gone { condemned: record.condemned.clone(), listing: record.listing.clone() }
    }

    /// The API server was asked for the owner and its children, and gave states of these versions; `spared` tells whether
    /// it showed a child with its finalizer. The sync goes by that answer. Later ones wait for the cache to come as far.
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

    /// The API server was asked for all children of `owner`, and gave these.
    pub fn listed(&self, owner: &ObjectKey, listing: Listing) {
        self.update(owner, |record| record.listing = Some(Arc::new(listing)));
    }

    /// The owner is gone, or done with: nothing more will be decided about it.
    pub fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    /// Nothing that was written before matters any more: others may have written since.
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
    /// The write was done; the answer carried this version of an object in that cache.
    pub fn wrote(mut self, cache: usize, version: ResourceVersion) {
        self.told = true;
        self.writes.update(self.owner, |record| {
            record.must_see[cache] = record.must_see[cache].max(version);
        });
    }

    /// The write was done, and its answer names no version to wait for: the child is condemned, or was gone already.
    pub fn done(mut self) {
        self.told = true;
    }

    /// The write failed, surely or perhaps; says whether surely.
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
