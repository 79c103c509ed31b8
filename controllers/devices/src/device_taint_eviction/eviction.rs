//! When a pod must go because of the taints of its devices.

use steersman_api::{Meta, Time, Uid};
use steersman_kinds::device_allocation::{AllocatedDevice, Consumer};
use steersman_kinds::device_taint::{DeviceTaint, DeviceToleration, NO_EXECUTE};

/// A claim that a pod names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UsedClaim {
    /// Whether the claim was made for the pod, as its status says: then the pod must own it.
    pub is_generated: bool,
    /// The claim's metadata.
    pub meta: Meta,
    /// The consumers that may use the claim.
    pub reserved_for: Vec<Consumer>,
    /// The claim's devices, each with its taints of the effect `NoExecute`.
    pub devices: Vec<(AllocatedDevice, Vec<DeviceTaint>)>,
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

/// The time at which a pod must go: when the first taint of a device that it uses is no longer tolerated. `None` if it may
/// stay.
pub(super) fn eviction_time(pod: &Uid, claims: &[UsedClaim]) -> Option<Time> {
    claims.iter().filter(|claim| claim.is_used_by(pod)).filter_map(UsedClaim::eviction_time).min()
}

impl UsedClaim {
    /// Whether the pod of this uid may use the claim. Otherwise the claim is that of an older or a later pod of the name.
    fn is_used_by(&self, pod: &Uid) -> bool {
        (!self.is_generated || self.meta.is_controlled_by(pod))
            && self.reserved_for.iter().any(|consumer| consumer.uid == *pod)
    }

    fn eviction_time(&self) -> Option<Time> {
        let times = self.devices.iter().flat_map(|(device, taints)| {
            taints.iter().filter_map(|taint| end_of_toleration(taint, &device.tolerations))
        });
        times.min()
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
