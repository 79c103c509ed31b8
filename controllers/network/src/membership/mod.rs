//! Services and the pods that they select, as both controllers of endpoints need them.

mod changes;
mod target_port;
mod trigger_time;

use std::collections::BTreeSet;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, Meta, ObjectKey};
use steersman_controller::controller::SyncError;
use steersman_informer::index::{Index, IndexValue};
use steersman_informer::shared_informer::{Change, Informer};
use steersman_informer::{Lister, Unreadable, View, keep};
use steersman_kinds::pod::{Addresses, Offer, Phase, Placement, Pod, Readiness};
use steersman_kinds::service::{Hinting, Routing, Service};

use self::changes::services_to_sync;
pub(crate) use self::target_port::{hostname, target_port};
pub use self::trigger_time::{LAST_CHANGE_TRIGGER_TIME, Triggers};

keep! {
    /// The fields of a pod that endpoints depend on.
    pub struct ServedPod: Pod => Placement, Phase, Readiness, Addresses, Offer
}
keep! {
    /// The fields of a service that its endpoints depend on.
    pub struct RoutedService: Service => Routing, Hinting
}

/// The index of services by namespace and by one label of their selector.
const BY_SELECTOR: &str = "selectorLabel";
/// The index of pods by namespace and each of their labels.
const BY_LABEL: &str = "label";

/// Finds the pods of a service and the services of a pod. Cheap to clone.
#[derive(Clone)]
pub struct Membership {
    pods: Lister<ServedPod>,
    by_label: Index<ServedPod>,
    services: Lister<RoutedService>,
    by_selector: Index<RoutedService>,
}

impl Membership {
    /// Adds the indexes that the lookups need to the caches.
    pub fn new(services: &Informer<RoutedService>, pods: &Informer<ServedPod>) -> Self {
        Self {
            pods: pods.lister(),
            by_label: pods.add_index(BY_LABEL, by_label),
            services: services.lister(),
            by_selector: services.add_index(BY_SELECTOR, by_selector),
        }
    }

    /// The services whose endpoints may depend on a pod's change.
    ///
    /// A pod of the first list concerns no service: each service is synced when its own informer first shows it.
    pub fn services_to_sync(&self, change: &Change<ServedPod>) -> BTreeSet<ObjectKey> {
        if matches!(change, Change::Added { initial: true, .. }) {
            return BTreeSet::new();
        }
        services_to_sync(change, |labels| self.selecting(&change.key().namespace, labels))
    }

    /// The services of a namespace that select pods with these labels.
    fn selecting(&self, namespace: &ArcStr, labels: &Labels) -> BTreeSet<ObjectKey> {
        let mut found = BTreeSet::new();
        for entry in labels.iter().map(|label| entry(namespace, label)) {
            match self.services.by_index(&self.by_selector, &entry) {
                Ok(services) => {
                    let selecting =
                        services.iter().filter(|service| service.get::<Routing>().selects(labels));
                    found.extend(selecting.map(|service| service.meta().key.clone()));
                }
                // A service can't be read. So that the others are still synced, take all services of the namespace.
                Err(_) => self.services.for_each_meta(|meta| {
                    if meta.key.namespace == *namespace {
                        found.insert(meta.key.clone());
                    }
                }),
            }
        }
        found
    }

    /// The pods that a service selects. None if it has no selector.
    ///
    /// # Errors
    /// One of these pods can't be read. Unreadable pods that the service does not select do not matter.
    pub fn selected(&self, service: &View<RoutedService>) -> Result<Vec<View<ServedPod>>, SyncError> {
        let routing = service.get::<Routing>();
        let Some(label) = telling_label(&routing.selector) else { return Ok(Vec::new()) };
        let entry = entry(&service.meta().key.namespace, label);
        let selects = |pod: &Meta| routing.selects(&pod.labels);
        self.pods.by_index_where(&self.by_label, &entry, selects).map_err(unreadable)
    }
}

/// Whether the controllers write endpoints of a service: not if its type is `ExternalName`, and not if it has no selector.
pub fn is_served(service: &View<RoutedService>) -> bool {
    let routing = service.get::<Routing>();
    routing.kind != "ExternalName" && !routing.selector.is_empty()
}

/// The error of a sync that needs an object which can't be read.
pub(crate) fn unreadable(error: Unreadable) -> SyncError {
    SyncError::Unreadable(error.to_string())
}

/// The label of a selector that tells the most.
///
/// A pod has all labels of the selectors that match it, so one label is enough to find the service, or the pod. It should be
/// a label that few of them share. This function takes the label with the longest value: if a StatefulSet has a service for
/// each pod, all of their selectors have the label of the set, but only one has the pod's name.
fn telling_label(selector: &Labels) -> Option<(&ArcStr, &ArcStr)> {
    selector.iter().max_by(|a, b| a.1.len().cmp(&b.1.len()).then(b.0.cmp(a.0)))
}

fn by_selector(service: &View<RoutedService>) -> Vec<IndexValue> {
    let label = telling_label(&service.get::<Routing>().selector);
    label.map(|label| entry(&service.meta().key.namespace, label)).into_iter().collect()
}

fn by_label(pod: &View<ServedPod>) -> Vec<IndexValue> {
    let meta = pod.meta();
    meta.labels.iter().map(|label| entry(&meta.key.namespace, label)).collect()
}

fn entry(namespace: &ArcStr, (key, value): (&ArcStr, &ArcStr)) -> IndexValue {
    IndexValue::Triple(namespace.clone(), key.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(selector: &Value) -> View<RoutedService> {
        View::from_json(&json!({
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {"selector": selector},
        }))
    }

    #[test]
    fn a_service_and_its_pods_meet_under_the_longest_value_in_its_selector() {
        let name = "statefulset.kubernetes.io/pod-name";
        for (selector, expected) in [
            (json!({"app": "db", name: "db-1"}), Some((name, "db-1"))),
            (json!({"b": "xy", "a": "xy"}), Some(("a", "xy"))),
            (json!({}), None),
        ] {
            let expected = expected.map(|(k, v)| IndexValue::Triple("ns".into(), k.into(), v.into()));
            assert_eq!(by_selector(&service(&selector)), Vec::from_iter(expected), "{selector}");
        }
        let pod = steersman_testing::pod("db-1").namespace("ns").label("app", "db").label(name, "db-1");
        let found = by_label(&View::from_json(&pod.build()));
        for selector in [json!({"app": "db"}), json!({name: "db-1"}), json!({"app": "db", name: "db-1"})] {
            assert!(by_selector(&service(&selector)).iter().all(|value| found.contains(value)), "{selector}");
        }
    }

    #[test]
    fn services_of_the_type_external_name_and_services_without_selector_are_not_served() {
        for (spec, served) in [
            (json!({"type": "ClusterIP", "selector": {"app": "web"}}), true),
            (json!({"type": "ExternalName", "selector": {"app": "web"}}), false),
            (json!({"type": "ClusterIP", "selector": {}}), false),
            (json!({"type": "ClusterIP"}), false),
        ] {
            let service = View::from_json(&json!({"metadata": {"name": "web"}, "spec": spec}));
            assert_eq!(is_served(&service), served, "{spec}");
        }
    }
}
