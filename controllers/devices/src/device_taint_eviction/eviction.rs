//! When a pod must go because of the taints of its devices.

use std::collections::BTreeSet;

use steersman_api::{ArcStr, Meta, Time, Uid};
use steersman_kinds::device_allocation::{AllocatedDevice, Consumer as Reservation};
use steersman_kinds::device_taint::{DeviceTaint, DeviceToleration, NO_EXECUTE};

use crate::pod_claim::is_group_by_name;

/// A claim that a pod names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UsedClaim {
    /// Whether the claim was made for the pod, as its status says: then the pod must own it.
    pub is_generated: bool,
    /// The claim's metadata.
    pub meta: Meta,
    /// The consumers that may use the claim.
    pub reserved_for: Vec<Reservation>,
    /// The claim's devices, each with its taints of the effect `NoExecute`.
    pub devices: Vec<(AllocatedDevice, Vec<FoundTaint>)>,
}

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FoundTaint {
    pub taint: DeviceTaint,
    /// The DeviceTaintRule that the taint comes from. `None`: the device's driver.
    pub rule: Option<RuleName>,
}

/// A DeviceTaintRule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RuleName {
    pub name: ArcStr,
    pub uid: Uid,
}

/// A pod with devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Consumer {
    pub uid: Uid,
    /// The PodGroup of the pod. `None` without the gate of claims of PodGroups.
    pub group: Option<ArcStr>,
}

/// The end of a pod because of taints.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Eviction {
    /// When the pod must go.
    pub due: Time,
    /// The DeviceTaintRules among the reasons.
    pub rules: BTreeSet<RuleName>,
}

/// A slice of the pool that a device is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceOfPool<'a> {
    /// The slice's generation.
    pub generation: i64,
    /// The taints that the slice gives the device. `None` if it does not list the device as tainted.
    pub taints: Option<&'a [DeviceTaint]>,
}

/// The taints of a device: those that the slices of the highest generation in its pool give it.
pub(super) fn taints_in<'a>(slices: &[SliceOfPool<'a>]) -> &'a [DeviceTaint] {
    let newest = slices.iter().map(|slice| slice.generation).max();
    slices
        .iter()
        .filter(|slice| Some(slice.generation) == newest)
        .find_map(|slice| slice.taints)
        .unwrap_or(&[])
}

/// When a pod must go, and why: when the first taint of a device that it uses is no longer tolerated. `None` if it may stay.
pub(super) fn eviction(pod: &Consumer, claims: &[UsedClaim]) -> Option<Eviction> {
    let mut all: Option<Eviction> = None;
    for claim in claims.iter().filter(|claim| claim.is_used_by(pod)) {
        for (device, taints) in &claim.devices {
            for found in taints {
                let Some(due) = end_of_toleration(&found.taint, &device.tolerations) else { continue };
                let all = all.get_or_insert_with(|| Eviction { due, rules: BTreeSet::new() });
                all.due = all.due.min(due);
                all.rules.extend(found.rule.clone());
            }
        }
    }
    all
}

impl UsedClaim {
    /// Whether the pod may use the claim. Otherwise the claim is that of an older or a later pod of the name. A pod knows only
    /// the name of its group.
    fn is_used_by(&self, pod: &Consumer) -> bool {
        let Consumer { uid, group } = pod;
        let is_its = || {
            self.meta.is_controlled_by(uid)
                || group.as_ref().is_some_and(|group| is_group_by_name(&self.meta, group))
        };
        let is_reserved = |consumer: &Reservation| {
            consumer.uid == *uid || (consumer.is_pod_group() && group.as_ref() == Some(&consumer.name))
        };
        (!self.is_generated || is_its()) && self.reserved_for.iter().any(is_reserved)
    }
}

/// When a taint ends the pods that use its device. `None`: never, as it is tolerated for ever, or does not say since when it
/// is there. As upstream, tolerations that do not name the effect do not count.
fn end_of_toleration(taint: &DeviceTaint, tolerations: &[DeviceToleration]) -> Option<Time> {
    let mut tolerated = None;
    for toleration in tolerations.iter().filter(|one| one.effect == NO_EXECUTE && one.tolerates(taint)) {
        let seconds = toleration.seconds?.max(0);
        tolerated = Some(tolerated.map_or(seconds, |least: i64| least.min(seconds)));
    }
    let added = taint.time_added?;
    Some(Time::from_seconds(added.seconds().saturating_add(tolerated.unwrap_or(0))))
}
