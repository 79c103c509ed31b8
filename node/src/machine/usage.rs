//! How much of the machine is in use.

use std::io;
use std::path::Path;

use super::{CgroupVersion, Error, Machine, malformed, parse};

/// Both limit tasks.
const TASK_LIMITS: [&str; 2] = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];

/// How much there is of something, and how much of that is still to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// What is left.
    pub available: i64,
    /// What there is in all.
    pub capacity: i64,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Space, in bytes; available to those who are not root.
    pub bytes: Amount,
    /// Inodes; zero of zero where there is no limit.
    pub inodes: Amount,
}

impl FileSystem {
    /// The file system on which `path` lies.
    ///
    /// # Errors
    /// There is nothing at `path`, or the file system does not answer.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let told = rustix::fs::statvfs(path)
            .map_err(|error| Error::FileSystem { path: path.to_owned(), source: io::Error::from(error) })?;
        let bytes = |blocks: u64| signed(blocks.saturating_mul(told.f_frsize));
        Ok(Self {
            bytes: Amount { available: bytes(told.f_bavail), capacity: bytes(told.f_blocks) },
            inodes: Amount { available: signed(told.f_ffree), capacity: signed(told.f_files) },
        })
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

impl Machine {
    /// The memory that is not in the working set of the machine's processes: what they use, without file pages that
    /// nobody used lately.
    ///
    /// # Errors
    /// The files of the memory controller can't be read.
    pub fn memory_usage(&self) -> Result<Amount, Error> {
        let meminfo = self.read("/proc/meminfo")?;
        let row = |row: &str| {
            parse::memory_info(&meminfo, row)
                .ok_or_else(|| malformed("/proc/meminfo", format!("{row} is missing")))
        };
        let capacity = row("MemTotal")?;
        let (used, stat, inactive) = match self.cgroup_version() {
            CgroupVersion::V1 => {
                const USAGE: &str = "/sys/fs/cgroup/memory/memory.usage_in_bytes";
                let text = self.read(USAGE)?;
                let used =
                    text.trim().parse().map_err(|_| malformed(USAGE, format!("no number: {text:?}")))?;
                (used, "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file")
            }
            // The root has no `memory.current`.
            CgroupVersion::V2 => (capacity - row("MemFree")?, "/sys/fs/cgroup/memory.stat", "inactive_file"),
        };
        let inactive = parse::memory_stat(&self.read(stat)?, inactive)
            .ok_or_else(|| malformed(stat, format!("{inactive} is missing")))?;
        let working_set = (used - inactive).max(0);
        Ok(Amount { available: (capacity - working_set).max(0), capacity })
    }

    /// The memory that is swapped out, in bytes; nothing on a machine that has no swap.
    ///
    /// # Errors
    /// `/proc` does not tell.
    pub fn swap_usage(&self) -> Result<u64, Error> {
        let meminfo = self.read("/proc/meminfo")?;
        let row = |row: &str| parse::memory_info(&meminfo, row).unwrap_or(0);
        Ok(u64::try_from(row("SwapTotal") - row("SwapFree")).unwrap_or(0))
    }

    /// The processor time, in nanoseconds, that all processes have used since the machine was started, as its topmost group
    /// counts it.
    ///
    /// # Errors
    /// The files of the processor controllers can't be read.
    pub fn processor_time(&self) -> Result<u64, Error> {
        let (path, row) = match self.cgroup_version() {
            CgroupVersion::V1 => {
                const USAGE: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage";
                let text = self.read(USAGE)?;
                return text.trim().parse().map_err(|_| malformed(USAGE, format!("no number: {text:?}")));
            }
            CgroupVersion::V2 => ("/sys/fs/cgroup/cpu.stat", "usage_usec"),
        };
        let microseconds = parse::cpu_stat(&self.read(path)?, row)
            .ok_or_else(|| malformed(path, format!("{row} is missing")))?;
        Ok(microseconds.saturating_mul(1000))
    }

    /// How many tasks the kernel allows, and how many more there can be.
    ///
    /// # Errors
    /// `/proc` does not tell.
    pub fn task_usage(&self) -> Result<Amount, Error> {
        let capacity =
            self.task_limit().ok_or_else(|| malformed(TASK_LIMITS[0], "the limit of tasks is missing"))?;
        let loadavg = self.read("/proc/loadavg")?;
        let tasks = parse::task_count(&loadavg)
            .ok_or_else(|| malformed("/proc/loadavg", format!("no number of tasks: {loadavg:?}")))?;
        Ok(Amount { available: capacity - tasks, capacity })
    }

    /// How many tasks there may be; `None` where the kernel does not tell.
    pub fn task_limit(&self) -> Option<i64> {
        let limit = |path: &&str| self.read(path).ok()?.trim().parse::<i64>().ok();
        TASK_LIMITS.iter().filter_map(limit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn inactive_file_pages_are_available_memory() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        write(
            root.path(),
            &[
                ("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "409600\n"),
                ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 102400\n"),
            ],
        );
        let (capacity, kib) = (1000 * 1024, 1024);
        assert_eq!(machine.memory_usage().unwrap(), Amount { available: 700 * kib, capacity });
        assert_eq!(machine.swap_usage().unwrap(), 30 * 1024);
        // Version 2 has other files: 700 KiB are in use, of which 200 are inactive.
        write(
            root.path(),
            &[
                ("sys/fs/cgroup/cgroup.controllers", "memory"),
                ("sys/fs/cgroup/memory.stat", "inactive_file 204800\n"),
            ],
        );
        assert_eq!(machine.memory_usage().unwrap(), Amount { available: 500 * kib, capacity });
        write(root.path(), &[("sys/fs/cgroup/memory.stat", "file 1\n")]);
        let error = machine.memory_usage().unwrap_err().to_string();
        assert_eq!(error, "reading /sys/fs/cgroup/memory.stat: inactive_file is missing");
    }

    #[test]
    fn processor_time_is_that_of_the_topmost_group() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        assert!(machine.processor_time().is_err());
        write(root.path(), &[("sys/fs/cgroup/cpuacct/cpuacct.usage", "1234567\n")]);
        assert_eq!(machine.processor_time().unwrap(), 1_234_567);
        let stat = "usage_usec 55\nuser_usec 5\n";
        write(root.path(), &[("sys/fs/cgroup/cgroup.controllers", "cpu"), ("sys/fs/cgroup/cpu.stat", stat)]);
        assert_eq!(machine.processor_time().unwrap(), 55_000);
    }

    #[test]
    fn the_lower_limit_of_tasks_counts() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        write(
            root.path(),
            &[("proc/loadavg", "0.1 0.1 0.1 1/100 77\n"), ("proc/sys/kernel/pid_max", "32768\n")],
        );
        assert_eq!(machine.task_usage().unwrap(), Amount { available: 32_668, capacity: 32_768 });
        write(root.path(), &[("proc/sys/kernel/threads-max", "1000\n")]);
        assert_eq!(machine.task_usage().unwrap(), Amount { available: 900, capacity: 1000 });
        std::fs::remove_dir_all(root.path().join("proc/sys")).unwrap();
        assert!(machine.task_usage().is_err());
    }

    #[test]
    fn a_file_system_that_is_not_there_is_named() {
        let here = FileSystem::of(Path::new("/")).unwrap();
        assert!(here.bytes.capacity >= here.bytes.available && here.bytes.capacity > 0);
        let error = FileSystem::of(Path::new("/no/such/folder")).unwrap_err().to_string();
        assert!(error.starts_with("measuring the file system of /no/such/folder: "), "{error}");
    }
}
