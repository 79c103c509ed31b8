//! How pods get a new template.

use steersman_api::Time;

use super::observed::Observed;
use super::plan::Next;
use super::pods::Pod;

impl Observed {
    /// Deletes pods that are not of the update revision, from the highest ordinal down to the partition.
    ///
    /// One pod at a time, and none while a pod above it is unavailable. With `maxUnavailable` as many pods as may become
    /// unavailable.
    pub(super) fn rollout(&self, now: Time) -> Next {
        let Some(update) = self.revisions.update().filter(|_| !self.set.update.on_delete) else {
            return Next::Nothing;
        };
        let reached = |pod: &&Pod| pod.ordinal.is_some_and(|at| i64::from(at) >= self.set.first_updated());
        let pods = self.wanted_from_highest().into_iter().take_while(reached);
        let is_outdated = |pod: &Pod| pod.revision() != update && !pod.deleting;
        if self.set.update.max_unavailable.is_none() {
            for (expected, pod) in (0..self.set.end()).rev().zip(pods) {
                if pod.ordinal.map(i64::from) != Some(expected) {
                    // A pod above this one is missing.
                    break;
                }
                if is_outdated(pod) {
                    return self.delete_for_update(std::iter::once(pod));
                }
                if pod.is_unavailable(self.set.min_ready, now) {
                    break;
                }
            }
            return Next::Nothing;
        }
        let allowed = self.set.max_unavailable().saturating_sub(self.unavailable(now));
        let outdated = pods.filter(|pod| is_outdated(pod));
        self.delete_for_update(outdated.take(usize::try_from(allowed).unwrap_or(0)))
    }

    /// The wanted pods that exist, from the highest ordinal to the lowest.
    fn wanted_from_highest(&self) -> Vec<&Pod> {
        let wanted = |pod: &&Pod| pod.ordinal.is_some_and(|ordinal| self.set.wants(ordinal));
        let mut pods: Vec<&Pod> = self.numbered().filter(wanted).collect();
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.ordinal));
        pods
    }

    fn delete_for_update<'a>(&'a self, pods: impl Iterator<Item = &'a Pod>) -> Next {
        Next::steps(pods.filter_map(|pod| self.once(self.delete(pod.ordinal?, pod))))
    }

    /// The number of wanted pods that are missing or unavailable.
    pub(super) fn unavailable(&self, now: Time) -> i32 {
        let pods = self.wanted_from_highest().into_iter();
        let available = pods.filter(|pod| !pod.is_unavailable(self.set.min_ready, now)).count();
        self.set.replicas.saturating_sub(i32::try_from(available).unwrap_or(i32::MAX))
    }
}
