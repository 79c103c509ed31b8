//! What is known of one pod's volumes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::MountedVolume;
use super::back_off::BackOff;
use crate::blocking::blocking;

/// The volumes of one pod.
#[derive(Default)]
pub(super) struct PodVolumes {
    /// Held while something is done on disk for the pod.
    pub(super) disk: Mutex<()>,
    /// By name.
    pub(super) volumes: Mutex<BTreeMap<String, VolumeState>>,
}

/// One volume.
#[derive(Default, Clone)]
pub(super) struct VolumeState {
    /// The plugin of its kind, where the kind is supported.
    pub(super) plugin: Option<&'static str>,
    /// Set once it was made or adopted; it stays when files can't be refreshed.
    pub(super) mounted: Option<MountedVolume>,
    /// The group that a persistent volume gives to the pod's processes.
    pub(super) group: Option<i64>,
    /// What was written last.
    pub(super) written: Option<Written>,
    /// Left alone for so long after a failure.
    pub(super) back_off: BackOff,
}

/// What the files of a volume were when they were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// Differs if the files do.
    pub(super) digest: u64,
    /// When to compare them with the disk again.
    pub(super) look_again: Instant,
}

impl PodVolumes {
    /// Where a volume is, if it is mounted.
    pub(super) fn path(&self, volume: &str) -> Option<PathBuf> {
        Some(self.volumes.lock().get(volume)?.mounted.as_ref()?.path.clone())
    }
}

/// Does something on disk for a pod, in a thread that may block, after whatever is being done there for it.
pub(super) async fn on_disk<T: Send + 'static>(
    state: &Arc<PodVolumes>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let state = Arc::clone(state);
    let done = blocking(move || {
        let _disk = state.disk.lock();
        work()
    });
    done.await
}
