//! The ordered log of changes between a reflector and the store.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use hashbrown::HashSet;
use parking_lot::Mutex;
use steersman_api::{ObjectKey, ResourceVersion};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::{Decoded, Object};

/// A change of one object, or a mark in the log that concerns all objects.
#[derive(Debug)]
pub enum Delta<K> {
    /// A watch brought a new object.
    Added(Decoded<K>),
    /// A watch brought a new state of an object.
    Updated(Decoded<K>),
    /// A watch brought the deletion of an object; its last state.
    Deleted(Decoded<K>),
    /// A list begins. Objects that are not in it are gone once it is complete. If it breaks off, another `ListBegun` follows.
    ListBegun,
    /// A list brought an object.
    Replaced(Decoded<K>),
    /// The list that began last is complete, and this is its version.
    ListComplete(ResourceVersion),
    /// The log has all changes up to this version.
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

/// Makes a log of at most `capacity` deltas, and at least one. A reflector that runs ahead of its store waits.
///
/// Each delta comes out once, in order. The log never holds a whole list, unless the list is short. There is one producer
/// and one consumer, and each learns when the other is dropped.
pub fn delta_fifo<K: Object>(capacity: usize) -> (Producer<K>, Consumer<K>) {
    let shared = Arc::new(Shared {
        log: Mutex::new(Log { deltas: VecDeque::new(), since: None, closed: false }),
        capacity: capacity.max(1),
        filled: Notify::new(),
        drained: Notify::new(),
    });
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

struct Shared<K> {
    log: Mutex<Log<K>>,
    capacity: usize,
    /// Woken when a delta was put in, or the producer was dropped.
    filled: Notify,
    /// Woken when deltas were taken out, or the consumer was dropped.
    drained: Notify,
}

struct Log<K> {
    deltas: VecDeque<Delta<K>>,
    /// When the log was last empty and got a delta. `None` while it is empty.
    since: Option<Instant>,
    /// One of the two sides was dropped.
    closed: bool,
}

/// The reflector's side.
pub struct Producer<K> {
    shared: Arc<Shared<K>>,
}

/// The consumer was dropped, so the producer should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the consumer of this log was dropped")]
pub struct Closed;

impl<K: Object> Producer<K> {
    /// Waits until there is room for a delta. There is until the next [`put`](Self::put).
    ///
    /// A producer waits before it gets what it will put in: so no delta is part of a task that waits.
    ///
    /// # Errors
    /// The consumer was dropped.
    pub async fn room(&mut self) -> Result<(), Closed> {
        loop {
            let drained = self.shared.drained.notified();
            {
                let log = self.shared.log.lock();
                if log.closed {
                    return Err(Closed);
                }
                if log.deltas.len() < self.shared.capacity {
                    return Ok(());
                }
            }
            drained.await;
        }
    }

    /// Appends a delta, for which there must be [`room`](Self::room). Drops it if the consumer was dropped.
    pub fn put(&mut self, delta: Delta<K>) {
        let mut log = self.shared.log.lock();
        if log.closed {
            return;
        }
        log.deltas.push_back(delta);
        log.since.get_or_insert_with(Instant::now);
        drop(log);
        self.shared.filled.notify_one();
    }
}

impl<K> Drop for Producer<K> {
    fn drop(&mut self) {
        self.shared.log.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

/// Tells how full a log is.
pub(crate) struct Level<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Level<K> {
    /// The number of deltas in the log, and since when the consumer could have taken the first one.
    pub(crate) fn read(&self) -> (usize, Option<Instant>) {
        let log = self.shared.log.lock();
        (log.deltas.len(), log.since)
    }
}

/// The store's side.
pub struct Consumer<K> {
    shared: Arc<Shared<K>>,
}

impl<K: Object> Consumer<K> {
    /// Waits for deltas and takes all of them. `None` once the producer was dropped and the log is empty. Cancel-safe.
    pub async fn pop(&mut self) -> Option<Vec<Delta<K>>> {
        loop {
            let filled = self.shared.filled.notified();
            {
                let mut log = self.shared.log.lock();
                if !log.deltas.is_empty() {
                    // With its memory: a log that once held a list would otherwise keep the room for it.
                    let taken = mem::take(&mut log.deltas).into();
                    log.since = None;
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

    /// A look at how full the log is, from elsewhere.
    pub(crate) fn level(&self) -> Level<K> {
        Level { shared: Arc::clone(&self.shared) }
    }

    /// The keys of the objects whose changes wait in the log. A resync skips them, since the change follows anyway.
    pub fn under_way(&self) -> HashSet<ObjectKey> {
        self.shared.log.lock().deltas.iter().filter_map(Delta::key).cloned().collect()
    }
}

impl<K> Drop for Consumer<K> {
    fn drop(&mut self) {
        let mut log = self.shared.log.lock();
        log.closed = true;
        log.since = None;
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

    async fn push(producer: &mut Producer<MetaOnly>, delta: Delta<MetaOnly>) -> Result<(), Closed> {
        producer.room().await?;
        producer.put(delta);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn deltas_come_out_in_the_order_they_went_in() {
        let (mut producer, mut consumer) = delta_fifo(8);
        for name in ["a", "b", "a"] {
            push(&mut producer, added(name)).await.unwrap();
        }
        let popped = consumer.pop().await.unwrap();
        let names: Vec<_> = popped.iter().map(|delta| delta.key().unwrap().name.as_str()).collect();
        assert_eq!(names, ["a", "b", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_producer_that_runs_ahead_waits() {
        let (mut producer, mut consumer) = delta_fifo(2);
        push(&mut producer, added("a")).await.unwrap();
        push(&mut producer, added("b")).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(9), push(&mut producer, added("c"))).await.is_err());
        assert_eq!(consumer.pop().await.unwrap().len(), 2);
        push(&mut producer, added("c")).await.unwrap();
        assert_eq!(consumer.pop().await.unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_under_way_until_its_delta_was_taken() {
        let (mut producer, mut consumer) = delta_fifo(8);
        push(&mut producer, added("a")).await.unwrap();
        push(&mut producer, Delta::ListBegun).await.unwrap();
        assert_eq!(consumer.under_way(), [ObjectKey::new("default", "a")].into_iter().collect());
        consumer.pop().await.unwrap();
        assert!(consumer.under_way().is_empty());
        assert!(consumer.pop().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn each_side_learns_that_the_other_is_gone() {
        let (mut producer, mut consumer) = delta_fifo(8);
        push(&mut producer, added("a")).await.unwrap();
        drop(producer);
        assert_eq!(consumer.pop().await.unwrap().len(), 1, "nothing is lost");
        assert!(consumer.pop().await.is_none());

        let (mut producer, consumer) = delta_fifo(8);
        drop(consumer);
        assert_eq!(push(&mut producer, added("a")).await, Err(Closed));
    }
}
