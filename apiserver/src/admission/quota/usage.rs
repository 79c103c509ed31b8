//! What one object uses of quotas.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_api::Quantity;

use super::resized::spec_of;
use crate::admission::amounts::{self, Amounts};
use crate::admission::classes::storage_of;
use crate::object::{at, int_at, list_at, text_at};

/// Objects whose number had a name before all had one (`count/`).
const ALIASES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
const OF_PODS: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// What every container must say where a quota bounds it. Upstream regrets it.
const TO_BE_SAID: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const OF_SERVICES: [&str; 3] = ["services", "services.loadbalancers", "services.nodeports"];
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Stands between the name of a class of storage and what of it is bounded.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Objects that no quota counts.
const UNCOUNTED: [&str; 2] = ["events", "events.events.k8s.io"];

/// Objects of one kind, and how they are measured.
pub(in crate::admission) struct Measured<'a> {
    /// Such as `pods`, `jobs.batch`.
    pub(in crate::admission) table: &'a str,
    pub(in crate::admission) now: Timestamp,
}

/// A write of an object.
pub(in crate::admission) struct Write<'a> {
    pub(super) measured: Measured<'a>,
    subresource: &'a str,
    pub(super) new: &'a Value,
    /// What is there, of an update.
    pub(super) old: Option<&'a Value>,
}

impl<'a> Write<'a> {
    /// Of a new object.
    pub(in crate::admission) fn create(table: &'a str, new: &'a Value, now: Timestamp) -> Self {
        Self { measured: Measured { table, now }, subresource: "", new, old: None }
    }

    /// Of another state of an object, through a subresource or none.
    pub(in crate::admission) fn update(
        table: &'a str,
        subresource: &'a str,
        (new, old): (&'a Value, &'a Value),
        now: Timestamp,
    ) -> Self {
        Self { measured: Measured { table, now }, subresource, new, old: Some(old) }
    }

    /// The object as it is to be.
    pub(in crate::admission) fn object(&self) -> &Value {
        self.new
    }

    /// Whether it may use more than before.
    pub(super) fn is_counted(&self) -> bool {
        match (self.measured.table, self.subresource, self.old) {
            (table, ..) if UNCOUNTED.contains(&table) => false,
            ("pods", "resize", Some(_)) => true,
            ("pods", "", Some(old)) => has_deadline(old) != has_deadline(self.new),
            ("services" | "persistentvolumeclaims", "", _) | (_, "", None) => true,
            _ => false,
        }
    }
}

/// Whether the pod ends by itself.
pub(super) fn has_deadline(pod: &Value) -> bool {
    int_at(pod, "spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

/// `requests.nvidia.com/gpu`: what nodes have besides what all nodes have.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    name.starts_with("requests.")
        && (!native || name.starts_with("requests.deviceclass.resource.kubernetes.io/"))
}

impl<'a> Measured<'a> {
    /// Whether its objects use some of that.
    pub(super) fn is_of(&self, name: &str) -> bool {
        if name.strip_prefix("count/") == Some(self.table) && !UNCOUNTED.contains(&self.table) {
            return true;
        }
        match self.table {
            "pods" => {
                OF_PODS.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || is_extended(name)
            }
            "services" => OF_SERVICES.contains(&name),
            "persistentvolumeclaims" => {
                let of_class = name.split_once(OF_CLASS).map(|(_, of)| of);
                OF_CLAIMS.contains(&of_class.unwrap_or(name))
            }
            table => ALIASES.contains(&table) && name == table,
        }
    }

    /// What it uses.
    pub(super) fn usage(&self, object: &Value) -> Amounts {
        let one = Quantity::new(1);
        let mut usage = Amounts::from([(format!("count/{}", self.table), one)]);
        match self.table {
            "pods" if self.is_over(object) => {}
            "pods" => usage.extend(of_pod(object)),
            "services" => usage.extend(of_service(object)),
            "persistentvolumeclaims" => usage.extend(of_claim(object)),
            table if ALIASES.contains(&table) => {
                usage.insert(table.to_owned(), one);
            }
            _ => {}
        }
        usage
    }

    /// Whether a pod uses nothing any more: it has ended, or should have.
    fn is_over(&self, pod: &Value) -> bool {
        if matches!(text_at(pod, "status.phase").as_str(), "Failed" | "Succeeded") {
            return true;
        }
        let due = text_at(pod, "metadata.deletionTimestamp").parse::<Timestamp>();
        let grace = int_at(pod, "metadata.deletionGracePeriodSeconds");
        let (Ok(due), Some(grace)) = (due, grace) else { return false };
        due.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|late| self.now > late)
    }

    /// What of `bounded` some containers of the object do not say, and which ones.
    pub(super) fn missing(&self, bounded: &[&str], object: &Value) -> Option<String> {
        let spec = &object["spec"];
        let of_whole = ["requests", "limits"].map(|kind| at(spec, "resources").and_then(|all| all.get(kind)));
        if self.table != "pods" || of_whole.into_iter().any(|said| !amounts::read(said).is_empty()) {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for container in list_at(spec, "containers").iter().chain(list_at(spec, "initContainers")) {
            let of = |kind: &str| amounts::read(at(container, "resources").and_then(|all| all.get(kind)));
            let said = compute(&of("requests"), &of("limits"));
            for name in bounded.iter().filter(|name| TO_BE_SAID.contains(name) && !said.contains_key(**name))
            {
                missing.entry(name).or_default().insert(text_at(container, "name"));
            }
        }
        let told = missing.into_iter().map(|(name, containers)| {
            let containers: Vec<String> = containers.into_iter().collect();
            format!("{name} for: {}", containers.join(","))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn of_pod(pod: &Value) -> Amounts {
    let spec = spec_of(pod);
    let (mut requests, mut limits) = (amounts::of_pod(&spec, "requests"), amounts::of_pod(&spec, "limits"));
    let mut overhead = amounts::read(at(&spec, "overhead"));
    amounts::add(&mut requests, &overhead);
    overhead.retain(|name, _| limits.contains_key(name));
    amounts::add(&mut limits, &overhead);
    compute(&requests, &limits)
}

/// Under the names that quotas have for what is requested, and limited.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::new(1))]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            usage.insert(name.clone(), *amount);
            usage.insert(format!("requests.{name}"), *amount);
        } else if is_extended(&format!("requests.{name}")) {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

fn of_service(service: &Value) -> Amounts {
    let ports = list_at(service, "spec.ports");
    let named = ports.iter().filter(|port| int_at(port, "nodePort").is_some_and(|port| port != 0));
    let unallocated = at(service, "spec.allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    let (balancers, node_ports) = match text_at(service, "spec.type").as_str() {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if unallocated => (1, named.count()),
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    let [one, balancers, node_ports] = [1, balancers, node_ports].map(Quantity::new);
    [("services", one), ("services.loadbalancers", balancers), ("services.nodeports", node_ports)]
        .map(|(name, amount)| (name.to_owned(), amount))
        .into()
}

fn of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([("persistentvolumeclaims".to_owned(), Quantity::new(1))]);
    // Whole bytes: more than is asked for, if need be.
    let size = |path: &str| {
        let exact = *amounts::read(at(claim, path)).get("storage")?;
        let whole = Quantity::new(exact.value());
        Some(if exact < whole { whole } else { exact })
    };
    if let Some(asked) = size("spec.resources.requests") {
        let most = size("status.allocatedResources").map_or(asked, |allocated| allocated.max(asked));
        usage.insert("requests.storage".to_owned(), most);
    }
    let class = storage_of(claim);
    if !class.is_empty() {
        let of_class: Vec<_> =
            usage.iter().map(|(name, amount)| (format!("{class}{OF_CLASS}{name}"), *amount)).collect();
        usage.extend(of_class);
    }
    usage
}
