//! The ServiceCIDR controller: keeps the ranges of services' addresses from being deleted while services have addresses of
//! theirs, and tells the API server which ranges it may give addresses from.
//!
//! ```text
//! a ServiceCIDR changes ─> it, and those whose ranges overlap ─┐
//! an IPAddress appears or goes ─> the ServiceCIDRs that give it┴─> queue "ipaddresses" ─> sync
//!
//! sync ─┬─ it stays: the finalizer, then Ready=True
//!       └─ it is being deleted ─┬─ an address would be left without a range: Ready=False
//!                               └─ else, after a grace period: the finalizer goes
//! ```
//!
//! As upstream's, except that of several ServiceCIDRs which cover each other's addresses and are deleted together, the last
//! one stays. Upstream may let all of them go at the same time. So there is one worker here instead of five; clusters have few
//! ServiceCIDRs.

mod controller;
mod observed;
mod plan;
mod ranges;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use steersman_api::{Meta, ObjectKey};
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::QueueLoop;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Lister, View, keep};
use steersman_kinds::ip_address::{ALLOCATOR, IPAddress, MANAGED_BY};
use steersman_kinds::service_cidr::{ServiceCIDR, ServiceCidrSpec, ServiceCidrStatus};

use self::controller::ServiceCidrController;
use self::ranges::{gives, overlap};

/// The registry's entry of the ServiceCIDR controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("service-cidr-controller", &[], construct).rules(&[
    Rule::new(&["networking.k8s.io"], &["servicecidrs"], &["get", "list", "watch", "patch"]),
    Rule::new(&["networking.k8s.io"], &["servicecidrs/status"], &["patch"]),
    Rule::new(&["networking.k8s.io"], &["ipaddresses"], &["list", "watch"]),
]);

/// Upstream's name for this controller as a manager of fields and in the source of events.
const COMPONENT: &str = "service-cidr-controller";

keep! {
    /// What the controller reads of a ServiceCIDR.
    pub struct SyncedServiceCidr: ServiceCIDR => ServiceCidrSpec, ServiceCidrStatus
}

keep! {
    /// What the controller reads of an IPAddress: its name, which is the address, and its labels.
    pub struct NamedAddress: IPAddress =>
}

/// Makes the controller.
///
/// # Errors
/// The cache of ServiceCIDRs runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let cidrs = context.informers.informer::<SyncedServiceCidr>()?;
    let addresses = context.informers.informer::<NamedAddress>()?;
    let queue: WorkQueue<ObjectKey> = context.queue("ipaddresses");
    let controller = Arc::new(ServiceCidrController::new(context, &cidrs, addresses.lister()));
    cidrs.map({
        let (controller, cache, queue) = (Arc::clone(&controller), cidrs.lister(), queue.clone());
        move |change| {
            controller.changed(change);
            queue.add(change.key().clone());
            if let Some(changed) = change.new().filter(|_| has_other_ranges(change)) {
                each(&cache, |other| overlap(ranges(other), ranges(changed)), &queue);
            }
        }
    });
    addresses.map({
        let (cache, queue) = (cidrs.lister(), queue.clone());
        move |change| {
            let address = match change {
                Change::Added { object, .. } | Change::Deleted { last: object } => {
                    service_address(object.meta())
                }
                Change::Updated { .. } | Change::Resync { .. } => None,
            };
            if let Some(address) = address {
                each(&cache, |cidr| gives(ranges(cidr), address), &queue);
            }
        }
    });
    Ok(Construction::new([QueueLoop::new(controller, queue).into()], [cidrs.any(), addresses.any()]))
}

/// Whether the ranges of a ServiceCIDR are new.
fn has_other_ranges(change: &Change<SyncedServiceCidr>) -> bool {
    match change {
        Change::Added { .. } => true,
        Change::Updated { old, new } => ranges(old) != ranges(new),
        Change::Deleted { .. } | Change::Resync { .. } => false,
    }
}

/// Queues each ServiceCIDR that is `concerned`. Skips those that can't be read: their syncs would fail.
fn each(
    cache: &Lister<SyncedServiceCidr>,
    concerned: impl Fn(&View<SyncedServiceCidr>) -> bool,
    queue: &WorkQueue<ObjectKey>,
) {
    let (all, _) = cache.list_readable();
    all.iter().filter(|cidr| concerned(cidr)).for_each(|cidr| queue.add(cidr.meta().key.clone()));
}

fn ranges(cidr: &View<SyncedServiceCidr>) -> &[IpNet] {
    &cidr.get::<ServiceCidrSpec>().cidrs.0
}

/// The address of an IPAddress, if the API server gave it to a service.
fn service_address(address: &Meta) -> Option<IpAddr> {
    let is_of_service = address.labels.get(MANAGED_BY).is_some_and(|manager| manager == ALLOCATOR);
    is_of_service.then(|| address.key.name.parse().ok()).flatten()
}
