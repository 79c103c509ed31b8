use std::collections::HashSet;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_api::Status;
use steersman_kinds::job::Job;
use steersman_kinds::pod::Pod;

use super::*;
use crate::client::resource;

const PATIENCE: Duration = Duration::from_secs(30);

/// Own writes over a cache of jobs and one of pods, whose versions the test sets.
struct Scene {
    writes: OwnWrites,
    jobs: Arc<AtomicU64>,
    pods: Arc<AtomicU64>,
}

/// The outcome of a write that gave an object of kind `K` this version.
struct Written<K>(u64, std::marker::PhantomData<fn() -> K>);

fn written<K>(version: u64) -> Result<Written<K>, SyncError> {
    Ok(Written(version, std::marker::PhantomData))
}

impl<K: Kind> WriteOutcome for Written<K> {
    fn wrote(&self) -> Option<Wrote<'_>> {
        Some(Wrote::of::<K>(ResourceVersion(self.0)))
    }
}

impl Scene {
    fn new() -> Self {
        let scene = Self { writes: OwnWrites::new(PATIENCE), jobs: Arc::default(), pods: Arc::default() };
        scene.watch::<Job>(&scene.jobs);
        scene.watch::<Pod>(&scene.pods);
        scene
    }

    fn watch<K: Kind>(&self, version: &Arc<AtomicU64>) {
        let version = Arc::clone(version);
        self.writes.watch_version(resource::<K>(), move || ResourceVersion(version.load(Ordering::Relaxed)));
    }

    /// The result of a check once the caches have reached these versions.
    fn check(&self, (jobs, pods): (u64, u64)) -> Freshness {
        self.jobs.store(jobs, Ordering::Relaxed);
        self.pods.store(pods, Ordering::Relaxed);
        self.writes.check(&job())
    }

    async fn wrote<K: Kind>(&self, version: u64) {
        self.writes.write(&job(), ready(written::<K>(version))).await.map(drop).unwrap();
    }

    async fn failed(&self, error: SyncError) {
        let failed = self.writes.write(&job(), ready(Err::<Written<Pod>, _>(error))).await;
        failed.map(drop).unwrap_err();
    }

    fn reread(&self, (jobs, pods): (u64, u64), spared: impl Fn(&Uid) -> bool) {
        let newest = [Wrote::of::<Job>(ResourceVersion(jobs)), Wrote::of::<Pod>(ResourceVersion(pods))];
        self.writes.reread(&job(), newest, spared);
    }
}

fn job() -> ObjectKey {
    ObjectKey::new("default", "pi")
}

fn behind<K: Kind>(newly: bool) -> Freshness {
    Freshness::Behind { resource: resource::<K>(), newly }
}

fn refused(code: u16) -> SyncError {
    SyncError::Refused { what: "creating a pod".to_owned(), status: Status::failure(code, "", "").into() }
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_behind_until_it_has_reached_the_newest_version_written() {
    let scene = Scene::new();
    scene.wrote::<Pod>(9).await;
    scene.wrote::<Pod>(7).await;
    for (seen, expected) in [
        ((0, 8), behind::<Pod>(true)),
        ((0, 8), behind::<Pod>(false)),
        ((0, 9), Freshness::Current),
        // It was current once: a cache never goes back.
        ((0, 0), Freshness::Current),
    ] {
        assert_eq!(scene.check(seen), expected, "{seen:?}");
    }
    assert_eq!(scene.writes.check(&ObjectKey::new("default", "other")), Freshness::Current);
}

#[tokio::test(start_paused = true)]
async fn caches_may_come_and_go() {
    let scene = Scene::new();
    scene.wrote::<Pod>(9).await;
    scene.writes.unwatch(&resource::<Pod>());
    assert_eq!(scene.check((0, 0)), Freshness::Current, "no sync decides on a cache that is gone");
    scene.wrote::<Pod>(9).await;
    scene.watch::<Pod>(&scene.pods);
    assert_eq!(scene.check((0, 8)), behind::<Pod>(true), "a new cache of the resource must show the write");
    let other = OwnWrites::<ObjectKey>::new(PATIENCE);
    other.write(&job(), ready(written::<Pod>(9))).await.map(drop).unwrap();
    assert_eq!(other.check(&job()), Freshness::Current, "no cache shows that resource");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_stays_behind_is_doubtful_after_a_while_and_the_while_begins_anew_after_a_reread() {
    let scene = Scene::new();
    scene.wrote::<Job>(5).await;
    assert_eq!(scene.check((4, 0)), behind::<Job>(true));
    tokio::time::advance(PATIENCE).await;
    assert_eq!(scene.check((4, 0)), Freshness::Doubtful);
    scene.reread((6, 3), |_| false);
    assert_eq!(scene.check((5, 3)), behind::<Job>(true));
    assert_eq!(scene.check((6, 2)), behind::<Pod>(false));
    assert_eq!(scene.check((6, 3)), Freshness::Current);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_outcome_makes_the_cache_doubtful_however_new_it_is() {
    let scene = Scene::new();
    let unknown = SyncError::Unknown { what: "creating a pod".to_owned(), why: "reset".to_owned() };
    for error in [Some(unknown), Some(refused(500)), None] {
        let name = error.as_ref().map_or("the sync was dropped".to_owned(), ToString::to_string);
        match error {
            Some(error) => scene.failed(error).await,
            None => {
                let key = job();
                let hangs = std::future::pending::<Result<Written<Pod>, SyncError>>();
                let write = scene.writes.write(&key, hangs);
                tokio::time::timeout(Duration::from_secs(1), write).await.map(drop).unwrap_err();
            }
        }
        assert_eq!(scene.check((99, 99)), Freshness::Doubtful, "{name}");
        scene.reread((1, 1), |_| false);
        assert_eq!(scene.check((99, 99)), Freshness::Current, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_refused_leaves_no_doubt() {
    let scene = Scene::new();
    let fenced = SyncError::Fenced { what: "creating a pod".to_owned() };
    for error in [refused(403), refused(409), fenced] {
        scene.failed(error).await;
        assert_eq!(scene.check((0, 0)), Freshness::Current);
    }
}

#[tokio::test(start_paused = true)]
async fn a_condemned_child_is_remembered_until_the_cache_shows_it_without_its_finalizer() {
    let scene = Scene::new();
    let (a, b) = (Uid::from("a"), Uid::from("b"));
    let remove = async |uid: &Uid, result: Result<Written<Pod>, SyncError>| {
        _ = scene.writes.remove::<Pod, _>(&job(), uid, ready(result)).await;
    };
    remove(&a, written(0)).await;
    remove(&b, Err(refused(403))).await;
    assert_eq!(scene.check((0, 0)), Freshness::Current);
    let gone = |shown: bool| {
        // A child of another kind does not matter here.
        assert!(!scene.writes.gone::<Job>(&job(), |_| false).is_condemned(&a));
        let gone = scene.writes.gone::<Pod>(&job(), |_| shown);
        [&a, &b].map(|uid| gone.is_condemned(uid))
    };
    assert_eq!(gone(true), [true, false]);
    assert_eq!(gone(false), [false, false]);
    assert_eq!(gone(true), [false, false], "it was not shown once: a cache never goes back");
    remove(&a, written(0)).await;
    scene.reread((0, 0), |uid| *uid == a);
    assert_eq!(gone(true), [false, false], "its finalizer is on still");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_not_listed_is_gone_until_the_cache_is_as_new_as_the_list() {
    let scene = Scene::new();
    let (a, b) = (Uid::from("a"), Uid::from("b"));
    scene.reread((3, 6), |uid| *uid == a);
    let listing = Listing { as_of: ResourceVersion(9), held: HashSet::from([a.clone()]) };
    scene.writes.listed::<Pod>(&job(), listing);
    // Of the states of a child, all that the list could have shown are past.
    let gone =
        |uid, version| scene.writes.gone::<Pod>(&job(), |_| true).is_past(uid, ResourceVersion(version));
    for (seen, child, version, expected) in [
        ((3, 6), &a, 5, false),
        ((3, 6), &b, 5, true),
        ((3, 8), &b, 8, true),
        ((10, 8), &b, 9, true),
        // Made since.
        ((10, 8), &b, 10, false),
        ((3, 9), &b, 5, false),
    ] {
        assert_eq!(scene.check(seen), Freshness::Current);
        assert_eq!(gone(child, version), expected, "{seen:?} {child} {version}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_no_cache_shows_yet_are_named() {
    let scene = Scene::new();
    assert_eq!(scene.writes.awaited(&job()), []);
    scene.wrote::<Pod>(7).await;
    scene.wrote::<Job>(5).await;
    scene.check((5, 3));
    let awaited =
        Awaited { resource: resource::<Pod>(), version: ResourceVersion(7), reached: ResourceVersion(3) };
    assert_eq!(scene.writes.awaited(&job()), [awaited]);
    scene.check((5, 7));
    assert_eq!(scene.writes.awaited(&job()), []);
}
