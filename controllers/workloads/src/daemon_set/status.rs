//! The status of a DaemonSet.

use serde::Serialize;
use steersman_api::Time;
use steersman_kinds::daemon_set::DaemonSetStatus;

use super::observed::Observed;
use super::placement::Verdict;
use super::sites::Sites;

/// The status of a DaemonSet, without the conditions, of which the controller writes none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The number of nodes that must have a pod and have one.
    pub current_number_scheduled: i32,
    /// The number of nodes that have a pod and must not get one.
    pub number_misscheduled: i32,
    /// The number of nodes that must have a pod.
    pub desired_number_scheduled: i32,
    /// The number of nodes that must have a pod and whose oldest pod is ready.
    pub number_ready: i32,
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// The number of nodes that must have a pod and whose oldest pod is of the current revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i32,
    /// The number of nodes that must have a pod and whose oldest pod has been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i32,
    /// The number of nodes that must have a pod and have no available one.
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i32,
    /// How often the name of a new revision was taken by a revision with another template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
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
    /// The status of a cached DaemonSet.
    pub(super) fn stored(status: &DaemonSetStatus) -> Self {
        Self {
            current_number_scheduled: status.current_number_scheduled,
            number_misscheduled: status.number_misscheduled,
            desired_number_scheduled: status.desired_number_scheduled,
            number_ready: status.number_ready,
            observed_generation: status.observed_generation,
            updated_number_scheduled: status.updated_number_scheduled,
            number_available: status.number_available,
            number_unavailable: status.number_unavailable,
            collision_count: status.collision_count,
        }
    }

    /// The status of a DaemonSet with these pods, as upstream's `updateDaemonSetStatus`: of a node with several pods, the
    /// oldest counts. Equal to the stored status if nothing must be written.
    pub(super) fn of(observed: &Observed, sites: &Sites<'_>, hash: &str, now: Time) -> Self {
        let set = &observed.set;
        let mut status = Self {
            observed_generation: set.status.observed_generation.max(set.meta.generation),
            collision_count: set.status.collision_count,
            ..Self::default()
        };
        for site in &sites.nodes {
            let oldest = site.pods.iter().min_by_key(|pod| pod.seniority());
            if site.verdict != Verdict::Run {
                status.number_misscheduled += i32::from(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = oldest else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pod.ready.is_some());
            status.number_available += i32::from(pod.is_available(set.min_ready, now));
            status.updated_number_scheduled += i32::from(pod.is_updated(hash, set.template_generation));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }
}
