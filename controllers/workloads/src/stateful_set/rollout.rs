//! How pods get a new template.

use std::collections::HashMap;

use steersman_api::Time;

use super::observed::Observed;
use super::plan::{Next, Step};
use super::pods::Pod;
use super::steps::Goal;

impl Observed {
    /// Deletes pods that are not of the update revision, from the highest ordinal down to the partition.
    ///
    /// One pod at a time, and none while a pod above it is unavailable. With `maxUnavailable` as many pods as may become
    /// unavailable.
    pub(super) fn rollout(&self, now: Time) -> Next {
        let Some(update) = self.revisions.update().filter(|_| !self.set.update.on_delete) else {
            return Next::Nothing;
        };
        let pods = self.wanted_from_highest();
        let is_outdated = |pod: &Pod| pod.revision() != update && !pod.deleting;
        let is_unavailable = |pod: &Pod| pod.is_unavailable(self.set.min_ready, now);
        let reached = usize::try_from(self.set.end() - self.set.first_updated()).unwrap_or(0);
        if self.set.update.max_unavailable.is_none() {
            for pod in pods.iter().take(reached) {
                match pod {
                    Some(pod) if is_outdated(pod) => return self.delete_for_update(std::iter::once(*pod)),
                    Some(pod) if !is_unavailable(pod) => {}
                    Some(_) | None => break,
                }
            }
            return Next::Nothing;
        }
        let unavailable = pods.iter().filter(|pod| pod.is_none_or(is_unavailable)).count();
        let allowed = usize::try_from(self.set.max_unavailable()).unwrap_or(1);
        let outdated = pods.iter().take(reached).flatten().copied().filter(|pod| is_outdated(pod));
        self.delete_for_update(outdated.take(allowed.saturating_sub(unavailable)))
    }

    /// The wanted pods from the highest ordinal to the lowest. `None` for those that do not exist.
    fn wanted_from_highest(&self) -> Vec<Option<&Pod>> {
        let by_ordinal: HashMap<i32, &Pod> =
            self.numbered().filter_map(|pod| Some((pod.ordinal?, pod))).collect();
        (self.set.start..self.set.end()).rev().map(|ordinal| by_ordinal.get(&ordinal).copied()).collect()
    }

    fn delete_for_update<'a>(&'a self, pods: impl Iterator<Item = &'a Pod>) -> Next {
        let delete = |pod: &Pod| {
            let ordinal = pod.ordinal.filter(|ordinal| !self.was_tried(Goal::Delete, *ordinal))?;
            Some(Step::Pod(self.delete(ordinal, pod)))
        };
        Next::Steps(pods.filter_map(delete).collect())
    }

    /// The number of wanted pods that are missing or unavailable.
    pub(super) fn unavailable(&self, now: Time) -> i32 {
        let pods = self.wanted_from_highest();
        let is_unavailable = |pod: &Pod| pod.is_unavailable(self.set.min_ready, now);
        let count = pods.iter().filter(|pod| pod.is_none_or(is_unavailable)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    }
}
