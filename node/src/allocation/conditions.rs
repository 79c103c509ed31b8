//! What a pod's status says of its resize. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A resize is wanted and not allocated.
pub(super) const PENDING: &str = "PodResizePending";
/// A resize is allocated and not done.
pub(super) const IN_PROGRESS: &str = "PodResizeInProgress";

/// Why a resize is not allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// It does not fit now; it is tried again.
    Deferred,
    /// It never will on this node.
    Infeasible,
}

impl Pending {
    /// The condition's reason.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "Deferred",
            Self::Infeasible => INFEASIBLE,
        }
    }

    /// Of what admission says: all that is not infeasible may fit later.
    pub(super) fn of(reason: &str) -> Self {
        if reason == INFEASIBLE { Self::Infeasible } else { Self::Deferred }
    }

    /// The reason of the event that tells it.
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Deferred => "ResizeDeferred",
            Self::Infeasible => "ResizeInfeasible",
        }
    }
}

const INFEASIBLE: &str = "Infeasible";
/// The reason of a resize that failed while it was done.
const ERROR: &str = "Error";

/// The conditions of one pod's resize. Both may be there: a newer resize waits while an older one is done.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Conditions {
    pub(super) pending: Option<PodCondition>,
    pub(super) in_progress: Option<PodCondition>,
}

impl Conditions {
    /// As the API server has them.
    pub(super) fn of(conditions: &[PodCondition], now: Timestamp) -> Self {
        let restored = |kind: &str| {
            let told = conditions.iter().find(|told| told.type_ == kind)?;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Some(condition(
                kind,
                None,
                text(&told.reason),
                text(&told.message),
                told.observed_generation,
                now,
            ))
        };
        Self { pending: restored(PENDING), in_progress: restored(IN_PROGRESS) }
    }

    /// Those that there are.
    pub(super) fn list(&self) -> Vec<PodCondition> {
        [&self.pending, &self.in_progress].into_iter().flatten().cloned().collect()
    }

    /// Why the resize waits, if one does.
    pub(super) fn pending(&self) -> Option<Pending> {
        self.pending.as_ref().map(|pending| Pending::of(pending.reason.as_deref().unwrap_or_default()))
    }

    /// A resize of this generation waits. Says whether that is new, but for the message.
    pub(super) fn set_pending(
        &mut self,
        why: Pending,
        message: &str,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        let reason = why.as_str();
        let is_new = self
            .pending
            .as_ref()
            .is_none_or(|old| old.reason.as_deref() != Some(reason) || old.observed_generation != generation);
        let old = self.pending.take();
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.pending = Some(condition(PENDING, old.as_ref(), reason, message, generation, now));
        is_new
    }

    /// A resize of this generation was allocated: nothing waits any more, and what an earlier one met does not count.
    pub(super) fn allocated(&mut self, generation: Option<i64>, now: Timestamp) {
        let none = String::new();
        self.pending = None;
        self.in_progress = Some(condition(IN_PROGRESS, None, none.clone(), none, generation, now));
    }

    /// What runs has not what was allocated. How it failed before, and of which generation it is, stays.
    pub(super) fn goes_on(&mut self, generation: Option<i64>, now: Timestamp) {
        let old = self.in_progress.take();
        let of_old =
            |text: fn(&PodCondition) -> Option<String>| old.as_ref().and_then(text).unwrap_or_default();
        let (reason, message) = (of_old(|old| old.reason.clone()), of_old(|old| old.message.clone()));
        let generation = old.as_ref().map_or(generation, |old| old.observed_generation);
        self.in_progress = Some(condition(IN_PROGRESS, old.as_ref(), reason, message, generation, now));
    }

    /// Doing it failed. Says of which generation it is, if it had not failed so before.
    pub(super) fn failed(
        &mut self,
        message: &str,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Option<Option<i64>> {
        let old = self.in_progress.take();
        let is_new = old.as_ref().is_none_or(|old| {
            old.reason.as_deref() != Some(ERROR) || old.message.as_deref().unwrap_or_default() != message
        });
        let generation = old.as_ref().map_or(generation, |old| old.observed_generation);
        let (reason, message) = (ERROR.to_owned(), message.to_owned());
        self.in_progress = Some(condition(IN_PROGRESS, old.as_ref(), reason, message, generation, now));
        is_new.then_some(generation)
    }
}

fn condition(
    kind: &str,
    old: Option<&PodCondition>,
    reason: String,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) -> PodCondition {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let reason = some(reason);
    let since = old.filter(|old| old.reason == reason).and_then(|old| old.last_transition_time.clone());
    PodCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason,
        message: some(message),
        observed_generation: generation.filter(|generation| *generation != 0),
        last_probe_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
    }
}
