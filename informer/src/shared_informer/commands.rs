//! The requests of users to an informer's pump.
//!
//! A channel of tokio keeps room for 32 values, even while it is empty. Of these there is one for each kind, and most kinds get one or
//! two requests in their lives.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::mapping::Mapping;
use crate::processor::Mailbox;

/// A user's request to a running informer.
pub(super) enum Command<K> {
    Map(Mapping<K>),
    Handle {
        mailbox: Arc<Mailbox<K>>,
        resync: Option<Duration>,
        removed: CancellationToken,
        /// Runs the handler.
        task: BoxFuture<'static, ()>,
    },
    /// Calls the mappings with everything again.
    Resync,
    /// Drops the mappings that were removed.
    DropRemovedMappings,
}

/// The users' side.
pub(super) struct Sender<K>(Arc<Shared<K>>);

/// The pump's side. There is one.
pub(super) struct Receiver<K>(Arc<Shared<K>>);

struct Shared<K> {
    /// In the order in which they came. `None` once the pump has ended.
    waiting: Mutex<Option<VecDeque<Command<K>>>>,
    /// Woken when a command comes.
    came: Notify,
}

/// Makes an empty queue of commands.
pub(super) fn commands<K>() -> (Sender<K>, Receiver<K>) {
    let shared = Arc::new(Shared { waiting: Mutex::new(Some(VecDeque::new())), came: Notify::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<K> Sender<K> {
    /// Appends a command. Drops it if the pump has ended.
    pub(super) fn send(&self, command: Command<K>) {
        if let Some(waiting) = &mut *self.0.waiting.lock() {
            waiting.push_back(command);
            self.0.came.notify_one();
        }
    }
}

impl<K> Clone for Sender<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Receiver<K> {
    /// Waits for a command and takes it. Cancel-safe.
    pub(super) async fn recv(&mut self) -> Command<K> {
        loop {
            let came = self.0.came.notified();
            if let Some(command) = self.take() {
                return command;
            }
            came.await;
        }
    }

    fn take(&self) -> Option<Command<K>> {
        let mut waiting = self.0.waiting.lock();
        let waiting = waiting.as_mut()?;
        let command = waiting.pop_front();
        if waiting.is_empty() {
            mem::take(waiting);
        }
        command
    }
}

impl<K> Drop for Receiver<K> {
    fn drop(&mut self) {
        // Not under the lock: what a mapping owns may send commands when it is dropped.
        let left = self.0.waiting.lock().take();
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn commands_are_taken_in_order() {
        let (sender, mut receiver) = commands::<()>();
        sender.send(Command::Resync);
        sender.clone().send(Command::DropRemovedMappings);
        assert!(matches!(receiver.recv().now_or_never(), Some(Command::Resync)));
        assert!(matches!(receiver.recv().now_or_never(), Some(Command::DropRemovedMappings)));
        assert!(receiver.recv().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_wakes_the_pump() {
        let (sender, mut receiver) = commands::<()>();
        let sends = async {
            tokio::task::yield_now().await;
            sender.send(Command::Resync);
        };
        let (command, ()) = tokio::join!(receiver.recv(), sends);
        assert!(matches!(command, Command::Resync));
    }

    #[test]
    fn commands_to_a_pump_that_has_ended_are_dropped() {
        let (sender, receiver) = commands::<()>();
        sender.send(Command::Resync);
        drop(receiver);
        sender.send(Command::Resync);
        assert!(sender.0.waiting.lock().is_none());
    }
}
