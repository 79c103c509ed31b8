//! One lock for each folder of the machine that volumes are mounted from.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Lets one pod at a time mount from, or unmount, the same folder. Keeps locks only while they are held or waited for.
#[derive(Debug, Default)]
pub(super) struct PathLocks(Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>);

impl PathLocks {
    /// Does `work` while no other work for `path` is being done. Blocking.
    pub(super) fn with<T>(&self, path: &Path, work: impl FnOnce() -> T) -> T {
        let lock = Arc::clone(self.0.lock().entry(path.to_owned()).or_default());
        let done = {
            let _held = lock.lock();
            work()
        };
        drop(lock);
        let mut locks = self.0.lock();
        // Clones are made under the lock of the map only.
        if locks.get(path).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(path);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn work_for_one_path_is_done_one_after_the_other_and_leaves_no_lock() {
        let (locks, at_work, most) = (PathLocks::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            at_work.fetch_sub(1, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|_| locks.with(Path::new("/a"), work)));
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert!(locks.0.lock().is_empty());
        locks.with(Path::new("/a"), || locks.with(Path::new("/b"), || {}));
        assert!(locks.0.lock().is_empty());
    }
}
