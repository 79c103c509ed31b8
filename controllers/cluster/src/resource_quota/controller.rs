//! Syncs of quotas: where observations come from, and how steps are carried out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Time};
use steersman_controller::client::{Changed, StatusChange, StatusWriter};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::wire::Object;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Informer, Lister, View};
use steersman_kinds::resource_quota::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};

use super::awaited::Awaited;
use super::checks::Checks;
use super::names::{DeviceClasses, Measured, by_kind, is_extended};
use super::plan::{Observed, Outcome, Quota, Step, Tally, Uncounted, plan};
use super::replenish::until_after;
use super::scopes::Scopes;
use super::tally::{of_device_claims, of_objects, of_pods, of_services, of_volume_claims};
use super::watches::{Cache, Kind, Reader, Reading, Watches};
use super::{Gates, MeasuredPod, SyncedQuota};

/// How long a sync is put off at a time while the cache does not show a newer state of the quota, which must exist.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long a sync is put off at a time while a kind settles. It comes earlier if the kind has synced.
const SETTLING: Duration = Duration::from_secs(1);

/// Keeps the statuses of quotas.
///
/// Two queues hold keys, so two syncs of a quota may overlap. That does no harm: a status is written on the condition that the
/// quota has not changed since.
pub(super) struct QuotaController {
    pub quotas: Lister<SyncedQuota>,
    pub watches: Arc<Watches>,
    pub status: StatusWriter<ResourceQuota>,
    pub awaited: Awaited,
    pub checks: Arc<Checks>,
    pub clock: Clock,
    pub gates: Gates,
}

/// A tally that is not known yet, because a sync waits for it.
struct Settling;

/// Enqueues quotas that are new, or whose limits have changed. Checks those whose status somebody else has written.
pub(super) fn map(
    quotas: &Informer<SyncedQuota>,
    controller: &Arc<QuotaController>,
    watches: &Arc<Watches>,
    [primary, priority]: [&WorkQueue<ObjectKey>; 2],
) {
    let (controller, watches) = (Arc::clone(controller), Arc::clone(watches));
    let (primary, priority) = (primary.clone(), priority.clone());
    quotas.map(move |change| {
        let key = change.key();
        primary.wake(key);
        priority.wake(key);
        let hard = |quota: &View<SyncedQuota>| quota.get::<ResourceQuotaSpec>().hard.clone();
        let lacks_figures = |quota| controller.lacks_figures(quota);
        match change {
            Change::Updated { old, new } if hard(old).is_worth(&hard(new)) => {
                if controller.is_foreign(new) {
                    controller.checks.add(key);
                }
                return;
            }
            Change::Added { object: quota, .. }
            | Change::Updated { new: quota, .. }
            | Change::Resync { object: quota }
                if lacks_figures(quota) =>
            {
                priority.add(key.clone());
            }
            Change::Added { .. } | Change::Updated { .. } | Change::Resync { .. } => primary.add(key.clone()),
            Change::Deleted { .. } => {
                controller.awaited.forget(key);
                controller.checks.forget(key);
            }
        }
        watches.quotas_changed();
    });
}

impl QuotaController {
    /// Whether the status lacks figures that the API server's admission needs.
    fn lacks_figures(&self, quota: &View<SyncedQuota>) -> bool {
        let (spec, status) = (quota.get::<ResourceQuotaSpec>(), quota.get::<ResourceQuotaStatus>());
        let classes = self.watches.replenish().classes();
        let mut unused = status.hard.names().filter(|name| status.used.get(name).is_none());
        !spec.hard.is_worth(&status.hard) || unused.any(|name| !Measured::by_name(name, &classes).is_empty())
    }

    /// Whether somebody else wrote this state of a quota.
    fn is_foreign(&self, quota: &View<SyncedQuota>) -> bool {
        let meta = quota.meta();
        !self.awaited.is(&meta.key, meta.resource_version)
    }

    fn observed(&self, quota: Quota) -> Result<Observed, Settling> {
        let now = self.clock.timestamp();
        let mut tallies = Vec::new();
        if self.gates.extended_resources && quota.names().any(is_extended) {
            match self.watches.read(&Kind::DeviceClasses) {
                Reading::Ready(_) | Reading::Absent => {}
                Reading::Settling => return Err(Settling),
                Reading::NotYet => {
                    let names = quota.names().filter(|name| is_extended(name)).map(ArcStr::from).collect();
                    tallies.push(Tally { names, used: Err(Uncounted::NotYet) });
                }
            }
        }
        let classes = self.watches.replenish().classes();
        let mut next_overdue = None;
        for (kind, names) in by_kind(quota.names(), &classes) {
            let used = match self.watches.read(&Kind::Measured(kind)) {
                Reading::Absent => continue,
                Reading::Settling => return Err(Settling),
                Reading::NotYet => Err(Uncounted::NotYet),
                Reading::Ready(reader) => {
                    self.count(&reader, &quota, &names, (&classes, now), &mut next_overdue)?
                }
            };
            tallies.push(Tally { names, used });
        }
        let next_overdue = next_overdue.map(|due| until_after(due, now));
        Ok(Observed { quota, tallies, next_overdue, outcome: None })
    }

    /// What the objects of one kind use.
    fn count(
        &self,
        reader: &Reader,
        quota: &Quota,
        names: &BTreeSet<ArcStr>,
        (classes, now): (&DeviceClasses, Timestamp),
        next_overdue: &mut Option<Time>,
    ) -> Result<super::tally::Sum, Settling> {
        let (scopes, namespace) = (Scopes::of(&quota.spec), &quota.meta.key.namespace);
        Ok(match reader {
            Reader::Pods(cache) => {
                let (used, overdue) = of_pods(cache, namespace, names, &scopes, (self.gates, now));
                *next_overdue = overdue;
                used
            }
            Reader::Services(cache) => of_services(cache, namespace, names, &scopes),
            Reader::VolumeClaims(cache) => of_volume_claims(cache, namespace, names, &scopes),
            Reader::DeviceClaims(cache) => {
                let pods = match self.pods_of_claims(names)? {
                    Ok(pods) => pods,
                    Err(uncounted) => return Ok(Err(uncounted)),
                };
                let caches = (cache, pods.as_ref());
                of_device_claims(caches, namespace, names, &scopes, (classes, self.gates, now))
            }
            Reader::Objects(cache) => of_objects(&**cache, namespace, names, &scopes),
            Reader::DeviceClasses => Ok(super::amounts::Amounts::default()),
        })
    }

    /// The cache of pods, if device claims are counted for extended resources.
    fn pods_of_claims(
        &self,
        names: &BTreeSet<ArcStr>,
    ) -> Result<Result<Option<Cache<MeasuredPod>>, Uncounted>, Settling> {
        if !self.gates.extended_resources || !names.iter().any(|name| is_extended(name)) {
            return Ok(Ok(None));
        }
        match self.watches.read(&Kind::Measured(Measured::Pods)) {
            Reading::Ready(Reader::Pods(pods)) => Ok(Ok(Some(pods))),
            Reading::Settling => Err(Settling),
            _ => Ok(Err(Uncounted::NotYet)),
        }
    }

    async fn write(&self, quota: &Quota, status: &ResourceQuotaStatus) -> Result<Outcome, SyncError> {
        let key = &quota.meta.key;
        let Some(change) = StatusChange::between(&quota.meta, &quota.status, status) else {
            return Ok(Outcome::Written);
        };
        match self.status.write(key, &change).await? {
            Changed::Now(written) => {
                let version = written.meta().resource_version;
                self.awaited.add(key, version);
                // A write that changes nothing, since a server or webhook drops it, would lead to a check and a write for ever.
                if version != quota.meta.resource_version {
                    self.checks.add(key);
                }
                Ok(Outcome::Written)
            }
            Changed::Gone => Ok(Outcome::Gone),
            Changed::Conflict(_) => {
                let newer = ResourceVersion(quota.meta.resource_version.0 + 1);
                self.awaited.add(key, newer);
                Ok(Outcome::Conflict)
            }
        }
    }
}

impl Controller for QuotaController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.awaited.clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let unreadable = |error| SyncError::Unreadable(format!("ResourceQuota {error}"));
        let Some(quota) = self.quotas.get(key).map_err(unreadable)? else {
            self.awaited.forget(key);
            return Ok(Observation::Nothing);
        };
        let quota = Quota::of(quota.object());
        if self.awaited.holds(key, quota.meta.resource_version) {
            return Ok(Observation::Behind(LOOK_AGAIN));
        }
        Ok(match self.observed(quota) {
            Ok(observed) => Observation::Ready(observed),
            Err(Settling) => Observation::Behind(SETTLING),
        })
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, _: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::WriteStatus(status) => self.write(&observed.quota, status).await,
            Step::Fail(why) => Err(SyncError::Failed(why.clone())),
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Outcome>) {
        observed.absorb(result);
    }
}
