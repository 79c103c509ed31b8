//! Rolling updates: which old pods to replace now.

use steersman_api::Time;
use steersman_informer::wire::IntOrString;

use super::manage::Work;
use super::observed::{Observed, UpdateStrategy};
use super::placement::Verdict;
use super::pods::Pod;
use super::sites::{Site, Sites};

/// How far a rolling update may go at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// How many nodes may be without an available pod.
    pub max_unavailable: usize,
    /// How many nodes may have a new pod beside their available old one. If it is zero, old pods are deleted first.
    pub max_surge: usize,
}

impl UpdateStrategy {
    /// Whether nodes may have more than one pod. Upstream's `AllowsSurge`.
    pub(super) fn allows_surge(&self) -> bool {
        self.limits(1).is_some_and(|limits| limits.max_surge > 0)
    }

    /// The limits for a DaemonSet whose pods are wanted on `desired` nodes. Percentages are rounded up. `None` if the strategy
    /// is not a rolling update.
    pub(super) fn limits(&self, desired: usize) -> Option<Limits> {
        let Self::RollingUpdate { max_unavailable, max_surge } = self else { return None };
        let count = |value: &Option<IntOrString>| value.as_ref().map_or(0, |value| scaled(value, desired));
        let (max_unavailable, max_surge) = (count(max_unavailable), count(max_surge));
        // The API server refuses a DaemonSet that allows neither.
        let stuck = desired > 0 && max_unavailable == 0 && max_surge == 0;
        let max_unavailable = if stuck { 1 } else { max_unavailable };
        Some(Limits { max_unavailable, max_surge })
    }
}

/// Upstream's `GetScaledValueFromIntOrPercent`, rounding up. Zero for what is no percentage, which the API server refuses.
fn scaled(value: &IntOrString, total: usize) -> usize {
    match value {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
            percent.saturating_mul(total).div_ceil(100)
        }
    }
}

/// The old and the new pod of a node that are not being deleted.
enum OnNode<'a> {
    /// More than one of either: the node is put in order first.
    Crowded,
    /// At most one of each.
    Pods { old: Option<&'a Pod>, new: Option<&'a Pod> },
}

impl<'a> OnNode<'a> {
    /// Upstream's `findUpdatedPodsOnNode`.
    fn of(observed: &Observed, pods: &[&'a Pod], hash: &str) -> Self {
        let generation = observed.set.template_generation;
        let (mut old, mut new) = (None, None);
        for pod in pods.iter().copied().filter(|pod| !pod.deleting) {
            let place = if pod.is_updated(hash, generation) { &mut new } else { &mut old };
            if place.replace(pod).is_some() {
                return Self::Crowded;
            }
        }
        Self::Pods { old, new }
    }
}

/// The next steps of a rolling update. It begins only where [`manage`](super::manage) finds nothing to do.
pub(super) fn roll<'a>(observed: &Observed, sites: &Sites<'a>, hash: &str, now: Time) -> Work<'a> {
    let desired = sites.nodes.iter().filter(|site| site.verdict == Verdict::Run).count();
    match observed.set.strategy.limits(desired) {
        Some(limits) if limits.max_surge == 0 => replace(observed, sites, hash, now, limits),
        Some(limits) => surge(observed, sites, hash, now, limits, desired),
        None => Work::default(),
    }
}

/// Deletes old pods; the nodes get new ones once these are gone. Old pods that are not available go at once. Of the available
/// ones as many go as may be unavailable and are not yet: a node without a pod counts as unavailable.
fn replace<'a>(observed: &Observed, sites: &Sites<'a>, hash: &str, now: Time, limits: Limits) -> Work<'a> {
    let available = |pod: &Pod| pod.is_available(observed.set.min_ready, now);
    let (mut unavailable, mut delete, mut candidates) = (0, Vec::new(), Vec::new());
    let wanted = sites.nodes.iter().filter(|site| site.verdict == Verdict::Run || !site.pods.is_empty());
    for pods in wanted.map(|site| &site.pods).chain(sites.vanished.iter().map(|(_, pods)| pods)) {
        match OnNode::of(observed, pods, hash) {
            OnNode::Pods { old: None, new: Some(new) } => unavailable += usize::from(!available(new)),
            OnNode::Pods { old: Some(old), new: None } if available(old) => candidates.push(old),
            OnNode::Pods { old: Some(old), new: None } => {
                delete.push(old);
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    candidates.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    delete.extend(candidates.into_iter().take(limits.max_unavailable.saturating_sub(unavailable)));
    Work { delete, ..Work::default() }
}

/// Creates new pods beside old ones, and deletes an old pod once the new one is available. Nodes whose old pod is not available
/// get a new one at once.
///
/// An available pod on a node that the DaemonSet does not want any more stays until there are enough available pods elsewhere.
fn surge<'a>(
    observed: &Observed,
    sites: &Sites<'a>,
    hash: &str,
    now: Time,
    limits: Limits,
    desired: usize,
) -> Work<'a> {
    let is_available = |pod: &Pod| pod.is_available(observed.set.min_ready, now);
    let (mut surging, mut available) = (0, 0);
    let (mut work, mut candidates, mut unwanted) = (Work::default(), Vec::new(), Vec::new());
    for Site { node, verdict, pods } in &sites.nodes {
        let OnNode::Pods { old, new } = OnNode::of(observed, pods, hash) else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(is_available));
        let Some(old) = old else { continue };
        match (new, is_available(old), *verdict == Verdict::Run) {
            (Some(new), ..) if is_available(new) => work.delete.push(old),
            (Some(_), ..) => surging += 1,
            (None, false, false) => work.delete.push(old),
            (None, false, true) => work.create.push(*node),
            (None, true, false) => unwanted.push(old),
            (None, true, true) => candidates.push(*node),
        }
    }
    // Pods of vanished nodes are the pod collector's.
    let vanished = sites.vanished.iter().map(|(_, pods)| OnNode::of(observed, pods, hash));
    for on_node in vanished {
        match on_node {
            OnNode::Crowded => surging += 1,
            OnNode::Pods { old, new } => {
                available += usize::from(old.or(new).is_some_and(is_available));
                let waits = old.is_some() && new.is_some_and(|new| !is_available(new));
                surging += usize::from(waits);
            }
        }
    }
    unwanted.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    work.delete.extend(unwanted.into_iter().take(available.saturating_sub(desired)));
    candidates.sort();
    work.create.extend(candidates.into_iter().take(limits.max_surge.saturating_sub(surging)));
    work
}
