//! What pods have, in memory and on disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use parking_lot::Mutex;
use steersman_api::Uid;

use super::PodResources;
use super::checkpoint::{self, Corrupt, Entries};

/// The file can't be used. The node's owner must look at it: what pods have is not to be guessed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading it failed.
    #[error("could not read the checkpoint {path}: {source}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It tells nothing.
    #[error(
        "could not restore state from checkpoint: {source}, please drain this node and delete pod resource information \
         checkpoint file {path:?} before restarting"
    )]
    Restore {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: Corrupt,
    },
}

/// The resources of pods, kept in a file that is replaced as a whole.
///
/// Changes show at once; [`save`](Self::save) gets them to the disk. What went is written with the next change of what is
/// left: a pod that comes back from the file is forgotten again.
#[derive(Debug)]
pub struct Store {
    state: Mutex<State>,
    /// Held while the file is written; what the file has.
    file: Option<Mutex<File>>,
}

#[derive(Debug, Default)]
struct State {
    entries: Entries,
    /// Whether something was put in since it was last written.
    changed: bool,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
}

impl Store {
    /// Without a file: all is lost with the process.
    pub fn in_memory() -> Self {
        Self { state: Mutex::default(), file: None }
    }

    /// Reads the file, if it is there. Blocks.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(path: PathBuf) -> Result<Self, Error> {
        let entries = match fs::read(&path) {
            Ok(content) => checkpoint::decode(&content)
                .map_err(|source| Error::Restore { path: path.clone(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Entries::new(),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let state = Mutex::new(State { entries, changed: false });
        Ok(Self { state, file: Some(Mutex::new(File { path })) })
    }

    /// What a pod has.
    pub fn get(&self, pod: &Uid) -> Option<PodResources> {
        self.state.lock().entries.get(pod).cloned()
    }

    /// Changes what a pod has; one that has nothing yet begins with nothing.
    pub fn change(&self, pod: &Uid, change: impl FnOnce(&mut PodResources)) {
        let mut state = self.state.lock();
        let old = state.entries.get(pod);
        let mut new = old.cloned().unwrap_or_default();
        change(&mut new);
        if old != Some(&new) {
            state.entries.insert(pod.clone(), new);
            state.changed = true;
        }
    }

    /// Says what a pod has.
    pub fn set(&self, pod: &Uid, resources: PodResources) {
        self.change(pod, |old| *old = resources);
    }

    /// Forgets a pod.
    pub fn remove(&self, pod: &Uid) {
        self.state.lock().entries.remove(pod);
    }

    /// Forgets the pods that are not to be kept.
    pub fn retain(&self, keep: impl Fn(&Uid) -> bool) {
        self.state.lock().entries.retain(|pod, _| keep(pod));
    }

    /// Writes what was put in, if anything was. Blocks. The file is the old one or the new one, whatever happens.
    ///
    /// # Errors
    /// It could not be written; the next call tries again.
    pub fn save(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let file = file.lock();
        let content = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.changed) {
                return Ok(());
            }
            checkpoint::encode(&state.entries)
        };
        file.replace(&content).inspect_err(|_| self.state.lock().changed = true)
    }
}

impl File {
    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let mut temporary = self.path.clone().into_os_string();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)
    }
}
