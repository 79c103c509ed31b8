//! Feature gates: what each stands for is fixed in this version.

use std::collections::BTreeMap;

/// Gates of upstream's that stand for something of a node, and whether this version does it.
const GATES: [(&str, bool); 21] = [
    ("ChangeContainerStatusOnKubeletRestart", false),
    ("ContainerRestartRules", true),
    ("ContainerStopSignals", false),
    ("CustomCPUCFSQuotaPeriod", true),
    ("EventedPLEG", false),
    ("ExtendWebSocketsToKubelet", false),
    ("GracefulNodeShutdown", false),
    ("InPlacePodLevelResourcesVerticalScaling", true),
    ("InPlacePodVerticalScaling", true),
    ("InPlacePodVerticalScalingInitContainers", true),
    ("KubeletCrashLoopBackOffMax", true),
    ("KubeletEnsureSecretPulledImages", true),
    ("MemoryQoS", false),
    ("NodeDeclaredFeatures", true),
    ("PodLevelResources", true),
    ("PodLifecycleSleepAction", true),
    ("PodObservedGenerationTracking", true),
    ("PodReadyToStartContainersCondition", true),
    ("RestartAllContainersOnContainerExits", true),
    ("RotateKubeletServerCertificate", false),
    ("SidecarContainers", true),
];

/// What to warn of: gates that are set to something else than what happens, or that nobody knows here.
pub(super) fn warnings(gates: &BTreeMap<String, bool>) -> impl Iterator<Item = String> {
    gates.iter().filter_map(|(gate, on)| {
        let here = GATES.iter().find(|(name, _)| name == gate).map(|(_, here)| *here);
        match (here, on) {
            (None, _) => Some(format!("feature gate {gate} is not known here and has no effect")),
            (Some(true), false) => Some(format!("feature gate {gate} can't be switched off here")),
            (Some(false), true) => Some(format!("feature gate {gate} can't be switched on here")),
            _ => None,
        }
    })
}
