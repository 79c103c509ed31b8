//! Services and the pods that they select, as both controllers of endpoints need them.

mod changes;
mod target_port;
mod trigger_time;

use std::collections::BTreeSet;

use steersman_api::{LabelSelector, Meta, ObjectKey};
use steersman_controller::controller::SyncError;
use steersman_controller::selecting::{Selecting, Selectors};
use steersman_informer::index::{BY_LABEL, Index, IndexValue, by_label};
use steersman_informer::shared_informer::{Change, Informer};
use steersman_informer::{Lister, Unreadable, View, keep};
use steersman_kinds::pod::{Addresses, DnsName, Offer, Phase, Placement, Pod, Readiness};
use steersman_kinds::service::{Hinting, Routing, Service};
use steersman_kinds::shared::Shared;

use self::changes::services_to_sync;
pub(crate) use self::target_port::{hostname, target_port};
pub use self::trigger_time::{LAST_CHANGE_TRIGGER_TIME, Triggers};

keep! {
    /// The fields of a pod that endpoints depend on.
    pub struct ServedPod: Pod => Placement, Phase, Readiness, Addresses, DnsName, Shared<Offer>
}
keep! {
    /// The fields of a service that its endpoints depend on.
    pub struct RoutedService: Service => Routing, Hinting
}

impl Selecting for RoutedService {
    fn selector(service: &View<Self>) -> Option<LabelSelector> {
        let labels = &service.get::<Routing>().selector;
        let all = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        (!labels.is_empty()).then(|| LabelSelector::from_labels(all))
    }
}

/// Finds the pods of a service and the services of a pod. Cheap to clone.
#[derive(Clone)]
pub struct Membership {
    pods: Lister<ServedPod>,
    by_label: Index<ServedPod>,
    services: Selectors<RoutedService>,
}

impl Membership {
    /// Adds the indexes that the lookups need to the caches.
    pub fn new(services: &Informer<RoutedService>, pods: &Informer<ServedPod>) -> Self {
        Self {
            pods: pods.lister(),
            by_label: pods.add_index(BY_LABEL, by_label),
            services: Selectors::new(services),
        }
    }

    /// The services whose endpoints may depend on a pod's change.
    ///
    /// A pod of the first list concerns no service: each service is synced when its own informer first shows it.
    pub fn services_to_sync(&self, change: &Change<ServedPod>) -> BTreeSet<ObjectKey> {
        if matches!(change, Change::Added { initial: true, .. }) {
            return BTreeSet::new();
        }
        services_to_sync(change, |labels| self.services.selecting(&change.key().namespace, labels))
    }

    /// The pods that a service selects. None if it has no selector.
    ///
    /// # Errors
    /// One of these pods can't be read. Unreadable pods that the service does not select do not matter.
    pub fn selected(&self, service: &View<RoutedService>) -> Result<Vec<View<ServedPod>>, SyncError> {
        let selector = RoutedService::selector(service);
        let Some((selector, (key, value))) =
            selector.as_ref().and_then(|selector| Some((selector, selector.demanded_label()?)))
        else {
            return Ok(Vec::new());
        };
        let entry = IndexValue::Triple(service.meta().key.namespace.clone(), key.into(), value.clone());
        let selects = |pod: &Meta| selector.matches(&pod.labels);
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
    fn a_service_demands_the_label_of_its_selector_with_the_longest_value() {
        // If a StatefulSet has a service for each pod, all of their selectors have the label of the set, and one has the pod's name.
        let name = "statefulset.kubernetes.io/pod-name";
        for (selector, expected) in [
            (json!({"app": "db", name: "db-1"}), Some((name, "db-1"))),
            (json!({"b": "xy", "a": "xy"}), Some(("a", "xy"))),
            (json!({}), None),
        ] {
            let selector = RoutedService::selector(&service(&selector));
            let demanded = selector.as_ref().and_then(LabelSelector::demanded_label);
            assert_eq!(demanded.map(|(key, value)| (key, value.as_str())), expected);
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
