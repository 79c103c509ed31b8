//! What is done about the pods that a set does not want any more.

use steersman_api::Time;

use super::observed::{Observed, Order};
use super::plan::{Next, Step};
use super::pods::Pod;
use super::steps::Goal;

impl Observed {
    /// Gives the claims of condemned pods their owners, before the pods go.
    pub(super) fn claims_of_condemned(&self) -> Next {
        let condemned = self.condemned().into_iter();
        Next::steps(condemned.filter_map(|pod| self.once(self.release(pod.ordinal?, pod))))
    }

    /// Deletes condemned pods: where pods are ordered, the highest, once all others are available. Upstream's
    /// `processCondemned`.
    pub(super) fn scale_down(&self, now: Time) -> Next {
        let condemned = self.condemned();
        let delete = |pod: &&Pod| {
            let ordinal = pod.ordinal?;
            let is_due = !pod.deleting && !self.was_tried(Goal::Delete, ordinal);
            is_due.then(|| Step::Pod(self.delete(ordinal, pod)))
        };
        if self.set.order == Order::Parallel {
            return Next::steps(condemned.iter().filter_map(delete));
        }
        let Some(highest) = condemned.first() else { return Next::Nothing };
        // All wanted pods are available here, so that the lowest condemned pod that is not is the first of all.
        let min_ready = self.set.min_ready;
        let first_unavailable = condemned.iter().rev().find(|pod| pod.is_unavailable(min_ready, now));
        let is_ready = highest.is_running_and_ready() && highest.is_available(min_ready, now);
        if !is_ready && first_unavailable.is_none_or(|pod| pod.uid != highest.uid) {
            return Next::Blocked;
        }
        delete(highest).map_or(Next::Blocked, |step| Next::Steps(vec![step]))
    }
}
