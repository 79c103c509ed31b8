//! Control groups, over folders in which the kernel is imitated, and on the machine's own where that may be written.

mod limits;
mod real;
mod removal;
mod slices;
mod tree;
mod upkeep;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::group::Files;
use super::*;

fn pod(uid: &str, resources: Value) -> Pod {
    let container = json!({"name": "c", "resources": resources});
    serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": {"containers": [container]}})).unwrap()
}

fn burstable(uid: &str, cpu: &str) -> Pod {
    pod(uid, json!({"requests": {"cpu": cpu}}))
}

fn guaranteed(uid: &str, cpu: &str, memory: &str) -> Pod {
    let list = json!({"cpu": cpu, "memory": memory});
    pod(uid, json!({"requests": list, "limits": list}))
}

fn best_effort(uid: &str) -> Pod {
    pod(uid, json!({}))
}

fn settings(driver: CgroupDriver) -> CgroupSettings {
    CgroupSettings {
        driver,
        root: "/".to_owned(),
        pods: PodLimitSettings {
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: 100_000,
            pod_pids_limit: None,
            huge_page_sizes: vec!["2MB".to_owned()],
        },
    }
}

/// A machine's control groups in a temporary folder.
struct Machine {
    folder: TempDir,
    version: CgroupVersion,
}

fn imitation(version: CgroupVersion) -> Imitation {
    Imitation { version, withheld: "" }
}

/// What the kernel does with folders of control groups: a group comes with its files, and goes with them.
struct Imitation {
    version: CgroupVersion,
    /// A controller that no group of version 2 is given.
    withheld: &'static str,
}

const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "hugetlb", "memory", "pids", "systemd"];

fn files_of(controller: &str, version: CgroupVersion) -> &'static [(&'static str, &'static str)] {
    match (controller, version) {
        ("cpu", CgroupVersion::V1) => {
            &[("cpu.shares", "1024"), ("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "-1")]
        }
        ("cpu", CgroupVersion::V2) => &[("cpu.weight", "100"), ("cpu.max", "max 100000")],
        ("cpuset", CgroupVersion::V1) => &[("cpuset.cpus", "\n"), ("cpuset.mems", "\n")],
        ("hugetlb", CgroupVersion::V1) => &[("hugetlb.2MB.limit_in_bytes", "0")],
        ("hugetlb", CgroupVersion::V2) => &[("hugetlb.2MB.max", "max"), ("hugetlb.2MB.rsvd.max", "max")],
        ("memory", CgroupVersion::V1) => &[("memory.limit_in_bytes", "9223372036854771712")],
        ("memory", CgroupVersion::V2) => {
            &[("memory.max", "max"), ("memory.current", "0"), ("memory.stat", "anon 0\n")]
        }
        ("pids", _) => &[("pids.max", "max")],
        _ => &[],
    }
}

impl Files for Imitation {
    fn make(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        }
        fs::write(folder.join("cgroup.procs"), "")?;
        let controllers: Vec<String> = match self.version {
            CgroupVersion::V1 => {
                let of = |name: &&str| folder.iter().any(|part| part == *name);
                CONTROLLERS.iter().filter(|name| of(name)).map(|name| (*name).to_owned()).collect()
            }
            CgroupVersion::V2 => {
                let above = fs::read_to_string(folder.parent().unwrap().join("cgroup.subtree_control"))?;
                let names = above.split_whitespace().filter_map(|name| name.strip_prefix('+'));
                let handed_down: Vec<String> =
                    names.filter(|name| *name != self.withheld).map(str::to_owned).collect();
                fs::write(folder.join("cgroup.controllers"), handed_down.join(" "))?;
                fs::write(folder.join("cgroup.subtree_control"), "")?;
                handed_down
            }
        };
        for (file, value) in controllers.iter().flat_map(|controller| files_of(controller, self.version)) {
            fs::write(folder.join(file), value)?;
        }
        Ok(())
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        fs::remove_dir(folder)
    }
}

impl Machine {
    fn new(version: CgroupVersion) -> Self {
        let folder = tempfile::tempdir().unwrap();
        match version {
            CgroupVersion::V1 => {
                for controller in CONTROLLERS {
                    fs::create_dir(folder.path().join(controller)).unwrap();
                }
                fs::write(folder.path().join("cpuset/cpuset.cpus"), "0-3\n").unwrap();
                fs::write(folder.path().join("cpuset/cpuset.mems"), "0\n").unwrap();
            }
            CgroupVersion::V2 => {
                fs::write(folder.path().join("cgroup.controllers"), "cpu cpuset hugetlb memory pids")
                    .unwrap();
                fs::write(folder.path().join("cgroup.subtree_control"), "").unwrap();
            }
        }
        Self { folder, version }
    }

    fn hierarchies(&self) -> Hierarchies {
        let place = |controller: &str| match self.version {
            CgroupVersion::V1 => self.folder.path().join(controller),
            CgroupVersion::V2 => self.folder.path().to_path_buf(),
        };
        let names =
            CONTROLLERS.iter().filter(|name| self.version == CgroupVersion::V1 || **name != "systemd");
        let controllers: BTreeMap<String, PathBuf> =
            names.map(|name| ((*name).to_owned(), place(name))).collect();
        let beside = (self.version == CgroupVersion::V1).then(|| self.folder.path().join("unified"));
        Hierarchies { version: self.version, controllers, beside }
    }

    fn tree(&self, settings: CgroupSettings) -> Result<CgroupTree, Error> {
        CgroupTree::new(self.hierarchies(), Box::new(imitation(self.version)), None, settings)
    }

    /// A tree of the driver cgroupfs, prepared on a machine of 4 processors and 8 GiB.
    fn prepared(&self) -> CgroupTree {
        let tree = self.tree(settings(CgroupDriver::Cgroupfs)).unwrap();
        tree.prepare(&there()).unwrap();
        tree
    }

    fn path(&self, controller: &str, group: &str) -> PathBuf {
        let place = match self.version {
            CgroupVersion::V1 => self.folder.path().join(controller),
            CgroupVersion::V2 => self.folder.path().to_path_buf(),
        };
        place.join(group.trim_start_matches('/'))
    }

    fn read(&self, group: &str, file: &str) -> String {
        let controller =
            if file.starts_with("cgroup.") { "systemd" } else { file.split('.').next().unwrap() };
        fs::read_to_string(self.path(controller, group).join(file)).unwrap().trim().to_owned()
    }

    fn write(&self, group: &str, file: &str, value: &str) {
        let controller =
            if file.starts_with("cgroup.") { "systemd" } else { file.split('.').next().unwrap() };
        fs::write(self.path(controller, group).join(file), value).unwrap();
    }
}

fn there() -> crate::resources::ResourceList {
    let list = json!({"cpu": "4", "memory": "8Gi", "pid": "1000"});
    serde_json::from_value::<BTreeMap<String, steersman_api::Quantity>>(list).unwrap()
}
