//! What stays as it is while the machine runs.

use super::{Error, FileSystem, Machine, malformed, parse};

/// What stays as it is while the machine runs. Measured once, at the node's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Processors that are online.
    pub cpus: u32,
    /// Memory, in bytes.
    pub memory: i64,
    /// Swap, in bytes; zero for none.
    pub swap: i64,
    /// Pages by their size in bytes.
    pub huge_pages: Vec<HugePages>,
    /// The capacity of the file system on which the node keeps its pods, in bytes.
    pub ephemeral_storage: i64,
    /// `/etc/machine-id`; may be empty.
    pub machine_id: String,
    /// What the firmware calls the machine; the machine id where it does not say.
    pub system_uuid: String,
    /// Another one with each boot.
    pub boot_id: String,
    /// When the machine was started, in seconds since 1970, where the kernel tells.
    pub boot_time: Option<i64>,
    /// As `uname -r` tells.
    pub kernel_version: String,
    /// For people, such as `Debian GNU/Linux 12 (bookworm)`.
    pub os_image: String,
    /// Go's name for it, such as `amd64`.
    pub architecture: &'static str,
    /// The version of the cgroup file system.
    pub cgroup_version: CgroupVersion,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages {
    /// In bytes.
    pub size: i64,
    /// How many are set aside.
    pub count: i64,
}

/// The two interfaces to control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

impl Machine {
    /// Measures. `root_dir` is the folder in which the node keeps its pods.
    ///
    /// # Errors
    /// Processors, memory, the boot's id or the file system can't be told: there is no node without.
    pub fn facts(&self, root_dir: &std::path::Path) -> Result<Facts, Error> {
        let meminfo = self.read("/proc/meminfo")?;
        let memory = parse::memory_info(&meminfo, "MemTotal")
            .ok_or_else(|| malformed("/proc/meminfo", "MemTotal is missing"))?;
        let machine_id =
            self.read_first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]).unwrap_or_default();
        Ok(Facts {
            cpus: self.cpus()?,
            memory,
            swap: parse::memory_info(&meminfo, "SwapTotal").unwrap_or(0),
            huge_pages: self.huge_pages()?,
            ephemeral_storage: FileSystem::of(root_dir)?.bytes.capacity,
            system_uuid: self.system_uuid().unwrap_or_else(|| machine_id.clone()),
            machine_id,
            boot_id: self.read("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            boot_time: self.read("/proc/stat").ok().and_then(|stat| parse::boot_time(&stat)),
            kernel_version: self.read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            os_image: self
                .read_first(&["/etc/os-release", "/usr/lib/os-release"])
                .map_or_else(|| "Unknown".to_owned(), |text| parse::os_image(&text)),
            architecture: architecture(std::env::consts::ARCH),
            cgroup_version: self.cgroup_version(),
        })
    }

    /// Which cgroup file system is mounted at the usual place.
    pub fn cgroup_version(&self) -> CgroupVersion {
        match self.path("/sys/fs/cgroup/cgroup.controllers").exists() {
            true => CgroupVersion::V2,
            false => CgroupVersion::V1,
        }
    }

    fn cpus(&self) -> Result<u32, Error> {
        const ONLINE: &str = "/sys/devices/system/cpu/online";
        if let Ok(list) = self.read(ONLINE) {
            return parse::cpu_count(&list)
                .ok_or_else(|| malformed(ONLINE, format!("no list of processors: {list:?}")));
        }
        let count = parse::processors(&self.read("/proc/cpuinfo")?);
        u32::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| malformed("/proc/cpuinfo", "no processor is listed"))
    }

    /// None where the kernel has no huge pages.
    fn huge_pages(&self) -> Result<Vec<HugePages>, Error> {
        let Ok(folders) = std::fs::read_dir(self.path(HUGE_PAGES)) else { return Ok(Vec::new()) };
        let mut pages = Vec::new();
        for folder in folders.flatten() {
            let name = folder.file_name();
            let Some(size) = name.to_str().and_then(parse::huge_page_size) else { continue };
            let path = folder.path().join("nr_hugepages");
            let text = std::fs::read_to_string(&path)
                .map_err(|source| Error::Read { path: path.clone(), source })?;
            let count = text.trim().parse().map_err(|_| malformed(&path, format!("no number: {text:?}")))?;
            pages.push(HugePages { size, count });
        }
        pages.sort_by_key(|pages| pages.size);
        Ok(pages)
    }

    fn system_uuid(&self) -> Option<String> {
        let told = self.read_first(&[
            "/sys/class/dmi/id/product_uuid",
            "/proc/device-tree/system-id",
            "/proc/device-tree/vm,uuid",
            "/etc/machine-id",
        ]);
        told.map(|text| text.trim_end_matches('\0').trim().to_owned())
    }
}

/// Go's name for an architecture that Rust names.
pub fn architecture(name: &'static str) -> &'static str {
    match name {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A machine of files, and its root.
    fn machine() -> (Machine, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/meminfo", "MemTotal: 2048 kB\nSwapTotal: 1024 kB\n"),
            ("proc/stat", "btime 1700000000\n"),
            ("proc/sys/kernel/random/boot_id", "b-1\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-1-amd64\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("sys/class/dmi/id/product_uuid", "u-1\n"),
            ("etc/machine-id", "m-1\n"),
            ("usr/lib/os-release", "PRETTY_NAME=\"Clear\"\n"),
        ] {
            write(root.path(), path, text);
        }
        (Machine::at(root.path()), root)
    }

    #[test]
    fn facts_come_from_the_machines_files() {
        let (machine, root) = machine();
        let facts = machine.facts(root.path()).unwrap();
        assert_eq!((facts.cpus, facts.memory, facts.swap), (4, 2 << 20, 1 << 20));
        assert_eq!(
            facts.huge_pages,
            [HugePages { size: 2 << 20, count: 4 }, HugePages { size: 1 << 30, count: 0 }]
        );
        assert_eq!((facts.machine_id.as_str(), facts.system_uuid.as_str()), ("m-1", "u-1"));
        assert_eq!((facts.boot_id.as_str(), facts.boot_time), ("b-1", Some(1_700_000_000)));
        assert_eq!((facts.kernel_version.as_str(), facts.os_image.as_str()), ("6.1.0-1-amd64", "Clear"));
        assert_eq!(facts.cgroup_version, CgroupVersion::V1);
        assert!(facts.ephemeral_storage > 0);
        write(root.path(), "sys/fs/cgroup/cgroup.controllers", "cpu memory");
        assert_eq!(machine.cgroup_version(), CgroupVersion::V2);
    }

    #[test]
    fn what_is_optional_may_be_missing_and_what_is_not_is_named() {
        let (machine, root) = machine();
        for path in ["sys/class", "sys/kernel", "sys/devices", "etc", "usr", "proc/stat"] {
            let path = root.path().join(path);
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        }
        write(root.path(), "proc/cpuinfo", "processor : 0\n");
        let facts = machine.facts(root.path()).unwrap();
        assert_eq!((facts.cpus, facts.huge_pages.len()), (1, 0));
        assert_eq!((facts.machine_id.as_str(), facts.system_uuid.as_str()), ("", ""));
        assert_eq!((facts.os_image.as_str(), facts.boot_time), ("Unknown", None));

        write(root.path(), "proc/meminfo", "MemFree: 1 kB\n");
        let error = machine.facts(root.path()).unwrap_err();
        assert_eq!(error.to_string(), "reading /proc/meminfo: MemTotal is missing");
        std::fs::remove_file(root.path().join("proc/meminfo")).unwrap();
        assert!(machine.facts(root.path()).unwrap_err().to_string().contains("proc/meminfo"));
    }

    #[test]
    fn this_machine_can_be_measured() {
        let facts = Machine::this().facts(Path::new("/")).unwrap();
        assert!(facts.cpus > 0 && facts.memory > 1 << 20 && facts.ephemeral_storage > 1 << 20);
        assert!(!facts.boot_id.is_empty() && !facts.kernel_version.is_empty());
    }

    #[test]
    fn architectures_are_called_as_go_calls_them() {
        for (rust, go) in [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")] {
            assert_eq!(architecture(rust), go);
        }
    }
}
