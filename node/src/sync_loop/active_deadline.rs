//! Pods that may only run for so long. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};

/// The reason of pods, and of the event, when their deadline has passed.
pub const REASON: &str = "DeadlineExceeded";
/// What they are told.
pub const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Whether the pod has been active for as long as it may (`spec.activeDeadlineSeconds`). `status` is the newest one that this
/// node has; where it has none, what the pod came with counts. A pod that has not started has all its time.
pub fn exceeded(pod: &Pod, status: Option<&PodStatus>, now: Timestamp) -> bool {
    let allowed = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    let started = status.or(pod.status.as_ref()).and_then(|status| status.start_time.as_ref());
    match (allowed, started) {
        (Some(allowed), Some(started)) => now.duration_since(started.0) >= SignedDuration::from_secs(allowed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn started(second: Option<i64>) -> PodStatus {
        PodStatus { start_time: second.map(|second| Time(at(second))), ..PodStatus::default() }
    }

    #[test]
    fn a_deadline_passes_so_long_after_the_start() {
        for (allowed, own, newest, now, expected) in [
            (None, Some(0), None, 1_000, false),
            (Some(10), None, None, 1_000, false),
            (Some(10), Some(100), None, 109, false),
            (Some(10), Some(100), None, 110, true),
            (Some(10), Some(100), Some(Some(105)), 110, false),
            (Some(10), Some(100), Some(Some(105)), 115, true),
            (Some(10), Some(100), Some(None), 1_000, false),
        ] {
            let spec = PodSpec { active_deadline_seconds: allowed, ..PodSpec::default() };
            let pod = Pod { spec: Some(spec), status: Some(started(own)), ..Pod::default() };
            let newest = newest.map(started);
            let case = format!("{allowed:?} {own:?} {newest:?} {now}");
            assert_eq!(exceeded(&pod, newest.as_ref(), at(now)), expected, "{case}");
        }
    }
}
