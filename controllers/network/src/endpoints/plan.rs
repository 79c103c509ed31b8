//! Decides what the Endpoints of a service should contain, and which write is needed.

use std::sync::Arc;

use steersman_api::{ArcStr, Time, Uid};
use steersman_informer::{Object, View};

use super::capacity::{Fit, truncate};
use super::manifest::Manifest;
use super::offers::offer;
use super::repack::repack;
use crate::membership::{LAST_CHANGE_TRIGGER_TIME, RoutedService, ServedPod, Triggers, is_served};
use steersman_controller::plan::Plan;
use steersman_kinds::endpoints::{Content, Endpoints, Subset};
use steersman_kinds::service::Routing;

/// The annotation of Endpoints from which addresses were left out.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The only value of [`OVER_CAPACITY`].
const TRUNCATED: &str = "truncated";
/// The label with the name of the controller that writes the object. Its value is upstream's [`CONTROLLER_NAME`]: the Go
/// controller would rewrite objects with another value.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Upstream's name for this controller.
pub const CONTROLLER_NAME: &str = "endpoint-controller";
/// The label of Endpoints whose service has no address of its own.
pub const IS_HEADLESS: &str = "service.kubernetes.io/headless";

/// What a sync of one service decides on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The service; `None` if it does not exist.
    pub service: Option<View<RoutedService>>,
    /// The pods that the service selects, in no particular order.
    pub pods: Vec<View<ServedPod>>,
    /// The Endpoints object of the service's name, if there is one.
    pub current: Option<Arc<Endpoints>>,
    /// The time that a write must put into [`LAST_CHANGE_TRIGGER_TIME`]; `None` removes the annotation.
    pub trigger: Option<Time>,
    /// The times of changes that `trigger` was chosen from. The next sync compares its own with them.
    pub triggers: Option<Triggers>,
    /// Whether this sync has written.
    pub written: bool,
}

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create the object.
    Create(Box<Manifest>),
    /// Update the object.
    Update(Box<Manifest>),
    /// Delete the object.
    Delete {
        /// The object's uid, the precondition of the deletion.
        uid: Uid,
    },
}

/// Plans at most one write.
pub fn plan(observed: &Observed) -> Plan<Step> {
    if observed.written {
        return Plan::done();
    }
    let step = match (&observed.service, &observed.current) {
        (None, None) => None,
        (None, Some(current)) => {
            let meta = current.meta();
            (!meta.is_deleting()).then(|| Step::Delete { uid: meta.uid.clone() })
        }
        // Another party writes the Endpoints of such a service.
        (Some(service), _) if !is_served(service) => None,
        (Some(service), current) => write(observed, service, current.as_deref()),
    };
    step.map_or_else(Plan::done, Plan::step)
}

/// The write that brings `current` up to date; `None` if it is.
fn write(observed: &Observed, service: &View<RoutedService>, current: Option<&Endpoints>) -> Option<Step> {
    let mut subsets = repack(observed.pods.iter().filter_map(|pod| offer(service, pod)));
    let fit = truncate(&mut subsets);
    if current.is_some_and(|current| is_up_to_date(current, service, &subsets, fit)) {
        return None;
    }

    let mut manifest = current.map_or_else(|| Manifest::new(&service.meta().key), Manifest::replacing);
    manifest.subsets = subsets;
    let labels = service.meta().labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    manifest.metadata.labels = labels.collect();
    if service.get::<Routing>().has_cluster_ip() {
        manifest.metadata.labels.remove(IS_HEADLESS);
    } else {
        manifest.metadata.labels.insert(IS_HEADLESS.into(), ArcStr::new());
    }
    manifest.metadata.labels.insert(MANAGED_BY.into(), CONTROLLER_NAME.into());

    let over_capacity = (fit == Fit::Truncated).then(|| TRUNCATED.into());
    let trigger = observed.trigger.map(|at| at.to_string().into());
    for (key, value) in [(OVER_CAPACITY, over_capacity), (LAST_CHANGE_TRIGGER_TIME, trigger)] {
        match value {
            Some(value) => _ = manifest.metadata.annotations.insert(key.into(), value),
            None => _ = manifest.metadata.annotations.remove(key),
        }
    }
    let manifest = Box::new(manifest);
    Some(if current.is_some() { Step::Update(manifest) } else { Step::Create(manifest) })
}

/// Whether an object has the right content. As for upstream, the order of subsets, the headless label and the trigger time
/// are no reason to write. (Upstream writes a truncated object on every sync, and the API server finds that nothing
/// changed. This function compares after truncation instead.)
fn is_up_to_date(current: &Endpoints, service: &View<RoutedService>, subsets: &[Subset], fit: Fit) -> bool {
    let over_capacity = current.annotations().get(OVER_CAPACITY).map(ArcStr::as_str);
    current.content() == Content::of_subsets(subsets)
        && over_capacity == (fit == Fit::Truncated).then_some(TRUNCATED)
        && labels_are_right(current, service)
}

fn labels_are_right(current: &Endpoints, service: &View<RoutedService>) -> bool {
    let (is, of_service) = (&current.meta().labels, &service.meta().labels);
    let inherited = |(key, _): &(&ArcStr, &ArcStr)| *key != IS_HEADLESS && *key != MANAGED_BY;
    is.get(MANAGED_BY).is_some_and(|by| by == CONTROLLER_NAME)
        && is.iter().filter(inherited).eq(of_service.iter().filter(inherited))
}
