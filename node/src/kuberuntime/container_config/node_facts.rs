//! What of the machine and of the node's settings the runtime's configuration depends on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroups::{CgroupVersion, Hierarchies};

/// What all sandboxes and containers of a node have in common.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The machine's memory in bytes.
    pub memory_capacity: i64,
    /// Its control groups.
    pub cgroup_version: CgroupVersion,
    /// Whether the kernel can limit swap.
    pub swap_controller: bool,
    /// The sizes of huge pages that it has, as the runtime names them: `2MB`, `1GB`.
    pub huge_page_sizes: Vec<String>,
    /// Folders of processors' thermal throttling, which tell containers too much: hidden from them.
    pub thermal_throttle: Vec<String>,
    /// Whether `SELinux` is on. Volumes are relabelled only then.
    pub selinux: bool,
    /// `cpuCFSQuota`: whether limits of processor time are enforced.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`: over which time.
    pub cpu_cfs_quota_period: Duration,
    /// `singleProcessOOMKill`: whether only the process is killed that ran out of memory, not all of its container. Has no
    /// effect on version 1, where it is always so.
    pub single_process_oom_kill: bool,
    /// `seccompDefault`: whether containers that do not say get the runtime's default profile rather than none.
    pub seccomp_default: bool,
    /// Where profiles lie that pods name: `<root directory>/seccomp`.
    pub seccomp_profile_root: PathBuf,
}

impl NodeFacts {
    /// This machine, with the settings that a node has unless it is told otherwise.
    pub fn of_this_machine(root_dir: &Path) -> Self {
        let cgroup_version = Hierarchies::find().map_or(CgroupVersion::V2, |found| found.version);
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let names = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
        let mut huge_page_sizes: Vec<String> =
            names.filter_map(|entry| huge_page_size(entry.file_name().to_str()?)).collect();
        huge_page_sizes.sort();
        let throttle = |cpu: usize| {
            Some(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle")).filter(|p| exists(p))
        };
        Self {
            memory_capacity: memory_capacity(&file("/proc/meminfo")),
            cgroup_version,
            swap_controller: match cgroup_version {
                CgroupVersion::V1 => exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"),
                // The root of the hierarchy has no such file.
                CgroupVersion::V2 => own_group(&file("/proc/self/cgroup"))
                    .is_some_and(|own| exists(&format!("/sys/fs/cgroup{own}/memory.swap.max"))),
            },
            huge_page_sizes,
            thermal_throttle: possible_cpus(&file("/sys/devices/system/cpu/possible"))
                .into_iter()
                .filter_map(throttle)
                .collect(),
            selinux: exists("/sys/fs/selinux/enforce"),
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: Duration::from_millis(100),
            single_process_oom_kill: cgroup_version == CgroupVersion::V1,
            seccomp_default: false,
            seccomp_profile_root: root_dir.join("seccomp"),
        }
    }

    /// The period of quotas in microseconds.
    pub fn quota_period(&self) -> i64 {
        i64::try_from(self.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX)
    }
}

fn exists(path: &str) -> bool {
    fs::exists(path).unwrap_or(false)
}

/// Total memory, in bytes, from `/proc/meminfo`; 0 where it does not say.
fn memory_capacity(meminfo: &str) -> i64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok());
    kib.map_or(0, |kib| kib.saturating_mul(1024))
}

/// The group of this process in version 2.
fn own_group(self_cgroup: &str) -> Option<&str> {
    self_cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

/// `hugepages-2048kB` as the runtime names it: `2MB`.
fn huge_page_size(folder: &str) -> Option<String> {
    let kib: u64 = folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(match kib {
        0..=1023 => format!("{kib}KB"),
        1024..=1_048_575 => format!("{}MB", kib >> 10),
        _ => format!("{}GB", kib >> 20),
    })
}

/// `0-3,8` as numbers; none where it is malformed.
fn possible_cpus(ranges: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = ranges.trim().split(',').map(range).collect();
    ranges.into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        assert_eq!(memory_capacity("MemTotal:       16316412 kB\nMemFree: 1 kB\n"), 16_316_412 * 1024);
        assert_eq!(memory_capacity("MemFree: 1 kB\n"), 0);
        assert_eq!(own_group("12:cpu:/a\n0::/system.slice/x.service\n"), Some("/system.slice/x.service"));
        for (folder, size) in [
            ("hugepages-64kB", Some("64KB")),
            ("hugepages-2048kB", Some("2MB")),
            ("hugepages-32768kB", Some("32MB")),
            ("hugepages-1048576kB", Some("1GB")),
            ("hugepages-2MB", None),
            ("else", None),
        ] {
            assert_eq!(huge_page_size(folder).as_deref(), size, "{folder}");
        }
        assert_eq!(possible_cpus("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(possible_cpus("0\n"), [0]);
        assert!(possible_cpus("").is_empty() && possible_cpus("0-x").is_empty());
    }
}
