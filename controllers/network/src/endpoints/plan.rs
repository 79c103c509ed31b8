//! What the Endpoints of a service should be, and what must be done for it.

use std::sync::Arc;

use steersman_api::{ArcStr, Time, Uid};
use steersman_informer::{Object, View};

use super::capacity::{Fit, truncate};
use super::manifest::Manifest;
use super::offers::offer;
use super::repack::repack;
use super::trigger_time::Triggers;
use super::{RoutedService, ServedPod};
use steersman_controller::plan::Plan;
use steersman_kinds::endpoints::{Content, Endpoints, Subset};
use steersman_kinds::service::Routing;

/// When that happened which the last write follows.
pub const LAST_CHANGE_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// There are more addresses than are listed.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Its only value today.
const TRUNCATED: &str = "truncated";
/// Who writes an Endpoints object. Upstream's value, whoever writes: the Go controller would rewrite all others.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Upstream's name for this controller.
pub const CONTROLLER_NAME: &str = "endpoint-controller";
/// The service has no address of its own.
pub const IS_HEADLESS: &str = "service.kubernetes.io/headless";

/// All that is looked at for one service.
#[derive(Clone, Debug)]
pub struct Observed {
    /// `None` if there is none (any more).
    pub service: Option<View<RoutedService>>,
    /// Those that the service selects, in no order.
    pub pods: Vec<View<ServedPod>>,
    /// The Endpoints object of the service's name, if there is one.
    pub current: Option<Arc<Endpoints>>,
    /// What [`LAST_CHANGE_TRIGGER_TIME`] should say, if something is written.
    pub trigger: Option<Time>,
    /// The times of changes that `trigger` was chosen from. The next sync compares its own with them.
    pub triggers: Option<Triggers>,
    /// Whether this sync has done its write.
    pub written: bool,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make the object.
    Create(Box<Manifest>),
    /// Replace it.
    Update(Box<Manifest>),
    /// Delete it.
    Delete {
        /// This one, and no later one of its name.
        uid: Uid,
    },
}

/// Decides. One write at the most.
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
        // Somebody else says where such a service leads.
        (Some(service), _) if !is_served(service) => None,
        (Some(service), current) => write(observed, service, current.as_deref()),
    };
    step.map_or_else(Plan::done, Plan::step)
}

/// Whether this controller says where a service leads: not for `ExternalName`, and not without a selector.
pub fn is_served(service: &View<RoutedService>) -> bool {
    let routing = service.get::<Routing>();
    routing.kind != "ExternalName" && !routing.selector.is_empty()
}

/// The write that makes `current` say what it should; `None` if it does.
fn write(observed: &Observed, service: &View<RoutedService>, current: Option<&Endpoints>) -> Option<Step> {
    let mut subsets = repack(observed.pods.iter().filter_map(|pod| offer(service, pod)));
    let fit = truncate(&mut subsets);
    if current.is_some_and(|current| says(current, service, &subsets, fit)) {
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

/// Whether an object says already what it should. As for upstream, the order of what it says, its headless label and the
/// trigger's time are no reason to write. (Upstream writes a truncated object on every sync, which the API server then
/// finds to be the same; this is compared after truncation instead.)
fn says(current: &Endpoints, service: &View<RoutedService>, subsets: &[Subset], fit: Fit) -> bool {
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
