//! Tests of the guarantees of the [module](super), one by one.

mod delaying;
mod metrics;
mod parking;
mod properties;
mod queue;
mod rate_limiting;
mod status;
mod stress;

use std::time::Duration;

use futures::FutureExt;

use super::{Key, Priority, QueueConfig, Taken, WorkQueue};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(QueueConfig::new("test"))
}

/// What `get` gives at once, if anything.
fn look<K: Key, P: Priority>(queue: &WorkQueue<K, P>) -> Option<Taken<K, P>> {
    tokio::task::unconstrained(queue.get()).now_or_never().flatten()
}

/// The next key, which must be there at once; done with immediately.
fn next<K: Key, P: Priority>(queue: &WorkQueue<K, P>) -> Option<K> {
    look(queue).map(|taken| taken.key().clone())
}

fn all<K: Key, P: Priority>(queue: &WorkQueue<K, P>) -> Vec<K> {
    std::iter::from_fn(|| next(queue)).collect()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}
