//! Owns the transport's tasks.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one owner. The transport counts them, and the owner's token cuts them off.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { tracker: TaskTracker::new(), cut: CancellationToken::new() }
    }

    /// A group of tasks that can be cut off alone, and is cut off with this group.
    pub(super) fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), cut: self.cut.child_token() }
    }

    /// Runs `task` until it ends or is cut off.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            cut.run_until_cancelled(task).await;
        });
    }

    /// Drops each task when it is next polled.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Drops all tasks and waits until they have ended.
    pub(super) async fn close(&self) {
        self.cut();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
