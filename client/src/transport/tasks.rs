//! The owner of the transport's tasks.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Where tasks of one owner run: counted by the transport, cut off by the owner's token.
///
/// Also the executor that hyper spawns a connection's tasks with.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { tracker: TaskTracker::new(), cut: CancellationToken::new() }
    }

    /// Tasks that can be cut off on their own, and are with these.
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

    /// Drops all tasks, at their next turn.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Drops all tasks and waits until they are gone.
    pub(super) async fn close(&self) {
        self.cut();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        self.spawn(async move {
            task.await;
        });
    }
}
