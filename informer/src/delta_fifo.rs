//! The ordered log of changes between a reflector and the store.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;
use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion};
use tokio::sync::Notify;

use crate::wire::{Decoded, Object};

/// One change of one object, or of what is known of all of them.
#[derive(Debug)]
pub enum Delta<K> {
    /// A watch said that an object appeared.
    Added(Decoded<K>),
    /// A watch said that an object changed.
    Updated(Decoded<K>),
    /// A watch said that an object went; its last state.
    Deleted(Decoded<K>),
    /// A list begins: what it does not name by its end is gone. One that breaks off is followed by the next `ListBegun`.
    ListBegun,
    /// A list named an object.
    Replaced(Decoded<K>),
    /// The list that was begun last is complete.
    ListComplete(ResourceVersion),
    /// Nothing up to this version concerns the cache but what was sent.
    Bookmark(ResourceVersion),
}

impl<K: Object> Delta<K> {
    fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) | Self::Replaced(object) => {
                Some(&object.object()?.meta().key)
            }
            Self::ListBegun | Self::ListComplete(_) | Self::Bookmark(_) => None,
        }
    }
}

/// Makes a log that holds `capacity` deltas at the most, and one at least: a reflector that runs ahead of its store waits.
///
/// What is put in comes out once, in order; a list is never held whole. There is one writer and one reader, and each
/// learns when the other is gone.
pub fn delta_fifo<K: Object>(capacity: usize) -> (Producer<K>, Consumer<K>) {
    let shared = Arc::new(Shared {
        log: Mutex::new(Log { deltas: VecDeque::new(), closed: false }),
        capacity: capacity.max(1),
        filled: Notify::new(),
        drained: Notify::new(),
    });
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

struct Shared<K> {
    log: Mutex<Log<K>>,
    capacity: usize,
    /// Woken when a delta was put in, or the producer went.
    filled: Notify,
    /// Woken when deltas were taken out, or the consumer went.
    drained: Notify,
}

struct Log<K> {
    deltas: VecDeque<Delta<K>>,
    /// One of the two sides is gone.
    closed: bool,
}

/// The reflector's side.
pub struct Producer<K> {
    shared: Arc<Shared<K>>,
}

/// The consumer is gone: nothing needs to be sent any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store of this reflector is gone")]
pub struct Closed;

impl<K: Object> Producer<K> {
    /// Puts a delta at the end, once there is room for it.
    ///
    /// # Errors
    /// The consumer is gone.
    pub async fn push(&mut self, delta: Delta<K>) -> Result<(), Closed> {
        loop {
            let drained = self.shared.drained.notified();
            {
                let mut log = self.shared.log.lock();
                if log.closed {
                    return Err(Closed);
                }
                if log.deltas.len() < self.shared.capacity {
                    log.deltas.push_back(delta);
                    break;
                }
            }
            drained.await;
        }
        self.shared.filled.notify_one();
        Ok(())
    }
}

impl<K> Drop for Producer<K> {
    fn drop(&mut self) {
        self.shared.log.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

/// The store's side.
pub struct Consumer<K> {
    shared: Arc<Shared<K>>,
}

impl<K: Object> Consumer<K> {
    /// Waits for deltas and takes all there are; `None` once the producer is gone and everything was taken.
    ///
    /// Dropping the future loses nothing.
    pub async fn pop(&mut self) -> Option<Vec<Delta<K>>> {
        loop {
            let filled = self.shared.filled.notified();
            {
                let mut log = self.shared.log.lock();
                if !log.deltas.is_empty() {
                    let taken = log.deltas.drain(..).collect();
                    drop(log);
                    self.shared.drained.notify_one();
                    return Some(taken);
                }
                if log.closed {
                    return None;
                }
            }
            filled.await;
        }
    }

    /// The objects of which a change waits here: a resync skips them, since that change tells of them anyway.
    pub fn under_way(&self) -> HashSet<ObjectKey> {
        self.shared.log.lock().deltas.iter().filter_map(Delta::key).cloned().collect()
    }
}

impl<K> Drop for Consumer<K> {
    fn drop(&mut self) {
        let mut log = self.shared.log.lock();
        log.closed = true;
        log.deltas.clear();
        drop(log);
        self.shared.drained.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use steersman_api::Meta;

    use super::*;
    use crate::wire::meta::MetaOnly;

    fn added(name: &str) -> Delta<MetaOnly> {
        let meta = Meta { key: ObjectKey::new("default", name), ..Meta::default() };
        Delta::Added(Decoded::Good(MetaOnly(meta)))
    }

    #[tokio::test(start_paused = true)]
    async fn deltas_come_out_in_the_order_they_went_in() {
        let (mut producer, mut consumer) = delta_fifo(8);
        for name in ["a", "b", "a"] {
            producer.push(added(name)).await.unwrap();
        }
        let popped = consumer.pop().await.unwrap();
        let names: Vec<_> = popped.iter().map(|delta| delta.key().unwrap().name.as_str()).collect();
        assert_eq!(names, ["a", "b", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_producer_that_runs_ahead_waits() {
        let (mut producer, mut consumer) = delta_fifo(2);
        producer.push(added("a")).await.unwrap();
        producer.push(added("b")).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(9), producer.push(added("c"))).await.is_err());
        assert_eq!(consumer.pop().await.unwrap().len(), 2);
        producer.push(added("c")).await.unwrap();
        assert_eq!(consumer.pop().await.unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_under_way_until_its_delta_was_taken() {
        let (mut producer, mut consumer) = delta_fifo(8);
        producer.push(added("a")).await.unwrap();
        producer.push(Delta::ListBegun).await.unwrap();
        assert_eq!(consumer.under_way(), [ObjectKey::new("default", "a")].into_iter().collect());
        consumer.pop().await.unwrap();
        assert!(consumer.under_way().is_empty());
        assert!(consumer.pop().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn each_side_learns_that_the_other_is_gone() {
        let (mut producer, mut consumer) = delta_fifo(8);
        producer.push(added("a")).await.unwrap();
        drop(producer);
        assert_eq!(consumer.pop().await.unwrap().len(), 1, "nothing is lost");
        assert!(consumer.pop().await.is_none());

        let (mut producer, consumer) = delta_fifo(8);
        drop(consumer);
        assert_eq!(producer.push(added("a")).await, Err(Closed));
    }
}
