//! `status.capacity` and `status.allocatable`. Pure.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use steersman_api::Quantity;

use super::settings::Settings;
use crate::configuration::{Signal, Threshold};
use crate::machine::Facts;
use crate::resources::{HUGE_PAGES_PREFIX, MEMORY, ResourceList, amount};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// What the machine has.
pub fn capacity(facts: &Facts, settings: &Settings) -> ResourceList {
    let pods = match settings.pods_per_core {
        0 => settings.max_pods,
        per_core => settings.max_pods.min(facts.cpus.saturating_mul(per_core)),
    };
    let mut amounts = ResourceList::from([
        ("cpu".to_owned(), Quantity::new(i64::from(facts.cpus))),
        (MEMORY.to_owned(), Quantity::bytes(facts.memory)),
        ("pods".to_owned(), Quantity::new(i64::from(pods))),
    ]);
    if settings.local_storage_capacity_isolation {
        amounts.insert(EPHEMERAL_STORAGE.to_owned(), Quantity::bytes(facts.ephemeral_storage));
    }
    for pages in &facts.huge_pages {
        let name = format!("{HUGE_PAGES_PREFIX}{}", Quantity::bytes(pages.size));
        amounts.insert(name, Quantity::bytes(pages.size.saturating_mul(pages.count)));
    }
    amounts
}

/// What of it is kept from pods: for the system, for the node agent, and what must be left before pods are evicted.
pub fn reservation(capacity: &ResourceList, settings: &Settings) -> ResourceList {
    let hard = || settings.eviction.iter().rev().filter(|one: &&Threshold| one.grace_period.is_none());
    let eviction = |name: &str| {
        let signal = match name {
            MEMORY => Signal::MemoryAvailable,
            EPHEMERAL_STORAGE => Signal::NodeFsAvailable,
            _ => return Quantity::default(),
        };
        let last = hard().find(|one| one.signal == signal);
        last.map_or_else(Quantity::default, |threshold| {
            Quantity::bytes(threshold.value.of(amount(capacity, name).value()))
        })
    };
    let reserved = |name: &String| {
        amount(&settings.system_reserved, name) + amount(&settings.kube_reserved, name) + eviction(name)
    };
    capacity.keys().map(|name| (name.clone(), reserved(name))).collect()
}

/// Sets both. What others tell of the machine (extended resources) stays in its capacity.
pub fn set(node: &mut Node, facts: &Facts, settings: &Settings) {
    let status = node.status.get_or_insert_default();
    let own = capacity(facts, settings);
    let reserved = reservation(&own, settings);
    let all = status.capacity.get_or_insert_default();
    all.extend(own.into_iter().map(|(name, amount)| (name, ApiQuantity(amount.to_string()))));
    let parsed: ResourceList =
        all.iter().filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?))).collect();
    let mut allocatable: ResourceList = parsed
        .iter()
        .map(|(name, there)| (name.clone(), at_least_nothing(*there - amount(&reserved, name))))
        .collect();
    // Memory that is set aside as huge pages is not there as such.
    let huge = parsed.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX));
    let huge = huge.fold(Quantity::default(), |sum, (_, amount)| sum + *amount);
    if let Some(memory) = allocatable.get_mut(MEMORY) {
        *memory = at_least_nothing(*memory - huge);
    }
    let told = status.allocatable.get_or_insert_default();
    told.retain(|name, _| parsed.contains_key(name) || !is_extended_resource(name));
    told.extend(allocatable.into_iter().map(|(name, amount)| (name, ApiQuantity(amount.to_string()))));
}

fn at_least_nothing(amount: Quantity) -> Quantity {
    amount.max(Quantity::default())
}

/// Whether a resource is one that Kubernetes does not know by itself: its name has a domain other than its own.
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// Whether it is one of huge pages.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}
