//! Limits, as systemd knows them.

use std::collections::BTreeMap;

use crate::cgroups::cpu::weight_of_shares;
use crate::cgroups::{CgroupVersion, CpuQuota, Limits};

/// Properties of a slice by name.
pub(in crate::cgroups) type Properties = BTreeMap<&'static str, u64>;

const NO_LIMIT: u64 = u64::MAX;
const SECOND: u64 = 1_000_000;
/// systemd has shares of processor time in hundredths: in these many microseconds of each second.
const PERCENT: u64 = SECOND / 100;

/// What systemd has a word for. Huge pages it does not know.
pub(in crate::cgroups) fn of_limits(limits: &Limits, version: CgroupVersion) -> Properties {
    let mut properties = Properties::new();
    let is_v1 = version == CgroupVersion::V1;
    if let Some(shares) = limits.cpu_shares {
        match version {
            CgroupVersion::V1 => properties.insert("CPUShares", shares),
            CgroupVersion::V2 => properties.insert("CPUWeight", weight_of_shares(shares)),
        };
    }
    if let Some(CpuQuota { quota, period }) = limits.cpu_quota {
        properties.insert("CPUQuotaPeriodUSec", period);
        let of_second = |quota: u64| quota.saturating_mul(SECOND) / period.max(1);
        properties.insert("CPUQuotaPerSecUSec", quota.map_or(NO_LIMIT, of_second));
    }
    if let Some(memory) = limits.memory {
        properties.insert(if is_v1 { "MemoryLimit" } else { "MemoryMax" }, memory);
    }
    if let Some(pids) = limits.pids {
        // It takes none of nothing.
        properties.insert("TasksMax", pids.max(1));
    }
    properties
}

/// The quota rounded up to what systemd keeps: what a runtime sets for a container is rounded so as well, and must fit into
/// its pod's.
pub(in crate::cgroups) fn whole_percents(CpuQuota { quota, period }: CpuQuota) -> CpuQuota {
    let rounded = |quota: u64| {
        let of_second = quota.saturating_mul(SECOND) / period.max(1);
        of_second.div_ceil(PERCENT).saturating_mul(PERCENT).saturating_mul(period) / SECOND
    };
    CpuQuota { quota: quota.map(rounded), period }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 100_000;

    #[test]
    fn limits_have_their_names_in_systemd() {
        let limits = Limits {
            cpu_shares: Some(1024),
            cpu_quota: Some(CpuQuota { quota: Some(5000), period: 50_000 }),
            memory: Some(4096),
            pids: Some(0),
            huge_pages: [("2MB".to_owned(), 1)].into(),
        };
        let quota = [("CPUQuotaPerSecUSec", 100_000), ("CPUQuotaPeriodUSec", 50_000), ("TasksMax", 1)];
        let mut v2 = Properties::from(quota);
        v2.extend([("CPUWeight", 39), ("MemoryMax", 4096)]);
        assert_eq!(of_limits(&limits, CgroupVersion::V2), v2);
        let mut v1 = Properties::from(quota);
        v1.extend([("CPUShares", 1024), ("MemoryLimit", 4096)]);
        assert_eq!(of_limits(&limits, CgroupVersion::V1), v1);
        let free = Limits { cpu_quota: Some(CpuQuota { quota: None, period: PERIOD }), ..Limits::default() };
        let expected = [("CPUQuotaPerSecUSec", u64::MAX), ("CPUQuotaPeriodUSec", PERIOD)];
        assert_eq!(of_limits(&free, CgroupVersion::V2), Properties::from(expected));
        assert!(of_limits(&Limits::default(), CgroupVersion::V2).is_empty());
    }

    #[test]
    fn quotas_are_of_whole_percents() {
        for (quota, period, rounded) in [
            (Some(10_000), PERIOD, Some(10_000)),
            (Some(12_500), PERIOD, Some(13_000)),
            (Some(12_001), PERIOD, Some(13_000)),
            (Some(1000), PERIOD, Some(1000)),
            (Some(2500), 5000, Some(2500)),
            (Some(2501), 5000, Some(2550)),
            (None, PERIOD, None),
        ] {
            let is = whole_percents(CpuQuota { quota, period });
            assert_eq!(is, CpuQuota { quota: rounded, period }, "{quota:?} of {period}");
        }
    }
}
