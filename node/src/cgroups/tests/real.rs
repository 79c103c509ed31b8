//! The machine's own control groups, where this process may make some: those that it uses, and those of version 2, which a
//! machine that uses version 1 has as well.

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
        Group { hierarchies: &self.hierarchies, files: &Kernel, path: self.path.clone(), slices: None }
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
    let group =
        Group { hierarchies: &root.hierarchies, files: &Kernel, path: tree.parent_of(&pod), slices: None };
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

/// Names the mount of version 2 to the process that runs in it.
const PLACE: &str = "STEERSMAN_TEST_CGROUP2";
/// What the shell ends with where nothing can be mounted.
const NO_MOUNT: i32 = 77;

/// A mount in this process's own view could be taken for the machine's by others: so this very test is run again in a
/// process with a view of its own. Whatever controllers version 1 does not have are there.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "that is how the process outside names the place to the one inside"
)]
fn the_kernel_takes_groups_of_version_two() {
    if let Ok(place) = std::env::var(PLACE) {
        return in_a_mount_of_version_two(&PathBuf::from(place));
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t cgroup2 none \"$1\" || exit {NO_MOUNT}; \
         exec \"$2\" --exact cgroups::tests::real::the_kernel_takes_groups_of_version_two --nocapture"
    );
    let ran = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"])
        .arg(place.path())
        .arg(std::env::current_exe().unwrap())
        .env(PLACE, place.path())
        .output();
    // Machines without that program, or that withhold it.
    let Ok(ran) = ran else { return };
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_ne!(ran.status.code(), Some(101), "{said}");
    assert!(!ran.status.success() || said.contains("1 passed"), "{said}");
}

/// Takes back what the topmost group was made to hand down.
struct HandedDown {
    control: PathBuf,
    before: String,
}

impl Drop for HandedDown {
    fn drop(&mut self) {
        for controller in fs::read_to_string(&self.control).unwrap_or_default().split_whitespace() {
            if !self.before.split_whitespace().any(|one| one == controller) {
                let _others_use_it = fs::write(&self.control, format!("-{controller}"));
            }
        }
    }
}

fn in_a_mount_of_version_two(place: &Path) {
    let control = place.join("cgroup.subtree_control");
    let _handed_down = HandedDown { before: fs::read_to_string(&control).unwrap(), control };
    let controllers = fs::read_to_string(place.join("cgroup.controllers")).unwrap();
    let controllers = controllers.split_whitespace().map(|name| (name.to_owned(), place.to_owned()));
    // A hierarchy without any is one all the same.
    let none = ("none".to_owned(), place.to_owned());
    let hierarchies = Hierarchies {
        version: CgroupVersion::V2,
        controllers: controllers.chain([none]).collect(),
        beside: None,
    };
    let root =
        Root { hierarchies: hierarchies.clone(), path: format!("/steersman-test-{}", std::process::id()) };
    root.group().make().unwrap();
    let tree = CgroupTree::new(
        hierarchies.clone(),
        Box::new(Kernel),
        None,
        CgroupSettings { root: root.path.clone(), ..settings(CgroupDriver::Cgroupfs) },
    )
    .unwrap();
    tree.prepare(&there()).unwrap();
    tree.enforce_node(&there()).unwrap();
    let of_pages = |pages: &str| {
        let list = json!({ "cpu": "500m", "memory": "64Mi", "hugepages-2Mi": pages });
        pod("u-1", json!({ "requests": list, "limits": list }))
    };
    let pod = of_pages("4Mi");
    tree.ensure(&pod).unwrap();
    tree.ensure(&burstable("u-2", "250m")).unwrap();
    tree.update_classes([&pod, &burstable("u-2", "250m")]).unwrap();
    assert!(tree.exists(&pod));
    let group =
        Group { hierarchies: &root.hierarchies, files: &Kernel, path: tree.parent_of(&pod), slices: None };
    let has = |controller: &str, file: &str| {
        let folder = group.folders().next().unwrap();
        hierarchies.controllers.contains_key(controller) && folder.join(file).exists()
    };
    for (controller, file, value) in [
        ("cpu", "cpu.max", "50000 100000"),
        ("memory", "memory.max", "67108864"),
        ("hugetlb", "hugetlb.2MB.max", "4194304"),
    ] {
        if has(controller, file) {
            assert_eq!(group.get(controller, file).as_deref(), Some(value), "{file}");
        }
    }
    tree.ensure(&of_pages("2Mi")).unwrap();
    if has("hugetlb", "hugetlb.2MB.max") {
        assert_eq!(group.get("hugetlb", "hugetlb.2MB.max").as_deref(), Some("2097152"));
    }

    let folder = group.folders().next().unwrap();
    Kernel.make(&folder.join("container")).unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(folder.join("container/cgroup.procs"), child.id().to_string()).unwrap();
    let mut found: Vec<_> = tree.pods().unwrap().into_keys().collect();
    found.sort();
    assert_eq!(found, [Uid::from("u-1"), Uid::from("u-2")]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = tree.remove(&Uid::from("u-1")) {
        // What was killed takes a moment to leave.
        assert!(Instant::now() < deadline, "{error}");
        child.try_wait().unwrap();
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!tree.exists(&pod) && !folder.exists());
    tree.remove(&Uid::from("u-2")).unwrap();
    assert!(tree.pods().unwrap().is_empty());
    drop(root);
    assert!(fs::read_dir(place).unwrap().flatten().all(|entry| {
        !entry.file_name().to_string_lossy().starts_with(&format!("steersman-test-{}", std::process::id()))
    }));
}
