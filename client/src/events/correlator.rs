//! Which events are written, and as what: client-go's `EventCorrelator`, without calls.
//!
//! 1. Aggregation: the tenth event within ten minutes that differs from others in its message only, and all later ones,
//!    become one event "(combined from similar events): ...".
//! 2. Counting: an event seen before is written as a patch of the first one, with a higher count.
//! 3. The spam filter: a source may write 25 events about an object at once, then one in five minutes.
//!
//! Each part remembers the 4,096 keys used last. Keys are kept as 64-bit hashes with a random seed, since the texts would
//! take megabytes; two keys that collide (one chance in 10^12) would be counted as one.

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
/// How many messages of one kind are written as they are; client-go: `defaultAggregateMaxEvents`.
const AGGREGATE_AT: usize = 10;
/// How long ago the last similar event may be; client-go: `defaultAggregateIntervalInSeconds`.
const AGGREGATE_INTERVAL: Duration = Duration::from_secs(600);
/// How many events about one object may be written at once; client-go: `defaultSpamBurst`.
const SPAM_BURST: u32 = 25;
/// The time after which one more may be; client-go: `defaultSpamQPS`.
const SPAM_REFILL: Duration = Duration::from_secs(300);
/// What the message of a combined event begins with.
const COMBINED: &str = "(combined from similar events): ";

/// The memory of all three parts.
pub(super) struct Correlator {
    hasher: RandomState,
    aggregates: Recent<Aggregate>,
    written: Recent<Written>,
    buckets: Recent<Bucket>,
}

/// How to write an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    /// As a new one.
    Create(Box<Event>),
    /// As a change of an earlier one: of its count, last time and message. Should that one be gone, all of this is
    /// written anew.
    Patch(Box<Event>),
}

/// The values of the keys used last.
struct Recent<V>(LruCache<u64, V>);

/// The events of one source, object, type and reason.
struct Aggregate {
    /// The hashes of the different messages, fewer than [`AGGREGATE_AT`].
    messages: Vec<u64>,
    last: Instant,
}

/// An event that was written.
#[derive(Clone)]
struct Written {
    name: String,
    first: Option<Time>,
    count: i32,
}

/// A full bucket holds [`SPAM_BURST`] tokens, and gains one each [`SPAM_REFILL`].
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

    /// What to write for `event`; `None` if it is held back. `now` and `stamp` are the same moment by both clocks.
    pub(super) fn correlate(&mut self, event: Event, now: Instant, stamp: Timestamp) -> Option<Write> {
        // Of the combined event if it is one, so all three parts see the same source and object.
        let (event, key) = self.aggregate(event, now, stamp);
        let spam_key = self.hash((source_and_object(&event), &event.type_));
        let write = self.count(event, key);
        // As upstream, what is held back is counted too: the next one written tells the full number.
        self.buckets.entry(spam_key, || Bucket { full_at: now }).take(now).then_some(write)
    }

    /// The event, or the combined one in its place, and the key by which it is counted.
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

    /// Counts the event under `key`.
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

    /// The value of `key`, new if need be; then the key used longest ago is forgotten.
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

/// The event that stands for all like `event`. As upstream, it has no reporting component.
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
