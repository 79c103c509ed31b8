//! The machine's own control groups, where this process may make some.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::cgroups::group::{Group, Kernel};

/// A group of the test's own, gone with it.
struct Root {
    hierarchies: Hierarchies,
    path: String,
}

impl Root {
    /// `None` where none can be made.
    fn make() -> Option<Self> {
        let path = format!("/steersman-test-{}", std::process::id());
        let root = Self { hierarchies: Hierarchies::find().ok()?, path };
        let made = root.group().make();
        made.is_ok().then_some(root)
    }

    fn group(&self) -> Group<'_> {
        Group { hierarchies: &self.hierarchies, files: &Kernel, path: self.path.clone() }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _gone = self.group().remove();
    }
}

#[test]
fn the_kernel_takes_limits_and_lets_groups_go() {
    let Some(root) = Root::make() else { return };
    let settings = CgroupSettings {
        root: root.path.clone(),
        pods: PodLimitSettings { huge_page_sizes: Vec::new(), ..settings(CgroupDriver::Cgroupfs).pods },
        ..settings(CgroupDriver::Cgroupfs)
    };
    let tree = CgroupTree::find(settings).unwrap();
    tree.prepare(&there()).unwrap();
    let pod = guaranteed("u-1", "500m", "64Mi");
    tree.ensure(&pod).unwrap();
    assert!(tree.exists(&pod));
    let group = Group { hierarchies: &root.hierarchies, files: &Kernel, path: tree.parent_of(&pod) };
    let shown = match root.hierarchies.version {
        CgroupVersion::V1 => [
            group.get("cpu", "cpu.shares"),
            group.get("cpu", "cpu.cfs_quota_us"),
            group.get("memory", "memory.limit_in_bytes"),
        ],
        CgroupVersion::V2 => {
            [group.get("cpu", "cpu.weight"), group.get("cpu", "cpu.max"), group.get("memory", "memory.max")]
        }
    };
    let expected = match root.hierarchies.version {
        CgroupVersion::V1 => ["512", "50000", "67108864"],
        CgroupVersion::V2 => ["20", "50000 100000", "67108864"],
    };
    assert_eq!(shown, expected.map(|value| Some(value.to_owned())));

    // A container that has all of the pod's processor time keeps its share until it gives some back.
    let folders: Vec<PathBuf> = group.folders().filter(|folder| folder.is_dir()).collect();
    for folder in &folders {
        Kernel.make(&folder.join("container")).unwrap();
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(own) = fs::read_to_string(folder.join(file)) {
                fs::write(folder.join("container").join(file), own.trim()).unwrap();
            }
        }
    }
    if root.hierarchies.version == CgroupVersion::V1 {
        const FILE: &str = "cpu.cfs_quota_us";
        let container = Group { path: format!("{}/container", group.path), ..group };
        let container = container.folders().find(|folder| folder.join(FILE).exists()).unwrap();
        for (of_container, of_pod) in [("50000", "50000"), ("25000", "25000")] {
            fs::write(container.join(FILE), of_container).unwrap();
            tree.ensure(&guaranteed("u-1", "250m", "64Mi")).unwrap();
            assert_eq!(group.get("cpu", FILE).as_deref(), Some(of_pod));
        }
    }

    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    for folder in &folders {
        fs::write(folder.join("container/cgroup.procs"), child.id().to_string()).unwrap();
    }
    assert_eq!(tree.pods().unwrap().into_keys().collect::<Vec<_>>(), [Uid::from("u-1")]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = tree.remove(&Uid::from("u-1")) {
        // What was killed takes a moment to leave.
        assert!(Instant::now() < deadline, "{error}");
        child.try_wait().unwrap();
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!tree.exists(&pod) && tree.pods().unwrap().is_empty());
    assert!(folders.iter().all(|folder| !folder.exists()));
}
