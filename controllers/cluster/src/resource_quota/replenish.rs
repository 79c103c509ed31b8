//! Which quotas a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use steersman_api::{ObjectKey, Time};
use steersman_controller::context::Clock;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Index, IndexValue, Informer, Lister, View};
use steersman_kinds::resource_quota::ResourceQuotaSpec;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::SyncedQuota;
use super::checks::Checks;
use super::names::{DeviceClasses, Measured};

/// Finds the quotas that count a kind, and has them counted anew.
pub(super) struct Replenish {
    quotas: Lister<SyncedQuota>,
    /// The quotas that may count a kind, by namespace and kind. A quota may have very many names, so a change of an object must
    /// not look at all of them.
    by_kind: Index<SyncedQuota>,
    queue: WorkQueue<ObjectKey>,
    checks: Arc<Checks>,
    clock: Clock,
    /// As the cache shows them, while some quota bounds extended resources.
    classes: RwLock<Arc<DeviceClasses>>,
}

/// When quotas are counted anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At once: less may be used.
    Now,
    /// Once the quota is at rest: more is used, which admission has added.
    AtRest,
    /// After this time.
    After(Time),
}

impl Replenish {
    pub(super) fn new(
        quotas: &Informer<SyncedQuota>,
        queue: WorkQueue<ObjectKey>,
        checks: Arc<Checks>,
        clock: Clock,
    ) -> Self {
        let by_kind = quotas.add_index("kind", |quota| {
            let (namespace, names) =
                (&quota.meta().key.namespace, quota.get::<ResourceQuotaSpec>().hard.names());
            let kinds: BTreeSet<_> = names.flat_map(|name| Measured::possible_by_name(name)).collect();
            kinds.iter().map(|kind| IndexValue::Pair(namespace.clone(), kind.as_text())).collect()
        });
        Self { quotas: quotas.lister(), by_kind, queue, checks, clock, classes: RwLock::default() }
    }

    /// The device classes.
    pub(super) fn classes(&self) -> Arc<DeviceClasses> {
        Arc::clone(&self.classes.read())
    }

    /// Changes the device classes.
    pub(super) fn change_classes(&self, change: impl FnOnce(&mut DeviceClasses)) {
        change(Arc::make_mut(&mut *self.classes.write()));
    }

    /// The current time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// All quotas. One that can't be read keeps its status until it can.
    pub(super) fn quotas(&self) -> Vec<View<SyncedQuota>> {
        self.quotas.list_readable().0
    }

    /// Has the quotas of a namespace counted anew that count objects of a kind.
    pub(super) fn in_namespace(&self, namespace: &str, kind: &Measured, when: When) {
        // The next state of an unreadable quota comes with a change of its own.
        let entry = IndexValue::Pair(namespace.into(), kind.as_text());
        let Ok(quotas) = self.quotas.by_index(&self.by_kind, &entry) else { return };
        if quotas.is_empty() {
            return;
        }
        let classes = self.classes();
        let is_counted = |quota: &&View<SyncedQuota>| {
            *kind != Measured::DeviceClaims || counts(quota, &classes, |counted| counted == kind)
        };
        for quota in quotas.iter().filter(is_counted) {
            let key = quota.meta().key.clone();
            match when {
                When::Now => self.queue.add(key),
                When::AtRest => self.checks.add(&key),
                When::After(due) => self.queue.add_after(key, until_after(due, self.now())),
            }
        }
    }

    /// Has all quotas counted anew that count objects of any of these kinds.
    pub(super) fn everywhere(&self, kinds: &BTreeSet<Measured>) {
        let classes = self.classes();
        let concerned = |quota: &&View<SyncedQuota>| counts(quota, &classes, |kind| kinds.contains(kind));
        for quota in self.quotas().iter().filter(concerned) {
            self.queue.add(quota.meta().key.clone());
        }
    }

    /// Has all quotas counted anew once in each period, until `stop` is cancelled. The count at the start of a term comes
    /// from the caches.
    pub(super) async fn resync(&self, period: Duration, stop: &CancellationToken) {
        if period.is_zero() {
            tracing::info!("periodic quota controller resync disabled");
            return;
        }
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.quotas.for_each_meta(|quota| self.queue.add(quota.key.clone()));
        }
    }
}

/// The time until just after `due`: a pod is overdue only then.
pub(super) fn until_after(due: Time, now: Timestamp) -> Duration {
    let left = Timestamp::from(due).duration_since(now);
    Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)
}

/// Whether a quota counts objects of a kind that is `wanted`.
fn counts(quota: &View<SyncedQuota>, classes: &DeviceClasses, wanted: impl Fn(&Measured) -> bool) -> bool {
    let mut names = quota.get::<ResourceQuotaSpec>().hard.names();
    names.any(|name| Measured::by_name(name, classes).iter().any(&wanted))
}
