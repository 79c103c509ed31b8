//! Decides whether and how an event is written: client-go's `EventCorrelator`, without calls.
//!
//! 1. Aggregation: if ten events differ only in their messages, and no two of them are more than ten minutes apart,
//!    the tenth and all later ones become one event "(combined from similar events): ...".
//! 2. Counting: a repeated event is written as a patch of the first one, with a higher count.
//! 3. The spam filter: a source may write 25 events about an object at once, then one every five minutes.
//!
//! Each part remembers the 4,096 keys used last. It keeps keys as 64-bit hashes with a random seed, since the texts
//! would take megabytes. Two keys that collide (a chance of 1 in 10^12) are counted as one.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use lru::LruCache;
use tokio::time::Instant;

use super::recorder::event_name;

/// client-go: `maxLruCacheEntries`.
const REMEMBERED: usize = 4096;
/// The number of similar messages from which on they are combined; client-go: `defaultAggregateMaxEvents`.
const AGGREGATE_AT: usize = 10;
/// Longest time between two similar events that are combined; client-go: `defaultAggregateIntervalInSeconds`.
const AGGREGATE_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of events about one object that are written at once; client-go: `defaultSpamBurst`.
const SPAM_BURST: u32 = 25;
/// The time after which one more is written; client-go: `defaultSpamQPS`.
const SPAM_REFILL: Duration = Duration::from_secs(300);
/// The prefix of a combined event's message.
const COMBINED: &str = "(combined from similar events): ";

/// The memory of all three parts.
pub(super) struct Correlator {
    hasher: RandomState,
    aggregates: Recent<Aggregate>,
    written: Recent<Written>,
    buckets: Recent<Bucket>,
}

/// An event that must be written.
pub(super) struct Correlated {
    /// Identifies the event among those of its correlator. Repetitions have the key of the first occurrence.
    pub(super) key: u64,
    pub(super) write: Write,
}

/// How to write an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    /// As a new event.
    Create(Box<Event>),
    /// As a patch of the earlier event's count, last timestamp and message. If that event is gone, as a new event
    /// with all fields.
    Patch(Box<Event>),
}

/// The values of the keys used last.
struct Recent<V>(LruCache<u64, V>);

/// Events with the same source, object, type and reason.
struct Aggregate {
    /// The hashes of the messages that were written as they are, fewer than [`AGGREGATE_AT`].
    messages: Vec<u64>,
    /// When the last event of the group occurred.
    last: Instant,
}

/// An event that was written.
#[derive(Clone)]
struct Written {
    name: String,
    first: Option<Time>,
    count: i32,
}

/// A token bucket that holds up to [`SPAM_BURST`] tokens and gains one every [`SPAM_REFILL`].
struct Bucket {
    /// When it will be full again.
    full_at: Instant,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            aggregates: Recent::new(),
            written: Recent::new(),
            buckets: Recent::new(),
        }
    }

    /// Returns what to write for `event`, or `None` if the spam filter holds it back. `now` and `stamp` are the same
    /// moment by both clocks.
    pub(super) fn correlate(&mut self, event: Event, now: Instant, stamp: Timestamp) -> Option<Correlated> {
        // A combined event replaces the event here, so that counting and spam filter see what is written.
        let (event, key) = self.aggregate(event, now, stamp);
        let spam_key = self.hash((source_and_object(&event), &event.type_));
        let write = self.count(event, key);
        // As upstream, held back events count too: the next event that is written has the full count.
        let admitted = self.buckets.entry(spam_key, || Bucket { full_at: now }).take(now);
        admitted.then_some(Correlated { key, write })
    }

    /// Returns the event, or the combined event that replaces it, and its key.
    fn aggregate(&mut self, event: Event, now: Instant, stamp: Timestamp) -> (Event, u64) {
        let group = (source_and_object(&event), &event.type_, &event.reason, reporter(&event));
        let (group, message) = (self.hash(("combined", group)), self.hash(&event.message));
        let own = self.hash((
            source_and_object(&event),
            &event.involved_object.field_path,
            &event.type_,
            &event.reason,
            message,
        ));
        let aggregate = self.aggregates.entry(group, || Aggregate { messages: Vec::new(), last: now });
        if now.saturating_duration_since(aggregate.last) > AGGREGATE_INTERVAL {
            aggregate.messages.clear();
        }
        aggregate.last = now;
        if !aggregate.messages.contains(&message) {
            if aggregate.messages.len() + 1 >= AGGREGATE_AT {
                return (combined(event, stamp), group);
            }
            aggregate.messages.push(message);
        }
        (event, own)
    }

    /// Counts the event under `key`, and decides how to write it.
    fn count(&mut self, mut event: Event, key: u64) -> Write {
        let new = || Written {
            name: event.metadata.name.clone().unwrap_or_default(),
            first: event.first_timestamp.clone(),
            count: 0,
        };
        let written = self.written.entry(key, new);
        written.count = written.count.saturating_add(1);
        if written.count == 1 {
            return Write::Create(Box::new(event));
        }
        event.metadata.name = Some(written.name.clone());
        event.first_timestamp.clone_from(&written.first);
        event.count = Some(written.count);
        Write::Patch(Box::new(event))
    }

    fn hash(&self, key: impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl<V> Recent<V> {
    fn new() -> Self {
        Self(LruCache::unbounded())
    }

    /// Returns the value of `key`. A new key replaces the one used longest ago if there are too many.
    fn entry(&mut self, key: u64, new: impl FnOnce() -> V) -> &mut V {
        if self.0.len() >= REMEMBERED && !self.0.contains(&key) {
            self.0.pop_lru();
        }
        self.0.get_or_insert_mut(key, new)
    }
}

impl Bucket {
    /// Takes a token, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now);
        let there = full_at - now <= SPAM_REFILL * (SPAM_BURST - 1);
        if there {
            self.full_at = full_at + SPAM_REFILL;
        }
        there
    }
}

fn source_and_object(event: &Event) -> impl Hash + '_ {
    let (source, object) = (event.source.as_ref(), &event.involved_object);
    (
        source.map(|source| (&source.component, &source.host)),
        (&object.kind, &object.namespace, &object.name, &object.uid, &object.api_version),
    )
}

fn reporter(event: &Event) -> impl Hash + '_ {
    (&event.reporting_component, &event.reporting_instance)
}

/// The event that combines `event` with similar ones. As upstream, it has no reporting component.
fn combined(event: Event, stamp: Timestamp) -> Event {
    let name = event_name(event.involved_object.name.as_deref().unwrap_or_default(), stamp);
    let message = format!("{COMBINED}{}", event.message.unwrap_or_default());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: event.metadata.namespace,
            ..ObjectMeta::default()
        },
        count: Some(1),
        first_timestamp: Some(Time(stamp)),
        last_timestamp: Some(Time(stamp)),
        involved_object: event.involved_object,
        message: Some(message),
        type_: event.type_,
        reason: event.reason,
        source: event.source,
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
