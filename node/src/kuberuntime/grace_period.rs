//! How long a container gets between the request to stop and its end.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::actions::KillReason;

/// What every container gets at least, in seconds, so that not all are killed outright (`minimumGracePeriodInSeconds`).
pub const MINIMUM_SECONDS: i64 = 2;

/// The seconds that `container` gets to stop by itself, before the time taken by hooks and by waiting for its turn is
/// deducted: the pod's deletion decides, then the probe that failed, then the pod's spec.
///
/// The container is none where its spec is no longer known; probes then have no say.
pub fn termination_grace_period(pod: &Pod, container: Option<&Container>, reason: KillReason) -> i64 {
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        return seconds;
    }
    let Some(of_pod) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) else {
        return MINIMUM_SECONDS;
    };
    let probe = match reason {
        KillReason::StartupProbe => container.and_then(|container| container.startup_probe.as_ref()),
        KillReason::LivenessProbe => container.and_then(|container| container.liveness_probe.as_ref()),
        _ => None,
    };
    probe.and_then(|probe| probe.termination_grace_period_seconds).unwrap_or(of_pod)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSpec, Probe};

    use super::*;

    fn pod(deletion: Option<i64>, spec: Option<i64>) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec { termination_grace_period_seconds: spec, ..PodSpec::default() }),
            ..Pod::default()
        };
        pod.metadata.deletion_grace_period_seconds = deletion;
        pod
    }

    #[test]
    fn deletion_decides_then_the_failed_probe_then_the_spec() {
        let probe = |seconds| Probe { termination_grace_period_seconds: seconds, ..Probe::default() };
        let container = Container {
            liveness_probe: Some(probe(Some(7))),
            startup_probe: Some(probe(Some(9))),
            ..Container::default()
        };
        let silent = Container { liveness_probe: Some(probe(None)), ..Container::default() };
        for (deletion, spec, container, reason, seconds) in [
            (Some(0), Some(30), &container, KillReason::LivenessProbe, 0),
            (Some(5), None, &container, KillReason::Unknown, 5),
            (None, Some(30), &container, KillReason::LivenessProbe, 7),
            (None, Some(30), &container, KillReason::StartupProbe, 9),
            (None, Some(3), &container, KillReason::StartupProbe, 9),
            (None, Some(30), &container, KillReason::DefinitionChanged, 30),
            (None, Some(30), &silent, KillReason::LivenessProbe, 30),
            (None, Some(30), &silent, KillReason::StartupProbe, 30),
            (None, None, &container, KillReason::LivenessProbe, MINIMUM_SECONDS),
        ] {
            let given = termination_grace_period(&pod(deletion, spec), Some(container), reason);
            assert_eq!(given, seconds, "{deletion:?} {spec:?} {reason:?}");
        }
        let unknown = termination_grace_period(&pod(None, Some(30)), None, KillReason::LivenessProbe);
        assert_eq!(unknown, 30);
    }
}
