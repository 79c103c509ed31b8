//! The caches of the kinds that quotas name.

mod cache;
mod mapping;
mod table;

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt, select_all};
use parking_lot::Mutex;
use steersman_api::ArcStr;
use steersman_client::RestMapper;
use steersman_client::discovery::{self, Discovered};
use steersman_controller::context::ControllerContext;
use steersman_informer::SharedInformerFactory;
use steersman_informer::factory::{Error, Lease};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub(super) use self::cache::Cache;
use self::table::{Entry, Table, Watch};
pub(super) use self::table::{Kind, Reader};
use super::names::{DeviceClasses, Measured, measured_by, needs_device_classes};
use super::replenish::Replenish;
use super::{
    Gates, MeasuredDeviceClaim, MeasuredDeviceClass, MeasuredPod, MeasuredService, MeasuredVolumeClaim,
};
use steersman_kinds::resource_quota::ResourceQuotaSpec;

/// How long syncs wait for a kind that is new to quotas. After that, quotas go on without it until it has synced.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the API server is asked for its resources, while quotas name kinds that may come and go. As upstream's.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);
/// The shortest time between two of these questions, if quotas name new kinds.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(1);

/// Starts and stops the caches of the kinds that quotas name, and reads them.
pub(super) struct Watches {
    informers: SharedInformerFactory,
    mapper: Arc<RestMapper>,
    replenish: Arc<Replenish>,
    gates: Gates,
    table: Mutex<Table>,
    /// Makes the caches of other controllers keep the fields that this one reads. Dropped once the watches are arranged.
    reserved: Mutex<Vec<Lease>>,
    changed: Arc<Notify>,
}

/// A cache, as a sync finds it.
pub(super) enum Reading {
    /// The cache has synced.
    Ready(Reader),
    /// The cache will probably have synced soon. Syncs that need it wait.
    Settling,
    /// The cache has not synced. Syncs go on without it.
    NotYet,
    /// The API server does not have the kind.
    Absent,
}

/// What is left to do after the watches are arranged.
struct Arranged {
    /// The kinds that have not synced, and the signal that they have.
    starting: Vec<(Kind, watch::Receiver<bool>)>,
    /// Whether quotas name kinds that may come and go.
    needs_discovery: bool,
    /// When the first kind was named of which it is not known whether the API server has it.
    newest_unknown: Option<Instant>,
    /// When [`PATIENCE`] with some kind ends.
    patience_ends: Option<Instant>,
}

impl Watches {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// A cache runs already without the fields that the controller reads.
    pub(super) fn new(
        context: &ControllerContext,
        replenish: Arc<Replenish>,
        gates: Gates,
    ) -> Result<Self, Error> {
        let informers = context.informers.clone();
        let reserved = vec![
            informers.lease_informer::<MeasuredPod>()?.0,
            informers.lease_informer::<MeasuredService>()?.0,
            informers.lease_informer::<MeasuredVolumeClaim>()?.0,
            informers.lease_informer::<MeasuredDeviceClaim>()?.0,
            informers.lease_informer::<MeasuredDeviceClass>()?.0,
        ];
        let mapper = Arc::clone(&context.rest_mapper);
        let (table, reserved) = (Mutex::default(), Mutex::new(reserved));
        Ok(Self { informers, mapper, replenish, gates, table, reserved, changed: Arc::default() })
    }

    /// Looks again which kinds quotas name. Called when that may have changed.
    pub(super) fn quotas_changed(&self) {
        self.changed.notify_one();
    }

    /// Where a sync reads the objects of a kind.
    pub(super) fn read(&self, kind: &Kind) -> Reading {
        let table = self.table.lock();
        // The quota is newer than the last look at quotas.
        let Some(entry) = table.get(kind) else { return Reading::Settling };
        match &entry.watch {
            Watch::Absent => Reading::Absent,
            Watch::Running { lease, reader, .. } if lease.informer().has_synced() => {
                Reading::Ready(reader.clone())
            }
            _ if entry.since.elapsed() < PATIENCE => Reading::Settling,
            _ => Reading::NotYet,
        }
    }

    /// The finder of quotas.
    pub(super) fn replenish(&self) -> &Replenish {
        &self.replenish
    }

    /// Keeps the caches that quotas need, until `stop` is cancelled. They go on after that, for the next term.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        let mut discovered: Option<(Instant, Arc<Discovered>)> = None;
        let mut asked: Option<Instant> = None;
        let mut asking: Fuse<BoxFuture<'_, Result<Arc<Discovered>, discovery::Error>>> = Fuse::terminated();
        loop {
            let arranged = self.arrange(discovered.as_ref().map(|(asked, answer)| (*asked, &**answer)));
            let mut wakes = arranged.patience_ends;
            if arranged.needs_discovery && asking.is_terminated() {
                let is_new = |asked| arranged.newest_unknown.is_some_and(|named| named >= asked);
                let due =
                    asked.map(|asked| asked + if is_new(asked) { DISCOVERY_PAUSE } else { DISCOVERY_PERIOD });
                match due.filter(|due| *due > Instant::now()) {
                    Some(due) => wakes = Some(wakes.map_or(due, |wakes| wakes.min(due))),
                    None => {
                        asked = Some(Instant::now());
                        asking = self.mapper.refresh().boxed().fuse();
                    }
                }
            }
            let mut synced = pin!(any_synced(arranged.starting));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.changed.notified() => {}
                kind = &mut synced => self.synced(&kind),
                answer = &mut asking, if !asking.is_terminated() => match answer {
                    Ok(answer) => discovered = asked.map(|asked| (asked, answer)),
                    Err(error) => tracing::warn!(%error, "Quotas of kinds that are not known yet keep their old figures"),
                },
                () = until(wakes) => {}
            }
        }
    }

    /// A cache has synced: the quotas that name its kind can be counted.
    fn synced(&self, kind: &Kind) {
        if let Some(entry) = self.table.lock().get_mut(kind) {
            entry.announced = true;
        }
        self.count_with([kind.clone()]);
    }

    /// Has the quotas counted anew that need any of these kinds.
    fn count_with(&self, kinds: impl IntoIterator<Item = Kind>) {
        let measured = kinds.into_iter().map(|kind| match kind {
            Kind::Measured(kind) => kind,
            // Extended resources are those of pods, too. The device classes may name more kinds that must be watched.
            Kind::DeviceClasses => {
                self.quotas_changed();
                Measured::Pods
            }
        });
        let measured: BTreeSet<Measured> = measured.collect();
        if !measured.is_empty() {
            self.replenish.everywhere(&measured);
        }
    }

    /// The kinds that quotas name.
    fn wanted(&self) -> Vec<Kind> {
        let classes = self.replenish.classes();
        let mut wanted = Vec::new();
        for quota in self.replenish.quotas() {
            let names = || quota.get::<ResourceQuotaSpec>().hard.names().map(|name| &**name);
            wanted.extend(measured_by(names(), &classes).into_iter().map(Kind::Measured));
            if self.gates.extended_resources && needs_device_classes(names()) {
                wanted.push(Kind::DeviceClasses);
            }
        }
        wanted.sort();
        wanted.dedup();
        wanted
    }

    /// Starts the caches that are missing, and stops those that no quota needs any more. `discovered` is the API server's last
    /// answer, with the time of the question.
    fn arrange(&self, discovered: Option<(Instant, &Discovered)>) -> Arranged {
        let wanted = self.wanted();
        let mut ended = Vec::new();
        let mut resolved = Vec::new();
        let mut table = self.table.lock();
        table.retain(|kind, entry| {
            let keep = wanted.binary_search(kind).is_ok();
            if !keep {
                ended.push(std::mem::take(&mut entry.watch));
                if *kind == Kind::DeviceClasses {
                    self.replenish.change_classes(|classes| *classes = DeviceClasses::default());
                }
            }
            keep
        });
        for kind in wanted {
            let entry = table.entry(kind.clone()).or_insert_with(Entry::new);
            let is_settled = kind.is_permanent() && matches!(entry.watch, Watch::Running { .. });
            let found = kind.resource(discovered.map(|(_, answer)| answer)).filter(|_| !is_settled);
            // A kind that is newer than the answer may exist.
            let is_outdated = discovered.is_some_and(|(asked, _)| entry.since > asked);
            if let Some(found) = found.filter(|found| found.is_some() || !is_outdated)
                && !entry.watches(found.as_ref())
            {
                let watch = self.begin(&kind, found);
                ended.push(std::mem::replace(&mut entry.watch, watch));
                (entry.announced, entry.warned) = (false, false);
                resolved.push(kind);
            }
        }
        let arranged = Arranged::of(&mut table);
        let absent = resolved.into_iter().filter(|kind| matches!(table[kind].watch, Watch::Absent));
        let absent: Vec<Kind> = absent.collect();
        drop(table);
        // Waits for mappings that run, so no lock is held.
        ended.into_iter().for_each(Watch::end);
        self.reserved.lock().clear();
        // Syncs may wait for kinds that turned out to be absent.
        self.count_with(absent);
        arranged
    }
}

impl Arranged {
    fn of(table: &mut Table) -> Self {
        let mut arranged =
            Self { starting: Vec::new(), needs_discovery: false, newest_unknown: None, patience_ends: None };
        for (kind, entry) in table {
            arranged.needs_discovery |= !kind.is_permanent();
            match &entry.watch {
                Watch::Absent => continue,
                Watch::Unknown => arranged.newest_unknown = arranged.newest_unknown.max(Some(entry.since)),
                Watch::Running { .. } if entry.announced => continue,
                Watch::Running { lease, .. } => {
                    arranged.starting.push((kind.clone(), lease.informer().watch_synced()));
                }
            }
            let ends = entry.since + PATIENCE;
            if ends > Instant::now() {
                arranged.patience_ends = Some(arranged.patience_ends.map_or(ends, |first| first.min(ends)));
            } else if !std::mem::replace(&mut entry.warned, true) {
                tracing::warn!(%kind, "Quotas keep their old figures of a kind, because its cache has not synced");
            }
        }
        arranged
    }
}

/// Waits until one of the caches has synced.
async fn any_synced(starting: Vec<(Kind, watch::Receiver<bool>)>) -> Kind {
    if starting.is_empty() {
        return pending().await;
    }
    let wait = |(kind, mut synced): (Kind, watch::Receiver<bool>)| {
        async move {
            // The sender lives as long as the cache, which the table keeps.
            let _ = synced.wait_for(|synced| *synced).await;
            kind
        }
        .boxed()
    };
    select_all(starting.into_iter().map(wait)).await.0
}

/// Waits until a time, or for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The resource of a name such as `jobs.batch`: its name and its group.
fn split(resource: &ArcStr) -> (&str, &str) {
    resource.split_once('.').unwrap_or((resource, ""))
}
