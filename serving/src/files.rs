//! Reads files again when they change.

use std::convert::Infallible;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::interval;

use crate::blocking::blocking;
use crate::error::Error;

/// Time between two looks at the files. Upstream follows files by inotify, and looks at them once a minute besides.
const LOOK: Duration = Duration::from_secs(20);

/// Something that was read from files, which may change.
pub trait FromFiles: Send + Sync + 'static {
    /// A name for the log.
    fn what(&self) -> &'static str;

    /// The paths of the files. Empty if there are none.
    fn paths(&self) -> Vec<PathBuf>;

    /// Reads the files again. Files that are invalid change nothing. Blocks.
    ///
    /// # Errors
    /// If a file can't be read, or is invalid.
    fn reload(&self) -> Result<(), Error>;
}

/// Files, and what they were when they were read last.
pub(crate) struct Files(Vec<(Arc<dyn FromFiles>, Stamps)>);

/// What changes with a file: its inode, its length, and its time of modification. `None` for a file that does not exist.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

impl Files {
    /// Reads all files at the first look, since they may have changed since they were read.
    pub(crate) fn new(all: impl IntoIterator<Item = Arc<dyn FromFiles>>) -> Self {
        Self(all.into_iter().map(|one| (one, Stamps::new())).collect())
    }

    /// Looks at the files from time to time, forever.
    pub(crate) async fn watch(mut self) -> Infallible {
        let mut ticks = interval(LOOK);
        loop {
            ticks.tick().await;
            let looking = blocking(move || {
                self.look();
                self
            });
            self = looking.await;
        }
    }

    /// Reads the files that have changed. An invalid file is read at each look until it is valid. Blocks.
    fn look(&mut self) {
        for (one, seen) in &mut self.0 {
            let now: Stamps = one.paths().iter().map(|path| stamp(path)).collect();
            if *seen == now {
                continue;
            }
            match one.reload() {
                Ok(()) => {
                    tracing::debug!(what = one.what(), "Files were read");
                    *seen = now;
                }
                Err(error) => {
                    tracing::error!(what = one.what(), %error, "Failed to read files again, keeping the last contents");
                }
            }
        }
    }
}

fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Counts how often its file was read. The contents `bad` are invalid.
    struct Counted {
        path: PathBuf,
        read: Mutex<Vec<String>>,
    }

    impl FromFiles for Counted {
        fn what(&self) -> &'static str {
            "test"
        }

        fn paths(&self) -> Vec<PathBuf> {
            vec![self.path.clone()]
        }

        fn reload(&self) -> Result<(), Error> {
            let text = std::fs::read_to_string(&self.path).unwrap();
            self.read.lock().push(text.clone());
            match &*text {
                "bad" => Err(Error::Malformed { path: self.path.clone(), message: text }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn files_are_read_when_they_change_and_until_they_are_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let counted = Arc::new(Counted { path: path.clone(), read: Mutex::default() });
        let mut files = Files::new([Arc::clone(&counted) as Arc<dyn FromFiles>]);
        let mut read_with = |text: Option<&str>| {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            files.look();
            std::mem::take(&mut *counted.read.lock())
        };
        assert_eq!(read_with(Some("one")), ["one"]);
        assert_eq!(read_with(None), [""; 0]);
        assert_eq!(read_with(Some("second")), ["second"]);
        assert_eq!(read_with(Some("bad")), ["bad"]);
        assert_eq!(read_with(None), ["bad"]);
        assert_eq!(read_with(Some("third one")), ["third one"]);
        assert_eq!(read_with(None), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_read_within_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let counted = Arc::new(Counted { path: path.clone(), read: Mutex::default() });
        let files = Files::new([Arc::clone(&counted) as Arc<dyn FromFiles>]);
        let change = async {
            while counted.read.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::fs::write(&path, "second").unwrap();
            let began = tokio::time::Instant::now();
            while counted.read.lock().len() < 2 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
        };
        tokio::select! {
            never = files.watch() => match never {},
            () = change => {}
        }
    }
}
