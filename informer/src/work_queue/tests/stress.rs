//! Many threads at once. Each test ends by itself, or fails at a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::*;

const KEYS: usize = 32;
const ROUNDS: u64 = 4_000;
/// Twenty times what a test takes on a machine with nothing else to do: a wake-up that was lost never comes.
const DEADLINE: Duration = Duration::from_secs(300);
/// A park that ends by itself would hide a wake that was lost.
const FOREVER: Duration = Duration::MAX;

/// What one key stands for: a cached object whose version grows.
#[derive(Default)]
struct Object {
    in_work: AtomicBool,
    cached: AtomicU64,
    synced: AtomicU64,
}

#[derive(Default)]
struct Cluster {
    objects: [Object; KEYS],
}

impl Cluster {
    /// The beginning and the end of a sync, which must be alone with its key.
    fn enter(&self, key: usize) -> &Object {
        let object = &self.objects[key];
        assert!(!object.in_work.swap(true, Ordering::SeqCst), "key {key} is with two workers");
        object
    }

    fn leave(&self, key: usize) {
        self.objects[key].in_work.store(false, Ordering::SeqCst);
    }

    /// Whether every key has seen all its writes.
    fn is_synced(&self) -> bool {
        self.objects.iter().all(|object| object.synced.load(Ordering::SeqCst) == ROUNDS)
    }
}

async fn within_deadline(mut tasks: JoinSet<()>) {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, all)
        .await
        .expect("a key or a wake-up was lost: the workers wait for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_worked_twice_at_once_and_no_add_is_lost() {
    let queue: WorkQueue<usize> = WorkQueue::new(QueueConfig::new("test"));
    let cluster = Arc::new(Cluster::default());
    let mut workers = JoinSet::new();
    for _ in 0..6 {
        let (queue, cluster) = (queue.clone(), Arc::clone(&cluster));
        workers.spawn(async move {
            while let Some(taken) = queue.get().await {
                let key = *taken.key();
                let object = cluster.enter(key);
                let seen = object.cached.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                object.synced.store(seen, Ordering::SeqCst);
                cluster.leave(key);
                match seen % 4 {
                    0 => drop(taken.retry()),
                    1 => taken.requeue_after(Duration::from_micros(seen % 3_000)),
                    2 => taken.finish(),
                    _ => drop(taken),
                }
            }
        });
    }
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (queue, cluster) = (queue.clone(), Arc::clone(&cluster));
        writers.spawn(async move {
            for round in 0..ROUNDS {
                let key = usize::try_from(round * 7 + writer).unwrap() % KEYS;
                cluster.objects[key].cached.fetch_add(1, Ordering::SeqCst);
                queue.add(key);
                if round % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    within_deadline(writers).await;
    let drain = queue.clone();
    workers.spawn(async move { drain.shut_down_with_drain().await });
    within_deadline(workers).await;
    for (key, object) in cluster.objects.iter().enumerate() {
        let (cached, synced) = (object.cached.load(Ordering::SeqCst), object.synced.load(Ordering::SeqCst));
        assert_eq!(synced, cached, "the last sync of key {key} saw the last write");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_is_lost_between_a_look_at_the_cache_and_the_park() {
    let queue: WorkQueue<usize> = WorkQueue::new(QueueConfig::new("test"));
    let cluster = Arc::new(Cluster::default());
    (0..KEYS).for_each(|key| queue.add(key));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (queue, cluster) = (queue.clone(), Arc::clone(&cluster));
        tasks.spawn(async move {
            while let Some(taken) = queue.get().await {
                let key = *taken.key();
                let object = cluster.enter(key);
                let behind = object.cached.load(Ordering::SeqCst) <= object.synced.load(Ordering::SeqCst);
                if !behind && object.synced.fetch_add(1, Ordering::SeqCst) + 1 == ROUNDS {
                    cluster.leave(key);
                    taken.finish();
                    if cluster.is_synced() {
                        queue.shut_down();
                    }
                    continue;
                }
                std::thread::yield_now();
                cluster.leave(key);
                // Each sync waits for the next write; there is exactly one wake for each.
                taken.park(FOREVER);
            }
        });
    }
    for half in 0..2 {
        let (queue, cluster) = (queue.clone(), Arc::clone(&cluster));
        tasks.spawn(async move {
            for round in 1..=ROUNDS {
                for key in (0..KEYS).filter(|key| key % 2 == half) {
                    let object = &cluster.objects[key];
                    // The next write comes only when the one before has been seen: its wake is the last there is.
                    while object.synced.load(Ordering::SeqCst) + 1 < round {
                        tokio::task::yield_now().await;
                    }
                    object.cached.store(round, Ordering::SeqCst);
                    queue.wake(&key);
                }
            }
        });
    }
    within_deadline(tasks).await;
}
