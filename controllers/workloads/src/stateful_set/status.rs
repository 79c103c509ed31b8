//! The status of a StatefulSet.

use serde::Serialize;
use steersman_api::{ArcStr, Time};

use super::observed::Observed;
use super::pods::Pod;

/// The status of a StatefulSet, but for its conditions, which no controller writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// The number of pods.
    pub replicas: i32,
    /// The number of pods that run and are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// The number of pods of the current revision that are not being deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// The number of pods of the update revision that are not being deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// The name of the revision that a rolling update comes from.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub current_revision: ArcStr,
    /// The name of the revision that a rolling update leads to.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub update_revision: ArcStr,
    /// How often the name of a new revision was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(generation: &i64) -> bool {
    *generation == 0
}

impl Status {
    /// The status of a set with these pods. Counts pods that this sync has created and deleted.
    ///
    /// A rolling update is complete once all wanted pods are ready and of the update revision, which then becomes the current
    /// one.
    pub(super) fn of(observed: &Observed, current: &str, update: &str, now: Time) -> Self {
        let set = &observed.set;
        let pods = || observed.numbered();
        let count = |wanted: &dyn Fn(&Pod) -> bool| number(pods().filter(|pod| wanted(pod)).count());
        let of = |revision: &str| count(&|pod| !pod.deleting && pod.revision() == revision);
        let available = |pod: &Pod| pod.is_running_and_ready() && pod.is_available(set.min_ready, now);
        let mut status = Self {
            observed_generation: set.meta.generation,
            replicas: number(pods().count()),
            ready_replicas: count(&Pod::is_running_and_ready),
            current_replicas: of(current),
            updated_replicas: of(update),
            current_revision: current.into(),
            update_revision: update.into(),
            collision_count: Some(observed.revisions.collision_count),
            available_replicas: count(&available),
        };
        let all = |count: i32| count == set.replicas;
        if !set.update.on_delete
            && all(status.updated_replicas)
            && all(status.ready_replicas)
            && all(status.replicas)
        {
            status.current_replicas = status.updated_replicas;
            status.current_revision = status.update_revision.clone();
        }
        status
    }

    /// Whether the status must be written in place of the stored one. Upstream's `inconsistentStatus`: the count of collisions
    /// alone is no reason to write.
    pub(super) fn must_replace(&self, stored: &Self) -> bool {
        let stored_with_count = Self {
            collision_count: self.collision_count,
            observed_generation: stored.observed_generation.max(self.observed_generation),
            ..stored.clone()
        };
        self.observed_generation > stored.observed_generation
            || Self { observed_generation: stored_with_count.observed_generation, ..self.clone() }
                != stored_with_count
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
