//! What came of carrying out what a pod needs.

use std::time::Duration;

use crate::aggregate::aggregate;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncAction {
    /// A container was started.
    StartContainer,
    /// A container was stopped.
    KillContainer,
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

impl SyncAction {
    /// Upstream's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartContainer => "StartContainer",
            Self::KillContainer => "KillContainer",
            Self::CreatePodSandbox => "CreatePodSandbox",
            Self::ConfigPodSandbox => "ConfigPodSandbox",
            Self::KillPodSandbox => "KillPodSandbox",
            Self::RemoveContainer => "RemoveContainer",
            Self::ResizePodInPlace => "ResizePodInPlace",
        }
    }

    /// Whether whoever does it tells of a failure, by an event or in the log, so that nobody else need do so.
    pub fn tells_of_failures(self) -> bool {
        match self {
            Self::StartContainer | Self::CreatePodSandbox | Self::ResizePodInPlace => true,
            Self::KillContainer | Self::ConfigPodSandbox | Self::KillPodSandbox | Self::RemoveContainer => {
                false
            }
        }
    }
}

impl SyncError {
    /// A failure that is tried again as the caller likes.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), retry_in: None }
    }
}

impl PodSyncResult {
    /// A step, however it ended.
    pub fn push(&mut self, action: SyncAction, target: impl Into<String>, ended: Result<(), SyncError>) {
        self.steps.push(SyncResult { action, target: target.into(), error: ended.err() });
    }

    /// Whether all steps succeeded.
    pub fn is_ok(&self) -> bool {
        self.failures().next().is_none()
    }

    /// All failures in upstream's words, as the event `FailedSync` and the log show them; none where there is none.
    pub fn error_text(&self) -> Option<String> {
        aggregate(self.failures().filter_map(|step| {
            let SyncError { reason, message, .. } = step.error.as_ref()?;
            let (action, target) = (step.action.as_str(), &step.target);
            Some(format!("failed to {action:?} for {target:?} with {reason}: {message:?}"))
        }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_together_each_once() {
        let mut result = PodSyncResult::default();
        result.push(SyncAction::CreatePodSandbox, "web_shop(u-1)", Ok(()));
        assert_eq!((result.is_ok(), result.error_text()), (true, None));
        result.failed(SyncAction::StartContainer, "a", SyncError::new("CrashLoopBackOff", "wait"));
        let one = r#"failed to "StartContainer" for "a" with CrashLoopBackOff: "wait""#;
        assert_eq!(result.error_text().as_deref(), Some(one));
        for name in ["b", "a"] {
            result.failed(SyncAction::StartContainer, name, SyncError::new("CrashLoopBackOff", "wait"));
        }
        assert_eq!(result.error_text(), Some(format!("[{one}, {}]", one.replace("\"a\"", "\"b\""))));
    }
}
