//! One object, watched while somebody needs it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use steersman_api::{FieldSelector, GroupVersionResource, ObjectKey};
use steersman_informer::delta_fifo::delta_fifo;
use steersman_informer::list_watch::{ApiListerWatcher, Scope};
use steersman_informer::reflector::{Config, Reflector};
use steersman_informer::wire::whole::Whole;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ObjectError;
use super::reflection::Reflection;

/// How long a read waits for its watch, as upstream.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(1);

/// A watch of which nothing was read for this long is given up until somebody reads again: environments are read only as
/// containers start. Five of the kubelet's sync periods.
pub(super) const IDLE: Duration = Duration::from_secs(5 * 60);

/// Watches of single objects are many, so each lasts long.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// One object's watch brings little at a time.
const FIFO_CAPACITY: usize = 4;

/// A kind that is kept whole.
pub(super) trait Kept:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// As messages call it.
    const SINGULAR: &'static str;
    /// Whether it says that it never changes.
    fn is_immutable(&self) -> bool;
}

impl Kept for ConfigMap {
    const SINGULAR: &'static str = "configmap";
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

impl Kept for Secret {
    const SINGULAR: &'static str = "secret";
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

impl Kept for Service {
    const SINGULAR: &'static str = "service";
    fn is_immutable(&self) -> bool {
        false
    }
}

/// Where a kind is served.
pub(super) fn resource_of<T: Kept>() -> GroupVersionResource {
    GroupVersionResource::new(&*T::group(&()), &*T::version(&()), &*T::plural(&()))
}

/// An object and its watch.
///
/// Watches are numbered. A registration asks for a watch that begins after it ([`renew`](Self::renew)); the first read
/// that needs it has it begun, and waits for it: what is read is never older than the registrations before the read.
pub(super) struct WatchedObject<T> {
    key: ObjectKey,
    /// What the watch told.
    known: watch::Sender<Known<T>>,
    /// The watch that registrations ask for.
    needed: AtomicU64,
    /// The watch that reads ask for; at most `needed`.
    asked: AtomicU64,
    /// Woken by a read that finds no such watch.
    wake: Notify,
    /// When it was last read.
    last_read: Mutex<Instant>,
    /// Cancelled when nobody needs it any more.
    pub(super) stop: CancellationToken,
}

struct Known<T> {
    /// The number of the watch whose list was complete; 0 while there is none.
    watch: u64,
    object: Seen<T>,
    /// Why the watch is not there, if it was said.
    error: Option<String>,
}

enum Seen<T> {
    Absent,
    There(Arc<T>),
    Unreadable,
}

/// The number of a watch that any read is content with.
const FOR_GOOD: u64 = u64::MAX;

impl<T: Kept> WatchedObject<T> {
    pub(super) fn new(key: ObjectKey, stop: CancellationToken) -> Self {
        let known = watch::Sender::new(Known { watch: 0, object: Seen::Absent, error: None });
        Self {
            key,
            known,
            needed: AtomicU64::new(1),
            asked: AtomicU64::new(1),
            wake: Notify::new(),
            last_read: Mutex::new(Instant::now()),
            stop,
        }
    }

    /// What is read from now on must not be older than now.
    pub(super) fn renew(&self) {
        self.needed.fetch_add(1, Ordering::AcqRel);
    }

    /// The object as of a watch that began after the last registration.
    pub(super) async fn read(&self) -> Result<Arc<T>, ObjectError> {
        *self.last_read.lock() = Instant::now();
        let needed = self.needed.load(Ordering::Acquire);
        if self.known.borrow().watch < needed {
            self.asked.fetch_max(needed, Ordering::AcqRel);
            self.wake.notify_one();
        }
        let mut known = self.known.subscribe();
        let there = known.wait_for(|known| known.watch >= needed);
        // The sender lives as long as this object, so it is the deadline that ends the wait in vain.
        if let Ok(Ok(known)) = tokio::time::timeout(READ_DEADLINE, there).await {
            let name = &*self.key.name;
            return match &known.object {
                Seen::There(object) => Ok(Arc::clone(object)),
                Seen::Absent => Err(ObjectError::NotFound(format!("{} {name:?} not found", T::SINGULAR))),
                Seen::Unreadable => {
                    Err(ObjectError::Other(format!("{} {name:?} can't be read", T::SINGULAR)))
                }
            };
        }
        let why = self.known.borrow().error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let what = T::SINGULAR;
        let message = format!("failed to sync {what} cache: timed out waiting for the condition{why}");
        Err(ObjectError::Other(message))
    }

    /// Keeps the object until it is stopped, or for good once it can't change.
    pub(super) async fn run(&self, client: kube::Client) {
        let stop = self.stop.clone();
        stop.run_until_cancelled(async {
            loop {
                let number = self.asked.load(Ordering::Acquire);
                match self.watch(client.clone(), number).await {
                    Left::Immutable => break,
                    Left::Outdated => {}
                    Left::Idle => {
                        tracing::debug!(key = %self.key, kind = T::SINGULAR, "watch of an idle object ends");
                        self.known.send_if_modified(|known| std::mem::take(&mut known.watch) != 0);
                        self.wake.notified().await;
                    }
                }
            }
        })
        .await;
    }

    /// One watch, until it has to be left.
    async fn watch(&self, client: kube::Client, number: u64) -> Left {
        let scope = Scope {
            namespace: self.key.namespace.clone(),
            fields: FieldSelector::name(&self.key.name),
            ..Scope::default()
        };
        let resource = resource_of::<T>();
        let source = Arc::new(ApiListerWatcher::<Whole<T>>::new(client, resource.clone(), scope));
        let known = self.known.clone();
        let config = Config { min_watch_timeout: MIN_WATCH_TIMEOUT, ..Config::default() };
        let reflector = Reflector::new(source, resource, config).on_error(Some(Arc::new(move |_, error| {
            known.send_modify(|known| known.error = Some(error.to_string()));
        })));
        let (producer, mut consumer) = delta_fifo(FIFO_CAPACITY);
        let follow = async {
            let mut reflection = Reflection::<T>::new();
            let mut listed = false;
            loop {
                let deltas = tokio::select! {
                    deltas = consumer.pop() => deltas.unwrap_or_default(),
                    () = self.wake.notified(), if listed => {
                        if self.asked.load(Ordering::Acquire) > number {
                            return Left::Outdated;
                        }
                        continue;
                    }
                    () = self.idle(), if listed => return Left::Idle,
                };
                for delta in deltas {
                    listed |= reflection.apply(delta);
                }
                if !listed {
                    continue;
                }
                let object = match reflection.get(&self.key) {
                    Some(Some(object)) => Seen::There(Arc::clone(object)),
                    Some(None) => Seen::Unreadable,
                    None => Seen::Absent,
                };
                let immutable = matches!(&object, Seen::There(object) if object.is_immutable());
                let watch = if immutable { FOR_GOOD } else { number };
                self.known.send_replace(Known { watch, object, error: None });
                if immutable {
                    return Left::Immutable;
                }
                // Registrations that came while the list was under way.
                if self.asked.load(Ordering::Acquire) > number {
                    return Left::Outdated;
                }
            }
        };
        tokio::select! {
            // It never ends: the consumer is not dropped before.
            () = reflector.list_and_watch(producer) => Left::Outdated,
            left = follow => left,
        }
    }

    /// Until nothing was read for long.
    async fn idle(&self) {
        loop {
            let due = *self.last_read.lock() + IDLE;
            if Instant::now() >= due {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

/// Why a watch was left.
enum Left {
    /// The object says that it never changes.
    Immutable,
    /// A newer one is asked for.
    Outdated,
    /// Nobody reads.
    Idle,
}
