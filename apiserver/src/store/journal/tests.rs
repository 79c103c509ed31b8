//! Power is cut at any moment, and what the disk then holds is opened again. Disks fill up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, mpsc};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::database::{FACT_FORMAT, FACTS};
use super::disk::TestDisk;
use super::folder::UNFINISHED;
use super::*;
use crate::registry::{Resource, Resources};
use crate::store::{Error, Mark, Store, Unsettled};

/// All objects, with their versions and what they hold.
type State = BTreeMap<ObjectKey, (u64, Value)>;

/// Opens a folder whose Secrets are not encrypted.
fn open_folder(folder: &Path) -> Result<(Journal, Loaded), OpenError> {
    Journal::open(folder, EncryptionKeys::default())
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u8, u16),
    Remove(u8),
    /// What was written so far must be safe before it goes on.
    Settle,
    /// A follower takes what there is.
    Hear,
}

/// From a start until the power is cut.
#[derive(Debug, Clone)]
struct Life {
    acts: Vec<Act>,
    /// How many operations the disk carries out, at most.
    power: usize,
    /// Decides which of the operations that were not synced have come through.
    chance: u64,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let act = prop_oneof![
        8 => (0..8_u8, 0..2000_u16).prop_map(|(key, size)| Act::Put(key, size)),
        2 => (0..8_u8).prop_map(Act::Remove),
        3 => Just(Act::Settle),
        1 => Just(Act::Hear),
    ];
    let life = (proptest::collection::vec(act, 0..40), 0..300_usize, any::<u64>());
    proptest::collection::vec(life.prop_map(|(acts, power, chance)| Life { acts, power, chance }), 1..5)
}

fn maps() -> Arc<Resource> {
    Arc::clone(Resources::built_in().get("", "v1", "configmaps").unwrap())
}

fn key(n: u8) -> ObjectKey {
    ObjectKey::new("default", format!("k{n}"))
}

fn found(loaded: &Loaded) -> State {
    let read = |(_, key, bytes): &(TableId, ObjectKey, Bytes)| {
        let value: Value = serde_json::from_slice(bytes).unwrap();
        let version = value["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        (key.clone(), (version, value["data"].clone()))
    };
    loaded.objects.iter().map(read).collect()
}

/// What must hold from one life to the next.
struct Known {
    /// How everything was at each version. Those that a crash took back are not there any more.
    states: BTreeMap<u64, State>,
    /// Who waited was told that this version is safe.
    safe: u64,
    /// Somebody was told of a change of this version.
    heard: u64,
}

impl Known {
    /// Sees that nothing is lost that may not be, and nothing is there that never was at once.
    fn hold(&self, loaded: &Loaded) {
        // A new store begins at version 1, and tells of that one without having written it.
        let revision = loaded.revision.max(1);
        assert!(revision >= self.safe, "{} was safe, and {revision} is found", self.safe);
        assert!(revision >= self.heard, "{} was told, and {revision} is found", self.heard);
        assert_eq!(Some(&found(loaded)), self.states.get(&loaded.revision), "at version {revision}");
    }

    /// Does what a life does. Nothing that it is told is to be taken back.
    fn live(&mut self, life: &Life, disk: &Arc<TestDisk>, store: &Arc<Store>) {
        let maps = maps();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut cursor = store.follow(&maps.table, store.revision());
        let mut state = self.states.last_key_value().map(|(_, state)| state.clone()).unwrap();
        for act in &life.acts {
            match act {
                Act::Put(n, size) => {
                    let data = json!({"k": "x".repeat(usize::from(*size))});
                    let value = json!({"metadata": {}, "data": data});
                    let written = match store.get(&maps.table, &key(*n)) {
                        Some(seen) => store.replace(&seen, value),
                        None => store.create(&maps, key(*n), value),
                    };
                    state.insert(key(*n), (written.unwrap().version, data));
                }
                Act::Remove(n) => {
                    let Some(seen) = store.get(&maps.table, &key(*n)) else { continue };
                    store.remove(&seen).unwrap();
                    state.remove(&key(*n));
                }
                Act::Settle => {
                    let written = store.revision();
                    match runtime.block_on(store.settled()) {
                        Ok(()) => self.safe = self.safe.max(written),
                        Err(error) => assert!(disk.is_dead(), "{error}"),
                    }
                }
                Act::Hear => {
                    let batch = cursor.take().unwrap();
                    self.heard =
                        batch.changes.iter().map(|change| change.version()).fold(self.heard, u64::max);
                }
            }
            self.states.insert(store.revision(), state.clone());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_crash_leaves_the_state_of_one_version_and_none_that_somebody_was_told_of_is_lost(lives in lives()) {
        let maps = maps();
        let mut known = Known { states: BTreeMap::from([(0, State::new())]), safe: 0, heard: 0 };
        let mut image = TestDisk::new_file();
        for life in &lives {
            let disk = TestDisk::new(image, life.power);
            match disk.open() {
                Err(error) => prop_assert!(disk.is_dead(), "{}", error),
                Ok((journal, loaded)) => {
                    known.hold(&loaded);
                    known.states.split_off(&(loaded.revision + 1));
                    let store = Arc::new(Store::from_revision(100, loaded.revision));
                    for (_, key, bytes) in loaded.objects {
                        store.restore(&maps, key, bytes).unwrap();
                    }
                    store.keep_in(journal, || {});
                    known.live(life, &disk, &store);
                    disk.cut();
                }
            }
            image = disk.after_the_crash(life.chance);
        }
        let (_, loaded) = TestDisk::new(image, usize::MAX).open().unwrap();
        known.hold(&loaded);
    }
}

#[test]
fn a_first_start_that_was_broken_off_is_none() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    for unfinished in [&b""[..], &[0; 4096], b"half of it"] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(UNFINISHED), unfinished).unwrap();
        let (journal, loaded) = open_folder(&folder).unwrap();
        assert_eq!((loaded.revision, loaded.objects.len()), (0, 0));
        assert!(!folder.join(UNFINISHED).exists());
        assert!(matches!(open_folder(&folder), Err(OpenError::InUse(_))), "there is one user at a time");
        drop(journal);
        open_folder(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// Panics when it is told that something is safe, and passes all else on.
struct Panicking(mpsc::Sender<Progress>);

impl Keeper for Panicking {
    fn note(&self, progress: Progress) {
        match progress {
            Progress::Safe(version) => panic!("version {version} is too much"),
            other => self.0.send(other).unwrap(),
        }
    }

    fn undo(&self) -> u64 {
        unreachable!("the disk is not full")
    }
}

#[test]
fn who_waits_is_told_when_the_thread_panics() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open_folder(folder.path()).unwrap();
    let (told, tells) = mpsc::channel();
    let writer = journal.start(Panicking(told));
    writer.write(Entry { version: 2, table: "configmaps".into(), key: key(0), state: None, freed: 0 });
    let panicked = "the thread that stores writes has panicked".to_owned();
    assert_eq!(tells.recv(), Ok(Progress::Failed(panicked)));
}

#[test]
fn a_folder_of_other_things_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mode = || fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("notes"), b"somebody's").unwrap();
    assert!(matches!(open_folder(folder.path()), Err(OpenError::Foreign(_))));
    assert_eq!(mode(), 0o755);
    // An empty one is nobody's loss.
    fs::remove_file(folder.path().join("notes")).unwrap();
    drop(open_folder(folder.path()).unwrap());
    assert_eq!(mode(), 0o700);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).unwrap();
    drop(open_folder(folder.path()).unwrap());
    assert_eq!(mode(), 0o700, "a store's is closed again");
}

#[test]
fn what_a_newer_version_wrote_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_folder(folder.path()).unwrap());
    let file = folder.path().join(FILE);
    let database = Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(FACTS).unwrap().insert(FACT_FORMAT, FORMAT + 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let written = || fs::metadata(&file).unwrap().modified().unwrap();
    let (before, at) = (fs::read(&file).unwrap(), written());
    assert!(matches!(open_folder(folder.path()), Err(OpenError::Newer { .. })));
    assert!(fs::read(&file).unwrap() == before && written() == at);
}

/// A store on a small disk.
struct Kept {
    store: Arc<Store>,
    maps: Arc<Resource>,
    runtime: tokio::runtime::Runtime,
}

impl Kept {
    fn on(disk: &Arc<TestDisk>) -> Self {
        let (journal, loaded) = disk.open().unwrap();
        let (store, maps) = (Arc::new(Store::from_revision(100, loaded.revision)), maps());
        for (_, key, bytes) in loaded.objects {
            store.restore(&maps, key, bytes).unwrap();
        }
        store.keep_in(journal, || {});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { store, maps, runtime }
    }

    /// Waits until all that was written is safe.
    fn settle(&self) {
        self.settled_since(self.store.mark()).unwrap();
    }

    fn settled_since(&self, mark: Mark) -> Result<(), Unsettled> {
        let settled = async { timeout(Duration::from_secs(60), self.store.settled_since(mark)).await };
        self.runtime.block_on(settled).expect("a write must be safe, or be undone")
    }

    /// The versions of all objects.
    fn states(&self) -> BTreeMap<ObjectKey, u64> {
        let all = self.store.snapshot(&self.maps.table, "", None).unwrap().objects;
        all.iter().map(|object| (object.key.clone(), object.version)).collect()
    }

    fn get(&self, n: u8) -> Arc<crate::store::Object> {
        self.store.get(&self.maps.table, &key(n)).unwrap()
    }

    fn create(&self, n: u8) -> Result<(), Error> {
        self.store.create(&self.maps, key(n), map("a")).map(drop)
    }

    /// Creates objects until there is no space for another, and says how many.
    fn fill_up(&self) -> u8 {
        for n in 0..u8::MAX {
            match self.create(n) {
                Ok(()) => self.settle(),
                Err(error) => {
                    assert_eq!(error, Error::NoSpace);
                    return n;
                }
            }
        }
        panic!("the disk must be full at some time");
    }

    /// Waits until an object can be created.
    fn wait_for_space(&self, n: u8) {
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = self.create(n) {
            assert_eq!(error, Error::NoSpace);
            assert!(Instant::now() < end, "there must be space again");
            thread::yield_now();
        }
        self.settle();
    }
}

fn map(letter: &str) -> Value {
    json!({"metadata": {}, "data": {"k": letter.repeat(50_000)}})
}

#[test]
fn a_full_disk_takes_no_growth_but_deletes_which_make_space_again() {
    let disk = TestDisk::of_blocks(TestDisk::new_file(), 2048);
    let kept = Kept::on(&disk);
    let made = kept.fill_up();
    disk.fill();
    kept.store.replace(&kept.get(0), map("b")).unwrap();
    kept.settle();
    drop(kept);

    // The next start finds everything, and the disk as full.
    let kept = Kept::on(&disk);
    assert_eq!(kept.get(0).parsed()["data"], map("b")["data"]);
    assert_eq!(kept.store.len(&kept.maps.table), usize::from(made));
    assert_eq!(kept.create(made), Err(Error::NoSpace));
    for n in 0..made {
        kept.store.remove(&kept.get(n)).unwrap();
        kept.settle();
    }
    kept.wait_for_space(made);
    drop(kept);
    let (_, loaded) = disk.open().unwrap();
    assert_eq!(loaded.objects.len(), 1);
}

#[test]
fn a_disk_that_somebody_else_filled_takes_everything_again_once_it_has_space() {
    let disk = TestDisk::of_blocks(TestDisk::new_file(), 2048);
    let kept = Kept::on(&disk);
    disk.fill();
    let made = kept.fill_up();
    disk.empty();
    kept.wait_for_space(made);
}

/// More than the reserve has space for is on its way when the disk fills up.
#[test]
fn writes_that_find_no_space_are_undone_and_deletes_go_on() {
    let disk = TestDisk::of_blocks(TestDisk::new_file(), 2048);
    let kept = Kept::on(&disk);
    for n in 0..10 {
        kept.create(n).unwrap();
    }
    kept.settle();
    disk.fill();
    let mark = kept.store.mark();
    let held = disk.hold();
    kept.store.remove(&kept.get(0)).unwrap();
    kept.store.replace(&kept.get(1), map("b")).unwrap();
    (100..150).for_each(|n| kept.create(n).unwrap());
    let late = kept.store.revision();
    drop(held);
    let settled = kept.settled_since(mark);
    assert!(matches!(settled, Err(Unsettled::Undone)), "{settled:?}");

    // All that is seen is on the disk, and no version is given twice.
    let seen = kept.states();
    assert!(seen.len() < 60, "{}", seen.len());
    kept.settle();
    let marked = kept.store.mark();
    let deleted = kept.store.remove(&kept.get(2)).unwrap();
    assert!(deleted.version > late, "{} after {late}", deleted.version);
    kept.settled_since(marked).expect("there must be space for deletes");
    let used = kept.store.used();
    drop(kept);
    let kept = Kept::on(&disk);
    let mut expected = seen;
    expected.remove(&key(2));
    assert_eq!(kept.states(), expected);
    assert_eq!(kept.store.used(), used, "the undone objects must not count");
}
