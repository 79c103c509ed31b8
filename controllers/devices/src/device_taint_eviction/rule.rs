//! What the status of a DeviceTaintRule tells about evictions.

use std::time::Duration;

use jiff::Timestamp;
use steersman_api::Time;
use steersman_kinds::device_taint::NO_EXECUTE;
use steersman_kinds::device_taint_rule::{EVICTION_IN_PROGRESS, RuleCondition};

/// The shortest time between two writes of a rule's status, unless the rule has changed. Upstream: `ruleStatusPeriod`.
pub(super) const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// The effect of rules that only tell what they would do.
pub(super) const NONE: &str = "None";

/// The pods that a rule evicts, or would evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub pods: u64,
    /// How many namespaces the pods are in.
    pub namespaces: u64,
}

/// The devices that a rule selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Selected {
    /// In slices of their pool's newest generation.
    pub published: u64,
    /// In allocations of claims.
    pub allocated: u64,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub pending: Pending,
    pub selected: Selected,
    /// How many pods the rule has evicted since this process began to lead.
    pub evicted: u64,
}

/// The wait until the condition may be written again. `None`: it may be now.
pub(super) fn wait(existing: Option<&RuleCondition>, generation: i64, now: Timestamp) -> Option<Duration> {
    let existing = existing.filter(|existing| existing.observed_generation == generation)?;
    let since = now.duration_since(existing.last_transition_time?.into());
    // A condition from the future is one of a process whose clock is ahead.
    let since = Duration::try_from(since).unwrap_or_default();
    STATUS_PERIOD.checked_sub(since).filter(|left| !left.is_zero())
}

/// The condition of a rule with this effect, if it differs from the existing one. It is of `now`.
pub(super) fn condition(
    effect: &str,
    generation: i64,
    effects: Effects,
    existing: Option<&RuleCondition>,
    now: Time,
) -> Option<RuleCondition> {
    let (is_in_progress, reason, mut message) = match effect {
        NO_EXECUTE => no_execute(effects),
        NONE => (false, "NoEffect", would_be(effects)),
        _ => (false, "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    if effects.evicted > 0 {
        if !message.is_empty() {
            message.push(' ');
        }
        message +=
            &format!("{} evicted since starting the controller.", count(effects.evicted, "pod", "pods"));
    }
    let condition = RuleCondition {
        kind: EVICTION_IN_PROGRESS.into(),
        status: if is_in_progress { "True" } else { "False" }.into(),
        observed_generation: generation,
        reason: reason.into(),
        message: message.as_str().into(),
        last_transition_time: existing.and_then(|existing| existing.last_transition_time),
    };
    (existing != Some(&condition)).then_some(RuleCondition { last_transition_time: Some(now), ..condition })
}

fn no_execute(effects: Effects) -> (bool, &'static str, String) {
    let Pending { pods, namespaces } = effects.pending;
    if pods > 0 {
        let pods = count(pods, "pod needs", "pods need");
        let namespaces = count(namespaces, "namespace", "different namespaces");
        return (true, "PodsPendingEviction", format!("{pods} to be evicted in {namespaces}."));
    }
    let reason = if effects.evicted > 0 { "Completed" } else { "NotStarted" };
    (false, reason, String::new())
}

fn would_be(Effects { pending, selected, .. }: Effects) -> String {
    let published = count(selected.published, "published device", "published devices");
    let allocated = count(selected.allocated, "allocated device", "allocated devices");
    let pods = count(pending.pods, "pod", "pods");
    let namespaces = count(pending.namespaces, "namespace", "different namespaces");
    format!(
        "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} if the effect was NoExecute. This \
         information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )
}

fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
