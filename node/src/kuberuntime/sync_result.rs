//! What came of carrying out what a pod needs.

use std::time::Duration;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncAction {
    /// A container was started.
    StartContainer,
    /// A container was stopped.
    KillContainer,
    /// An init container was looked at.
    InitContainer,
    /// A sandbox was made.
    CreatePodSandbox,
    /// A sandbox's configuration was put together.
    ConfigPodSandbox,
    /// A sandbox was stopped.
    KillPodSandbox,
    /// A container was removed.
    RemoveContainer,
    /// A running pod's resources were changed.
    ResizePodInPlace,
}

/// How a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncError {
    /// Upstream's word, such as `CrashLoopBackOff`, `ErrImagePull`, `RunContainerError`.
    pub reason: String,
    /// For people; the waiting state of a container shows it.
    pub message: String,
    /// Where the step waits for a time to come: how long from now. The pod need not be synced for it before.
    pub retry_in: Option<Duration>,
}

/// One step, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncResult {
    /// What was done.
    pub action: SyncAction,
    /// To what: a container's name, its id, or the pod's name.
    pub target: String,
    /// How it failed, if it did.
    pub error: Option<SyncError>,
}

/// All steps of one sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSyncResult {
    /// In order.
    pub steps: Vec<SyncResult>,
}

impl PodSyncResult {
    /// A step that succeeded.
    pub fn done(&mut self, action: SyncAction, target: impl Into<String>) {
        self.steps.push(SyncResult { action, target: target.into(), error: None });
    }

    /// A step that failed.
    pub fn failed(&mut self, action: SyncAction, target: impl Into<String>, error: SyncError) {
        self.steps.push(SyncResult { action, target: target.into(), error: Some(error) });
    }

    /// The steps that failed.
    pub fn failures(&self) -> impl Iterator<Item = &SyncResult> {
        self.steps.iter().filter(|step| step.error.is_some())
    }
}
