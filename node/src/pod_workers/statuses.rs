//! Where pod workers see what the runtime has of a pod.

use async_trait::async_trait;
use steersman_api::Uid;
use tokio::time::Instant;

use crate::pleg::PlegHandle;
use crate::pleg::cache::Status;

/// The statuses of pods as the runtime tells them: the PLEG's, but in tests.
#[async_trait]
pub trait PodStatuses: Send + Sync + 'static {
    /// The pod's status once it is newer than that; at once, without waiting, if it is already. An empty one for a pod that the
    /// runtime does not know.
    ///
    /// # Errors
    /// If the pod could not be inspected since.
    async fn get_newer_than(&self, pod: &Uid, than: Instant) -> Status;

    /// Has the pod listed at once rather than at the next relist. A hint.
    fn request_relist(&self, pod: &Uid);
}

#[async_trait]
impl PodStatuses for PlegHandle {
    async fn get_newer_than(&self, pod: &Uid, than: Instant) -> Status {
        self.statuses().get_newer_than(pod, than).await
    }

    fn request_relist(&self, pod: &Uid) {
        Self::request_relist(self, pod.clone());
    }
}
