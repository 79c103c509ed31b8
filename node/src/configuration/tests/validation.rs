use super::{KubeletConfiguration, configuration, invalid, refused};
use crate::configuration::{Enforcement, GoDuration};

#[test]
fn values_that_cannot_be_are_named_with_the_reason() {
    for (lines, fault) in [
        ("nodeLeaseDurationSeconds: -1", "nodeLeaseDurationSeconds: -1: must be greater than 0"),
        ("nodeStatusMaxImages: -2", "nodeStatusMaxImages: -2: must be -1 or greater"),
        (
            "tlsCipherSuites: [TLS_NULL]",
            "tlsCipherSuites[0]: TLS_NULL: Cipher suite TLS_NULL not supported or doesn't exist",
        ),
        ("tlsCertFile: /a.crt", "tlsCertFile: /a.crt: must be given together with tlsPrivateKeyFile"),
        ("maxParallelImagePulls: 0", "maxParallelImagePulls: 0: must be a positive number"),
        (
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            "maxParallelImagePulls: 2: cannot be larger than 1 unless serializeImagePulls is set to false",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            "crashLoopBackOff.maxContainerRestartPeriod: 5m1s: must be set between 1s and 300s",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 999ms}",
            "crashLoopBackOff.maxContainerRestartPeriod: 999ms: must be set between 1s and 300s",
        ),
        (
            "preloadedImagesVerificationAllowlist: [a.b/c]",
            "preloadedImagesVerificationAllowlist: [\"a.b/c\"]: can't be set unless imagePullCredentialsVerificationPolicy is NeverVerifyAllowlistedImages",
        ),
        ("containerLogMaxFiles: 1", "containerLogMaxFiles: 1: must be greater than 1"),
        ("containerLogMaxWorkers: 0", "containerLogMaxWorkers: 0: must be greater than or equal to 1"),
        (
            "containerLogMonitorInterval: 2s",
            "containerLogMonitorInterval: 2s: must be a positive time duration greater than or equal to 3s",
        ),
        ("podLogsDir: /var/../logs", "podLogsDir: /var/../logs: must be normalized"),
        ("podLogsDir: /var/log/", "podLogsDir: /var/log/: must be normalized"),
        ("podLogsDir: /vär", "podLogsDir: /vär: must contain ASCII characters only"),
        ("cpuCFSQuotaPeriod: 2s", "cpuCFSQuotaPeriod: 2s: must be between 1ms and 1s, inclusive"),
        ("kubeReserved: {disk: 1Gi}", "kubeReserved.disk: 1Gi: this resource cannot be reserved"),
        ("systemReserved: {cpu: -1}", "systemReserved.cpu: -1: cannot be negative"),
        ("enforceNodeAllocatable: [pods, none]", "enforceNodeAllocatable: \"none\": must stand alone"),
        ("enforceNodeAllocatable: [pods, pods]", "enforceNodeAllocatable: \"pods\": is there more than once"),
        (
            "enforceNodeAllocatable: [kube-reserved]",
            "enforceNodeAllocatable: \"kube-reserved\": wants the reserved cgroup to be named",
        ),
        ("cgroupsPerQOS: false", "enforceNodeAllocatable: \"pods\": wants cgroupsPerQOS to be true"),
        (
            "systemReservedCgroup: /a\nenforceNodeAllocatable: [system-reserved, system-reserved-compressible]",
            "enforceNodeAllocatable: \"system-reserved\": cannot be specified together with \"system-reserved-compressible\"",
        ),
        ("evictionHard: {disk: 1Gi}", "evictionHard.disk: unsupported eviction signal"),
        ("evictionHard: {memory.available: '0'}", "evictionHard.memory.available: \"0\": must be positive"),
        (
            "evictionHard: {memory.available: 101%}",
            "evictionHard.memory.available: \"101%\": must be between 0% and 100%",
        ),
        ("evictionHard: {memory.available: x%}", "evictionHard.memory.available: \"x%\": is no percentage"),
        ("evictionHard: {memory.available: much}", "evictionHard.memory.available: \"much\": is no quantity"),
        (
            "evictionSoft: {memory.available: 1Gi}",
            "evictionSoft.memory.available: a grace period must be specified for it in evictionSoftGracePeriod",
        ),
        (
            "containerRuntimeEndpoint: tcp://1.2.3.4:5",
            "containerRuntimeEndpoint: endpoint \"tcp://1.2.3.4:5\": protocol \"tcp\" is not supported, only unix is",
        ),
        (
            "registerWithTaints: [{key: a b, effect: NoSchedule}]",
            "registerWithTaints[0]: a b=:NoSchedule: the key is none of a taint",
        ),
        (
            "registerWithTaints: [{key: a, effect: Never}]",
            "registerWithTaints[0]: a=:Never: unsupported taint effect",
        ),
    ] {
        assert_eq!(refused(lines), format!("invalid configuration: {fault}"), "{lines}");
    }
}

#[test]
fn all_that_is_wrong_is_told_in_one_line() {
    let wrong = KubeletConfiguration {
        port: 0,
        container_log_max_files: 0,
        sync_frequency: GoDuration::seconds(1),
        ..KubeletConfiguration::default()
    };
    assert_eq!(invalid(&wrong).len(), 2);
    assert!(refused("nodeStatusMaxImages: -2\ncontainerLogMaxFiles: 1").contains("; "));
}

#[test]
fn pods_without_cgroups_need_nothing_enforced() {
    let found = configuration("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n");
    assert_eq!(found.enforce_node_allocatable, [Enforcement::None]);
    assert!(
        configuration("cgroupsPerQOS: false\nenforceNodeAllocatable: []\n")
            .enforce_node_allocatable
            .is_empty()
    );
}

#[test]
fn cgroup_v1_must_be_allowed() {
    let refusal = configuration("").allows_cgroup_v1().unwrap_err().to_string();
    assert_eq!(refusal, "failCgroupV1: this machine has cgroup v1, and it is set to refuse that");
    configuration("failCgroupV1: false").allows_cgroup_v1().unwrap();
    configuration("failCgroupV1: false\nsingleProcessOOMKill: false").allows_cgroup_v1().unwrap_err();
}
