use std::time::Duration;

use super::configuration;
use crate::configuration::{Amount, KubeletConfiguration, Signal};

#[test]
fn thresholds_are_amounts_or_parts_of_a_capacity() {
    let defaults = KubeletConfiguration::default().thresholds().unwrap();
    for (signal, capacity, kept) in [
        (Signal::MemoryAvailable, 8 << 30, Some(100 << 20)),
        // As the kubelet computes it, in single precision.
        (Signal::NodeFsAvailable, 100_000_000_000, Some(10_000_000_149)),
        (Signal::ImageFsInodesFree, 1000, Some(50)),
        (Signal::PidAvailable, 1000, None),
    ] {
        let threshold = defaults.iter().find(|threshold| threshold.signal == signal);
        assert_eq!(threshold.map(|threshold| threshold.value.of(capacity)), kept, "{signal:?}");
    }
}

#[test]
fn soft_thresholds_have_their_grace_period_and_both_kinds_their_reclaim() {
    let found = configuration(
        "evictionHard: {memory.available: 100Mi, nodefs.available: 0%, imagefs.available: 100%}\n\
         evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n\
         evictionMinimumReclaim: {memory.available: 5%}\n",
    )
    .thresholds()
    .unwrap();
    let kinds: Vec<_> = found.iter().map(|threshold| (threshold.signal, threshold.grace_period)).collect();
    let memory = Signal::MemoryAvailable;
    assert_eq!(kinds, [(memory, None), (memory, Some(Duration::from_secs(90)))]);
    assert!(found.iter().all(|threshold| threshold.min_reclaim == Some(Amount::Fraction(0.05))));
}

#[test]
fn signals_keep_their_names() {
    for name in ["memory.available", "nodefs.inodesFree", "containerfs.available", "pid.available"] {
        assert_eq!(Signal::parse(name).unwrap().as_str(), name);
    }
    assert_eq!(Signal::parse("memory"), None);
}
