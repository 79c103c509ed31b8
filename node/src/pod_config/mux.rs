//! Where the sources come together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use parking_lot::Mutex;
use steersman_client::events::{EventType, Recorder};
use tokio::sync::mpsc;

use super::annotations;
use super::merge::PodStorage;
use super::update::{PodUpdate, Source, SourcePod};

/// How many updates may wait for the sync loop; sources wait once there are more.
pub const UPDATES: usize = 50;

/// Merges what several sources say into one stream of [`PodUpdate`]s. A clone is the same.
///
/// Each source has a store of its own: what one says never touches another's pods. Updates of one source come in the
/// order in which it spoke, those of one [`SourceHandle::set`] without others between them.
#[derive(Clone)]
pub struct PodConfig {
    shared: Arc<Shared>,
}

struct Shared {
    /// Held while updates are delivered, which keeps them in order.
    stores: tokio::sync::Mutex<BTreeMap<Source, PodStorage>>,
    /// Those that there are, and whether each was heard.
    sources: Mutex<BTreeMap<Source, bool>>,
    updates: mpsc::Sender<PodUpdate>,
    /// Absent on a node without an API server.
    recorder: Option<Recorder>,
}

/// Nobody takes updates any more: the source should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes pod updates any more")]
pub struct Closed;

impl PodConfig {
    /// Without sources; events about pods that are left out go to `recorder`, if the node has one.
    pub fn new(recorder: Option<Recorder>) -> (Self, mpsc::Receiver<PodUpdate>) {
        let (updates, received) = mpsc::channel(UPDATES);
        let shared =
            Shared { stores: tokio::sync::Mutex::default(), sources: Mutex::default(), updates, recorder };
        (Self { shared: Arc::new(shared) }, received)
    }

    /// Adds a source: from now on it counts among those that must be heard.
    pub fn source(&self, source: Source) -> SourceHandle {
        self.shared.sources.lock().entry(source).or_insert(false);
        SourceHandle { shared: Arc::clone(&self.shared), source }
    }

    /// Whether every source has spoken, and the reader has seen updates of each: `seen` is its word for that. Until then
    /// a pod that is in no update may still come, and nothing must be cleaned up.
    pub fn seen_all_sources(&self, seen: &BTreeSet<Source>) -> bool {
        self.shared.sources.lock().iter().all(|(source, heard)| *heard && seen.contains(source))
    }
}

/// How one source speaks.
#[derive(Clone)]
pub struct SourceHandle {
    shared: Arc<Shared>,
    source: Source,
}

impl SourceHandle {
    /// Says which pods the source has, all of them. Waits while too many updates are waiting.
    ///
    /// # Errors
    /// Nobody takes updates any more.
    pub async fn set(&self, pods: Vec<SourcePod>) -> Result<(), Closed> {
        let mut stores = self.shared.stores.lock().await;
        let store = stores.entry(self.source).or_insert_with(|| PodStorage::new(self.source));
        let merged = store.set(pods, Timestamp::now());
        self.shared.sources.lock().insert(self.source, true);
        for duplicate in merged.duplicates.iter().filter_map(SourcePod::pod) {
            self.refuse(duplicate);
        }
        for update in merged.updates {
            self.shared.updates.send(update).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    fn refuse(&self, duplicate: &k8s_openapi::api::core::v1::Pod) {
        let pod = annotations::full_name(duplicate);
        tracing::warn!(pod, source = self.source.as_str(), "Pod ignored, since another has its name");
        if let Some(recorder) = &self.shared.recorder {
            let name = duplicate.metadata.name.as_deref().unwrap_or_default();
            let source = self.source;
            let message = format!(
                "Error validating pod {pod} from {source} due to duplicate pod name {name:?}, ignoring"
            );
            recorder.event(&duplicate.object_ref(&()), EventType::Warning, "FailedValidation", message);
        }
    }
}
