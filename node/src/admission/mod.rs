//! Whether a pod can run on this node, beside those that do. Pure.
//!
//! [`admit`] asks, in upstream's order: pressure of the node, sysctls, what the node must be able to do for the pod, room
//! and place (resources, node affinity, node name, host ports, taints), AppArmor, declared features. Reasons and messages are
//! upstream's. A critical pod that lacks nothing but room is admitted once others made room for it: it says which.

mod app_armor;
mod features;
mod node_affinity;
mod ports;
pub mod predicates;
pub mod preemption;
mod pressure;
mod resources;
pub mod sysctl;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::node_status::pressure::Pressure;
use crate::pod_config::is_static_pod;
use preemption::{Preemption, Shortage};
use sysctl::Allowlist;

/// What the node allows, whatever the pod.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Which sysctls pods may set.
    pub sysctls: Allowlist,
    /// Whether the kernel can enforce AppArmor profiles; see [`app_armor_enabled`].
    pub app_armor: bool,
}

/// What the node is like at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The Node, as the API server told it or as it would be registered; `None` if neither is known.
    pub node: Option<&'a Node>,
    /// What the machine runs short of.
    pub pressures: &'a BTreeSet<Pressure>,
    /// All pods that were admitted and have not ended. The pod in question may be among them.
    pub others: &'a [Arc<Pod>],
}

/// How a pod can run here.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// At once.
    Now,
    /// Once others are gone.
    After(Preemption),
}

/// Why a pod cannot run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// One word, such as `OutOfcpu`; upstream's.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Whether nothing but the node's labels is against the pod: a newer Node may have others.
    pub by_labels: bool,
}

/// Why a pod has no place on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Unfit {
    /// A rule that fails, by the name of the scheduler's plugin for it, and what is wrong.
    Predicate(&'static str, &'static str),
    /// Too little of a resource: what is asked for, what is taken, what there is. Thousandths for `cpu`.
    Insufficient { resource: String, requested: i64, used: i64, capacity: i64 },
}

/// Whether the pod can run here, and whether others must go first.
///
/// # Errors
/// Why not: the pod fails with it.
pub fn admit(pod: &Pod, policy: &Policy, situation: Situation<'_>) -> Result<Admission, Rejection> {
    pressure::check(pod, situation.pressures)?;
    policy.sysctls.check(pod)?;
    let node =
        situation.node.ok_or_else(|| Rejection::new("InvalidNodeInfo", "Kubelet cannot get node info."))?;
    features::check_operating_system(pod)?;
    features::check_supplemental_groups(pod, node)?;
    let admission = check_place(pod, node, situation.others)?;
    app_armor::check(pod, policy.app_armor)?;
    features::check_declared(pod)?;
    Ok(admission)
}

/// Whether there is room for the pod, or can be made, and whether it wants to be here.
fn check_place(pod: &Pod, node: &Node, others: &[Arc<Pod>]) -> Result<Admission, Rejection> {
    let others: Vec<_> = others.iter().filter(|other| other.metadata.uid != pod.metadata.uid).collect();
    let specs: Vec<_> = others.iter().map(|other| &***other).collect();
    let mut unfit = resources::unfit(pod, node, &specs);
    let resources = unfit.len();
    unfit.extend(node_affinity::unfit(pod, node));
    unfit.extend(is_elsewhere(pod, node));
    unfit.extend(ports::unfit(pod, &specs));
    // Static pods were put here by the node's owner.
    if !is_static_pod(pod) {
        unfit.extend(taints::unfit(pod, node));
    }
    let critical = is_critical(pod);
    if critical && !unfit.is_empty() && unfit.len() == resources {
        return make_room(pod, &others, &unfit);
    }
    // Of a critical pod, what making room would not help comes first.
    let first = if critical { resources } else { 0 };
    let by_labels = unfit.iter().all(Unfit::is_by_labels);
    let refuse = |unfit| Err(Rejection { by_labels, ..Rejection::from(unfit) });
    unfit.into_iter().nth(first).map_or(Ok(Admission::Now), refuse)
}

/// Which pods go, so that the others' place is enough.
fn make_room(pod: &Pod, others: &[&Arc<Pod>], unfit: &[Unfit]) -> Result<Admission, Rejection> {
    let shortages: Vec<Shortage> = unfit.iter().filter_map(Unfit::shortage).collect();
    let signal = shortages.first().map(|shortage| shortage.resource.clone()).unwrap_or_default();
    let victims = preemption::choose(pod, others, &shortages).map_err(|error| {
        let message = format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods \
             to preempt: {error}"
        );
        Rejection::new("UnexpectedAdmissionError", message)
    })?;
    Ok(Admission::After(Preemption { victims, signal }))
}

fn is_elsewhere(pod: &Pod, node: &Node) -> Option<Unfit> {
    let wanted = pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())?;
    let here = node.metadata.name.as_deref() == Some(wanted);
    (!here).then_some(Unfit::Predicate("NodeName", "node(s) didn't match the requested node name"))
}

impl Unfit {
    fn is_by_labels(&self) -> bool {
        matches!(self, Self::Predicate(node_affinity::NAME, _))
    }

    /// How much of a resource is missing, if one is.
    fn shortage(&self) -> Option<Shortage> {
        let Self::Insufficient { resource, requested, used, capacity } = self else { return None };
        let amount = requested.saturating_sub(capacity.saturating_sub(*used));
        Some(Shortage { resource: resource.clone(), amount })
    }
}

impl From<Unfit> for Rejection {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Predicate(name, what) => Rejection::new(name, format!("Predicate {name} failed: {what}")),
            Unfit::Insufficient { resource, requested, used, capacity } => Rejection::new(
                format!("OutOf{resource}"),
                format!(
                    "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: \
                     {capacity}"
                ),
            ),
        }
    }
}

impl Rejection {
    /// For something else than the node's labels.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), by_labels: false }
    }
}

/// Whether the system depends on the pod: a static one, a mirror of one, or one of the system's priorities.
pub fn is_critical(pod: &Pod) -> bool {
    /// The lowest of the system's priorities.
    const SYSTEM_CRITICAL: i32 = 2_000_000_000;
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static_pod(pod)
        || crate::pod_config::is_mirror_pod(pod)
        || priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL)
}

/// Whether the kernel of this machine can enforce AppArmor profiles. Reads two files.
pub fn app_armor_enabled() -> bool {
    let enabled = std::fs::read("/sys/module/apparmor/parameters/enabled");
    std::path::Path::new("/sys/kernel/security/apparmor").exists()
        && enabled.is_ok_and(|text| text.first() == Some(&b'Y'))
}
