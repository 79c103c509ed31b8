//! How patiently groups are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use tokio::time::Instant;

use super::*;

/// A kernel that has not done with a group's processes for the first so many attempts.
struct Lingering {
    attempts: AtomicUsize,
    busy: usize,
    answer: Errno,
}

impl Files for Arc<Lingering> {
    fn make(&self, folder: &Path) -> io::Result<()> {
        imitation(CgroupVersion::V2).make(folder)
    }
    fn remove(&self, folder: &Path) -> io::Result<()> {
        match self.attempts.fetch_add(1, Ordering::Relaxed) < self.busy {
            true => Err(self.answer.into()),
            false => imitation(CgroupVersion::V2).remove(folder),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_processes_have_just_been_killed_is_removed_as_soon_as_they_are_gone() {
    for (busy, answer, attempts, took, removed) in [
        (0, Errno::BUSY, 1, 0, true),
        (3, Errno::BUSY, 4, 70, true),
        (100, Errno::BUSY, 6, 310, false),
        (1, Errno::ACCESS, 1, 0, false),
    ] {
        let machine = Machine::new(CgroupVersion::V2);
        let kernel = Arc::new(Lingering { attempts: AtomicUsize::new(0), busy, answer });
        let settings = settings(CgroupDriver::Cgroupfs);
        let tree = CgroupTree::new(machine.hierarchies(), Box::new(kernel.clone()), None, settings).unwrap();
        tree.prepare(&there()).unwrap();
        tree.ensure(&best_effort("u")).unwrap();
        let tree: Arc<dyn PodCgroups> = Arc::new(tree);
        let began = Instant::now();
        let done = remove_patiently(&tree, &Uid::from("u")).await;
        assert_eq!((done.is_ok(), tree.exists(&best_effort("u"))), (removed, !removed), "{busy} {answer}");
        assert_eq!(kernel.attempts.load(Ordering::Relaxed), attempts, "{busy} {answer}");
        assert_eq!(began.elapsed().as_millis() / 10, took / 10, "{busy} {answer}");
    }
}
