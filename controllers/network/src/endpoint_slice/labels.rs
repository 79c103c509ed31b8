//! The labels of slices.

use std::collections::BTreeMap;

use steersman_api::ArcStr;
use steersman_informer::{Object, View};
use steersman_kinds::endpoint_slice::EndpointSlice;
use steersman_kinds::service::Routing;

use super::MANAGER;
use crate::membership::RoutedService;
use crate::slices::{MANAGED_BY, SERVICE_NAME};

/// The label of slices whose service has no address of its own.
const IS_HEADLESS: &str = "service.kubernetes.io/headless";

/// The labels that the slices of a service have: the service's, and the controller's own instead of any that the service has
/// under these keys.
pub(super) fn labels(service: &View<RoutedService>) -> BTreeMap<ArcStr, ArcStr> {
    let meta = service.meta();
    let inherited = meta.labels.iter().filter(|(key, _)| !is_reserved(key));
    let mut labels: BTreeMap<_, _> = inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !service.get::<Routing>().has_cluster_ip() {
        labels.insert(IS_HEADLESS.into(), ArcStr::new());
    }
    labels.insert(SERVICE_NAME.into(), meta.key.name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

fn is_reserved(key: &str) -> bool {
    [SERVICE_NAME, MANAGED_BY, IS_HEADLESS].contains(&key)
}

/// Whether the labels of a slice differ from those of its service. The controller's own labels do not matter.
pub(super) fn has_stale_labels(slice: &EndpointSlice, service: &View<RoutedService>) -> bool {
    let inherited = |(key, _): &(&ArcStr, &ArcStr)| !is_reserved(key);
    let (is, of_service) = (&slice.meta().labels, &service.meta().labels);
    !is.iter().filter(inherited).eq(of_service.iter().filter(inherited))
}
