//! What a group may use, and which files say so to the kernel.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Quantity;

use super::CgroupVersion;
use super::cpu::{MIN_SHARES, quota_of_milli_cpu, shares_of_milli_cpu, weight_of_shares};
use crate::resources::{
    CPU, MEMORY, QosClass, ResourceList, amount, every_container_limits, huge_pages_by_size, limits,
    pod_level, pod_limits, pod_requests, qos_class,
};

/// The resource by which the number of processes is limited. No Node has it: it counts for groups alone.
pub const PIDS: &str = "pid";
/// The controller of huge pages.
pub(super) const HUGE_PAGES: &str = "hugetlb";
/// As good as no limit of huge pages, which have no other way to say so on version 1.
const UNBOUNDED: u64 = 1 << 62;

/// What a group may use. What is not said stays as it is: unlimited, in a new group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Its weight among its siblings, in the units of version 1.
    pub cpu_shares: Option<u64>,
    /// Processor time.
    pub cpu_quota: Option<CpuQuota>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes by size of page as the kernel names it; all sizes of the machine, or none.
    pub huge_pages: BTreeMap<String, u64>,
}

/// Processor time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Of each period; `None` for all.
    pub quota: Option<u64>,
    /// The period.
    pub period: u64,
}

/// What decides about pods' limits besides the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLimitSettings {
    /// `cpuCFSQuota`: whether limits of processor time are enforced.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`, in microseconds.
    pub cpu_cfs_quota_period: u64,
    /// `podPidsLimit`, if it is above 0.
    pub pod_pids_limit: Option<u64>,
    /// The sizes of huge pages of this machine, as the kernel names them: `2MB`.
    pub huge_page_sizes: Vec<String>,
}

impl Limits {
    /// A pod's. Guaranteed ones have all limits. Burstable ones have those that all of their containers have, or that the pod
    /// has as a whole: the sum of some containers' limits says nothing of the others. Of huge pages a pod has what it asks
    /// for.
    pub fn of_pod(pod: &Pod, settings: &PodLimitSettings) -> Self {
        let (asked, allowed, of_pod) = (pod_requests(pod), pod_limits(pod), limits(pod_level(pod)));
        let declared =
            |resource| every_container_limits(pod, resource) || !amount(&of_pod, resource).is_zero();
        let class = qos_class(pod);
        let bound = |resource| match class {
            QosClass::Guaranteed => true,
            QosClass::Burstable => declared(resource),
            QosClass::BestEffort => false,
        };
        let period = settings.cpu_cfs_quota_period;
        let quota = || {
            let milli_cpu = amount(&allowed, CPU).milli_value();
            let quota = quota_of_milli_cpu(milli_cpu, i64::try_from(period).unwrap_or(i64::MAX));
            u64::try_from(quota).ok().filter(|quota| *quota > 0 && settings.cpu_cfs_quota)
        };
        Self {
            cpu_shares: Some(match class {
                QosClass::BestEffort => MIN_SHARES,
                _ => shares_of_milli_cpu(amount(&asked, CPU).milli_value()),
            }),
            cpu_quota: bound(CPU).then(|| CpuQuota { quota: quota(), period }),
            memory: bound(MEMORY).then(|| bytes(amount(&allowed, MEMORY))).filter(|bytes| *bytes > 0),
            pids: settings.pod_pids_limit,
            huge_pages: {
                let asked = huge_pages_by_size(&asked);
                let of_size = |size: &String| (size.clone(), asked.get(size).copied().map_or(0, bytes));
                settings.huge_page_sizes.iter().map(of_size).collect()
            },
        }
    }

    /// Those of all pods together, of what is there for them.
    pub fn of_node(there: &ResourceList, huge_page_sizes: &[String]) -> Self {
        Self {
            cpu_shares: there.get(CPU).map(|cpu| shares_of_milli_cpu(cpu.milli_value())),
            cpu_quota: None,
            memory: there.get(MEMORY).map(|memory| bytes(*memory)),
            pids: there.get(PIDS).map(|pids| bytes(*pids)),
            huge_pages: unbounded(huge_page_sizes),
        }
    }

    /// Those of all pods of one class: their weight, and huge pages without limit.
    pub fn of_class(cpu_shares: u64, huge_page_sizes: &[String]) -> Self {
        Self { cpu_shares: Some(cpu_shares), huge_pages: unbounded(huge_page_sizes), ..Self::default() }
    }

    /// The files that say so, in the order to write them.
    pub(super) fn files(&self, version: CgroupVersion) -> Vec<Setting> {
        match version {
            CgroupVersion::V1 => self.files_v1(),
            CgroupVersion::V2 => self.files_v2(),
        }
    }

    fn files_v1(&self) -> Vec<Setting> {
        let mut files = Vec::new();
        if let Some(shares) = self.cpu_shares {
            files.push(Setting::new("cpu", "cpu.shares", shares));
        }
        if let Some(CpuQuota { quota, period }) = self.cpu_quota {
            files.push(Setting::new("cpu", "cpu.cfs_period_us", period));
            let quota = quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
            files.push(Setting::new("cpu", "cpu.cfs_quota_us", quota));
        }
        if let Some(memory) = self.memory {
            files.push(Setting::new("memory", "memory.limit_in_bytes", memory));
        }
        if let Some(pids) = self.pids {
            files.push(Setting::new("pids", "pids.max", pids));
        }
        for (size, limit) in &self.huge_pages {
            files.push(Setting::new(HUGE_PAGES, format!("hugetlb.{size}.limit_in_bytes"), limit));
            files.push(
                Setting::new(HUGE_PAGES, format!("hugetlb.{size}.rsvd.limit_in_bytes"), limit).optional(),
            );
        }
        files
    }

    fn files_v2(&self) -> Vec<Setting> {
        let mut files = Vec::new();
        if let Some(shares) = self.cpu_shares {
            files.push(Setting::new("cpu", "cpu.weight", weight_of_shares(shares)));
        }
        if let Some(CpuQuota { quota, period }) = self.cpu_quota {
            let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
            files.push(Setting::new("cpu", "cpu.max", format!("{quota} {period}")));
        }
        if let Some(memory) = self.memory {
            files.push(Setting::new("memory", "memory.max", memory));
        }
        if let Some(pids) = self.pids {
            files.push(Setting::new("pids", "pids.max", pids));
        }
        for (size, limit) in &self.huge_pages {
            files.push(Setting::new(HUGE_PAGES, format!("hugetlb.{size}.max"), limit));
            files.push(Setting::new(HUGE_PAGES, format!("hugetlb.{size}.rsvd.max"), limit).optional());
        }
        files
    }
}

/// One file of a group, and what is to be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Whose file it is; where the machine has no such controller, nothing is set.
    pub(super) controller: &'static str,
    /// Its name.
    pub(super) file: String,
    /// What the kernel shows once it is set.
    pub(super) value: String,
    /// Whether older kernels lack it.
    pub(super) optional: bool,
}

impl Setting {
    fn new(controller: &'static str, file: impl Into<String>, value: impl ToString) -> Self {
        Self { controller, file: file.into(), value: value.to_string(), optional: false }
    }

    fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// What of the machine's `capacity` is left for pods: without what is reserved for the system and for Kubernetes. What
/// evictions keep free is not taken away: groups enforce what pods may use, evictions come before.
pub fn left_for_pods(capacity: &ResourceList, reserved: &[&ResourceList]) -> ResourceList {
    let left = |(name, there): (&String, &Quantity)| {
        let left = reserved.iter().fold(*there, |left, list| left - amount(list, name));
        (name.clone(), left.max(Quantity::default()))
    };
    capacity.iter().map(left).collect()
}

fn unbounded(huge_page_sizes: &[String]) -> BTreeMap<String, u64> {
    huge_page_sizes.iter().map(|size| (size.clone(), UNBOUNDED)).collect()
}

fn bytes(quantity: Quantity) -> u64 {
    u64::try_from(quantity.value()).unwrap_or_default()
}
