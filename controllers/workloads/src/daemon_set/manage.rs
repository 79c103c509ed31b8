//! Which nodes lack a pod, and which pods are out of place.

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::{ArcStr, Time};

use super::observed::Observed;
use super::placement::Verdict;
use super::pods::{End, Pod};
use super::sites::{Site, Sites};

/// The pods to create and to delete, whatever their revision.
#[derive(Debug, Default)]
pub(super) struct Work<'a> {
    /// The nodes that need a pod.
    pub create: Vec<&'a ArcStr>,
    /// The pods to delete because they have ended. An event tells of each.
    pub ended: Vec<&'a Pod>,
    /// The other pods to delete.
    pub delete: Vec<&'a Pod>,
    /// How long until a failed pod may be deleted that must wait now.
    pub wait: Option<Duration>,
}

/// Upstream's `podsShouldBeOnNode` for every node, and `getUnscheduledPodsWithoutNode`.
pub(super) fn manage<'a>(observed: &'a Observed, sites: &Sites<'a>, hash: &str, now: Time) -> Work<'a> {
    let mut work = Work::default();
    for site in &sites.nodes {
        match site.verdict {
            Verdict::Run if site.pods.is_empty() => work.create.push(site.node),
            Verdict::Unfit => work.delete.extend(site.pods.iter().filter(|pod| !pod.deleting)),
            Verdict::Run | Verdict::Keep => keep(&mut work, observed, site, hash, now),
        }
    }
    // The scheduler never binds these, and the pod collector knows only pods that are bound.
    let unbound = sites.vanished.iter().flat_map(|(_, pods)| pods).filter(|pod| !pod.bound && !pod.deleting);
    work.delete.extend(unbound);
    work.create.sort();
    for pods in [&mut work.ended, &mut work.delete] {
        pods.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    }
    work
}

/// Replaces pods that have ended, and leaves one pod on the node; during an update with surge, an old and a new one.
fn keep<'a>(work: &mut Work<'a>, observed: &'a Observed, site: &Site<'a>, hash: &str, now: Time) {
    let mut pods: Vec<&Pod> = site.pods.iter().copied().filter(|pod| !pod.deleting).collect();
    pods.sort_by(|a, b| a.seniority().cmp(&b.seniority()));
    let mut backoff = Backoff::of(&observed.back_off, site.node);
    let (ended, running): (Vec<&Pod>, Vec<&Pod>) = pods.into_iter().partition(|pod| pod.end.is_some());
    for pod in ended {
        match backoff.admit(pod) {
            Ok(()) => work.ended.push(pod),
            Err(wait) => work.wait = work.wait.into_iter().chain([wait]).min(),
        }
    }
    if !observed.set.strategy.allows_surge() {
        work.delete.extend(running.iter().skip(1));
        return;
    }
    if running.is_empty() && site.verdict == Verdict::Run {
        work.create.push(site.node);
    }
    if running.len() < 2 {
        return;
    }
    let (new, old): (Vec<&Pod>, Vec<&Pod>) =
        running.into_iter().partition(|pod| !hash.is_empty() && pod.hash == *hash);
    work.delete.extend(new.iter().chain(&old).filter(|pod| !is_first(pod, &new) && !is_first(pod, &old)));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (old.ready.is_none() || new.is_available(observed.set.min_ready, now))
    {
        work.delete.push(old);
    }
}

fn is_first(pod: &Pod, pods: &[&Pod]) -> bool {
    pods.first().is_some_and(|first| first.uid == pod.uid)
}

/// Lets one failed pod of a node pass at a time.
struct Backoff {
    wait: Duration,
}

/// How long the next failed pod of a node waits once one has been deleted; at least.
const FIRST: Duration = Duration::from_secs(1);

impl Backoff {
    fn of(waits: &HashMap<ArcStr, Duration>, node: &ArcStr) -> Self {
        Self { wait: waits.get(node).copied().unwrap_or_default() }
    }

    fn admit(&mut self, pod: &Pod) -> Result<(), Duration> {
        match pod.end {
            Some(End::Failed) if self.wait.is_zero() => {
                self.wait = FIRST;
                Ok(())
            }
            Some(End::Failed) => Err(self.wait),
            _ => Ok(()),
        }
    }
}
