//! The resource quota controller: keeps in the status of each ResourceQuota what the objects of its namespace use.
//!
//! ```text
//! changes of quotas ──────────────────┐          ┌─> resourcequota_priority (quotas that lack figures)
//! changes of objects that some quota  ├─> keys ──┤
//! counts, if they change what is used ┘          └─> resourcequota_primary
//!   each queue: observe: the quota, and a tally of each kind that it names ─> plan ─> the status
//!
//! quotas ─> watches: starts and stops the caches of the kinds that quotas name
//! own writes, admissions of objects ─> checks ─> resourcequota_primary, once the quota has been at rest
//! ```
//!
//! The API server's admission adds to `used` what it admits, before it stores the object. The controller finds what became
//! less. It writes a status only on the condition that the quota has not changed since, so that no admission is lost.
//!
//! As upstream's controller, except that
//! - only the kinds that some quota names are watched, and no quota waits for a kind that does not list: the quota keeps its
//!   old figures of that kind. Upstream stops all syncs until all kinds of the API server have synced;
//! - a quota is counted again as soon as a pod is overdue: its grace period has passed since it should have gone. Upstream
//!   notices that with the next resync;
//! - a quota is counted again after each write and each admission, once it has been at rest for 5 seconds. So figures that
//!   were counted on caches that lag, and admissions of objects that were not created in the end, are corrected. Upstream
//!   notices these with the next resync;
//! - any change of what an object uses is counted, such as more ports of a service. Upstream counts only some of them.

mod amounts;
mod awaited;
mod checks;
mod controller;
mod measures;
mod names;
mod plan;
mod replenish;
mod scopes;
mod tally;
#[cfg(test)]
mod tests;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use steersman_controller::client::{Client, StatusWriter};
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};
use steersman_informer::keep;
use steersman_informer::work_queue::WorkQueue;
use steersman_kinds::device_class::{DeviceClass, ExtendedResource};
use steersman_kinds::persistent_volume_claim::{
    BetaStorageClass, PersistentVolumeClaim, StorageAllotment, StorageDemand,
};
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::resource_claim::{DeviceDemand, ExtendedResources, ResourceClaim};
use steersman_kinds::resource_quota::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use steersman_kinds::service::{Exposure, Service};
use steersman_kinds::shared::Shared;

use self::awaited::Awaited;
use self::checks::Checks;
use self::controller::QuotaController;
use self::replenish::Replenish;
use self::watches::Watches;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("resourcequota-controller", &["resourcequota"], construct)
    .options::<ResourceQuotaOptions>()
    .gates(&[POD_LEVEL_RESOURCES, EXTENDED_RESOURCES])
    .rules(&[
        Rule::new(&["*"], &["*"], &["list", "watch"]).because(
            "Quotas may count objects of any kind. Only the kinds that some quota names are watched.",
        ),
        Rule::new(&[""], &["resourcequotas/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
    ]);

options! {
    /// Settings of the resource quota controller.
    pub struct ResourceQuotaOptions("ResourceQuotaController") {
        /// How often all quotas are counted again, whatever has changed; 0: never
        pub sync_period: Duration = Duration::from_secs(300), "resource-quota-sync-period", "ResourceQuotaSyncPeriod";
        /// How many quotas are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-resource-quota-syncs",
            "ConcurrentResourceQuotaSyncs";
    }
}

/// The gate of resources that pods ask for as a whole.
const POD_LEVEL_RESOURCES: &str = "PodLevelResources";
/// The gate of extended resources that device classes stand for.
const EXTENDED_RESOURCES: &str = "DRAExtendedResource";
/// How long a quota must have been at rest before it is checked. Longer than the API server takes to create an object that
/// it has charged to a quota.
const REST: Duration = Duration::from_secs(5);

keep! {
    /// What the controller reads of a quota.
    pub struct SyncedQuota: ResourceQuota => ResourceQuotaSpec, ResourceQuotaStatus
}

keep! {
    /// What the controller reads of a pod.
    pub struct MeasuredPod: Pod => Phase, Shared<PodDemand>, Shared<PodAllotment>
}

keep! {
    /// What the controller reads of a service.
    pub struct MeasuredService: Service => Shared<Exposure>
}

keep! {
    /// What the controller reads of a PersistentVolumeClaim.
    pub struct MeasuredVolumeClaim: PersistentVolumeClaim =>
        Shared<StorageDemand>, Shared<StorageAllotment>, BetaStorageClass
}

keep! {
    /// What the controller reads of a ResourceClaim.
    pub struct MeasuredDeviceClaim: ResourceClaim => Shared<DeviceDemand>, ExtendedResources
}

keep! {
    /// What the controller reads of a DeviceClass.
    pub struct MeasuredDeviceClass: DeviceClass => ExtendedResource
}

/// The feature gates that decide what is measured.
#[derive(Clone, Copy, Debug)]
struct Gates {
    /// Whether pods can ask for resources as a whole.
    pod_level_resources: bool,
    /// Whether device classes can stand for extended resources.
    extended_resources: bool,
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let gates = Gates {
        pod_level_resources: context.gates.enabled(POD_LEVEL_RESOURCES),
        extended_resources: context.gates.enabled(EXTENDED_RESOURCES),
    };
    let options = context.options::<ResourceQuotaOptions>();
    let quotas = context.informers.informer::<SyncedQuota>()?;
    let primary = context.queue("resourcequota_primary");
    let priority = context.queue("resourcequota_priority");
    let checks = Arc::new(Checks::new());
    let replenish =
        Arc::new(Replenish::new(&quotas, primary.clone(), Arc::clone(&checks), context.clock.clone()));
    let watches = Arc::new(Watches::new(context, Arc::clone(&replenish), gates)?);
    let client = Client::keeping::<SyncedQuota>(context.client_for("resourcequota-controller"));
    let controller = Arc::new(QuotaController {
        quotas: quotas.lister(),
        watches: Arc::clone(&watches),
        status: StatusWriter::new(client),
        awaited: Awaited::default(),
        checks: Arc::clone(&checks),
        clock: context.clock.clone(),
        gates,
    });
    controller::map(&quotas, &controller, &watches, [&primary, &priority]);

    let workers = options.concurrent_syncs.0;
    let syncs = |queue: &WorkQueue<_>| {
        QueueLoop::new(Arc::clone(&controller), queue.clone()).workers(workers).give_up(GiveUp::Never)
    };
    let watching = TaskLoop::new("watches", move |stop| {
        let watches = Arc::clone(&watches);
        async move { watches.run(&stop).await }
    });
    let checking = TaskLoop::new("checks", {
        let primary = primary.clone();
        move |stop| {
            let (checks, primary) = (Arc::clone(&checks), primary.clone());
            async move { checks.run(&primary, &stop).await }
        }
    });
    let resyncing = TaskLoop::new("resync", move |stop| {
        let replenish = Arc::clone(&replenish);
        async move { replenish.resync(options.sync_period, &stop).await }
    });
    let loops =
        [syncs(&primary).into(), syncs(&priority).into(), watching.into(), checking.into(), resyncing.into()];
    Ok(Construction::new(loops, [quotas.any()]))
}
