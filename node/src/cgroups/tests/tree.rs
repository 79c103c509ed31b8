//! The tree in folders.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

const BOTH: [CgroupVersion; 2] = [CgroupVersion::V1, CgroupVersion::V2];

#[test]
fn the_groups_of_all_pods_and_of_classes_are_there_from_the_start() {
    let v1 = Machine::new(CgroupVersion::V1);
    v1.prepared();
    for (group, file, value) in [
        ("kubepods", "cpu.shares", "4096"),
        ("kubepods", "memory.limit_in_bytes", "8589934592"),
        ("kubepods", "pids.max", "1000"),
        ("kubepods", "hugetlb.2MB.limit_in_bytes", "4611686018427387904"),
        ("kubepods/burstable", "cpu.shares", "1024"),
        ("kubepods/burstable", "memory.limit_in_bytes", "9223372036854771712"),
        ("kubepods/besteffort", "cpu.shares", "2"),
        ("kubepods/besteffort", "cpuset.cpus", "0-3"),
        ("kubepods/besteffort", "cpuset.mems", "0"),
        ("kubepods/besteffort", "cgroup.procs", ""),
    ] {
        assert_eq!(v1.read(group, file), value, "{group} {file}");
    }
    let v2 = Machine::new(CgroupVersion::V2);
    v2.prepared();
    for (group, file, value) in [
        ("", "cgroup.subtree_control", "+cpu +cpuset +hugetlb +memory +pids"),
        ("kubepods", "cpu.weight", "157"),
        ("kubepods", "memory.max", "8589934592"),
        ("kubepods", "hugetlb.2MB.rsvd.max", "4611686018427387904"),
        ("kubepods/burstable", "cgroup.controllers", "cpu cpuset hugetlb memory pids"),
        ("kubepods/besteffort", "cpu.weight", "1"),
        ("kubepods/besteffort", "memory.max", "max"),
    ] {
        assert_eq!(v2.read(group, file), value, "{group} {file}");
    }
}

#[test]
fn pods_are_made_in_their_class_with_their_limits() {
    for version in BOTH {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        for (pod, group) in [
            (guaranteed("u-1", "500m", "64Mi"), "/kubepods/podu-1"),
            (burstable("u-2", "250m"), "/kubepods/burstable/podu-2"),
            (best_effort("u-3"), "/kubepods/besteffort/podu-3"),
        ] {
            assert_eq!(tree.parent_of(&pod), group);
            assert!(!tree.exists(&pod));
            tree.ensure(&pod).unwrap();
            assert!(tree.exists(&pod));
            tree.ensure(&pod).unwrap();
        }
        let (shares, quota, memory, free) = match version {
            CgroupVersion::V1 => ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes", "-1"),
            CgroupVersion::V2 => ("cpu.weight", "cpu.max", "memory.max", "max 100000"),
        };
        let weights = if version == CgroupVersion::V1 { ["512", "256", "2"] } else { ["20", "10", "1"] };
        let groups = ["kubepods/podu-1", "kubepods/burstable/podu-2", "kubepods/besteffort/podu-3"];
        assert_eq!(groups.map(|group| machine.read(group, shares)), weights);
        assert_eq!(machine.read(groups[0], memory), (64 << 20).to_string());
        assert!(machine.read(groups[0], quota).starts_with("50000"));
        assert_eq!(machine.read(groups[1], quota), free);
        let found: BTreeMap<String, String> =
            tree.pods().unwrap().into_iter().map(|(uid, group)| (uid.to_string(), group)).collect();
        let expected = [("u-1", groups[0]), ("u-2", groups[1]), ("u-3", groups[2])];
        assert_eq!(found, expected.map(|(uid, group)| (uid.to_owned(), format!("/{group}"))).into());
    }
}

#[test]
fn a_pods_group_tells_what_the_pod_was_given() {
    let given = |request, limit, memory| ContainerResources {
        cpu_request_milli: request,
        cpu_limit_milli: limit,
        memory_request: None,
        memory_limit: memory,
    };
    for version in BOTH {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        for (pod, expected) in [
            (guaranteed("u-1", "500m", "64Mi"), given(Some(500), Some(500), Some(64 << 20))),
            (burstable("u-2", "250m"), given(Some(250), None, None)),
            (best_effort("u-3"), given(Some(2), None, None)),
        ] {
            assert_eq!(tree.given(&pod), ContainerResources::default(), "it is not there");
            tree.ensure(&pod).unwrap();
            assert_eq!(tree.given(&pod), expected, "{version:?}");
        }
    }
    // A resize is not done yet; and weights are coarse.
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    tree.ensure(&guaranteed("u-1", "500m", "64Mi")).unwrap();
    let resized = guaranteed("u-1", "1", "128Mi");
    assert_eq!(tree.given(&resized), given(Some(489), Some(500), Some(64 << 20)));
    assert_eq!(Disabled.given(&resized), ContainerResources::default());
}

#[test]
fn under_systemd_groups_have_the_names_of_slices() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.tree(settings(CgroupDriver::Systemd)).unwrap();
    tree.prepare(&there()).unwrap();
    let pod = burstable("ab-cd", "1");
    let group = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_cd.slice";
    tree.ensure(&pod).unwrap();
    assert_eq!(tree.parent_of(&pod), group);
    assert_eq!(machine.read(group, "cpu.weight"), "39");
    assert_eq!(tree.pods().unwrap(), [(Uid::from("ab-cd"), group.to_owned())].into());
    // What systemd sets back is mended.
    machine.write(group, "cpu.weight", "100\n");
    tree.ensure(&pod).unwrap();
    assert_eq!(machine.read(group, "cpu.weight"), "39");
    tree.remove(&Uid::from("ab-cd")).unwrap();
    assert!(!tree.exists(&pod) && tree.pods().unwrap().is_empty());
}

#[test]
fn the_root_of_the_tree_must_be_there() {
    for version in BOTH {
        let machine = Machine::new(version);
        let settings = CgroupSettings { root: "/below/here".to_owned(), ..settings(CgroupDriver::Cgroupfs) };
        let error = machine.tree(settings.clone()).err().unwrap();
        assert_eq!(error.to_string(), r#"cgroup-root "/below/here" doesn't exist"#);
        for place in machine.hierarchies().places() {
            fs::create_dir_all(place.join("below/here")).unwrap();
            fs::write(place.join("below/here/cgroup.subtree_control"), "").unwrap();
            fs::write(place.join("below/cgroup.subtree_control"), "").unwrap();
        }
        if version == CgroupVersion::V1 {
            for file in ["cpuset.cpus", "cpuset.mems"] {
                fs::write(machine.path("cpuset", "below/here").join(file), "0").unwrap();
            }
        }
        let tree = machine.tree(settings).unwrap();
        tree.prepare(&there()).unwrap();
        assert_eq!(tree.parent_of(&best_effort("u")), "/below/here/kubepods/besteffort/podu");
    }
}

#[test]
fn controllers_that_are_not_handed_down_are_named() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = |withheld| {
        let files = Imitation { version: CgroupVersion::V2, withheld };
        CgroupTree::new(machine.hierarchies(), Box::new(files), None, settings(CgroupDriver::Cgroupfs))
            .unwrap()
    };
    let error = tree("memory").ensure(&best_effort("u")).unwrap_err().to_string();
    assert!(error.ends_with("kubepods/besteffort/podu lacks controllers: memory"), "{error}");
    // One that limits do not need is no loss.
    tree("cpuset").ensure(&best_effort("u-2")).unwrap();
}

#[test]
fn burstable_pods_weigh_what_they_ask_for_together() {
    for (version, file, weights) in [
        (CgroupVersion::V1, "cpu.shares", ["3072", "4096", "2048", "5120", "2"]),
        (CgroupVersion::V2, "cpu.weight", ["118", "157", "79", "196", "1"]),
    ] {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        machine.write("kubepods/burstable", file, weights[0]);
        let weight = || machine.read("kubepods/burstable", file);
        let (one, two) = (burstable("u-1", "1"), burstable("u-2", "3"));
        // Pods of before, which nobody told of yet, lose nothing.
        tree.ensure(&one).unwrap();
        assert_eq!(weight(), weights[0]);
        tree.ensure(&two).unwrap();
        assert_eq!(weight(), weights[1]);
        tree.update_classes([&burstable("u-3", "2"), &guaranteed("u-4", "7", "1Gi"), &best_effort("u-5")])
            .unwrap();
        assert_eq!(weight(), weights[2]);
        tree.ensure(&two).unwrap();
        assert_eq!(weight(), weights[3]);
        tree.remove(&Uid::from("u-2")).unwrap();
        assert_eq!(weight(), weights[2]);
        tree.remove(&Uid::from("u-3")).unwrap();
        assert_eq!(weight(), weights[4]);
    }
}

#[test]
fn a_limit_below_what_is_in_use_waits() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    let with = |memory| guaranteed("u", "1", memory);
    tree.ensure(&with("100Mi")).unwrap();
    let group = "kubepods/podu";
    let bytes = |mib: u64| (mib << 20).to_string();
    machine.write(group, "memory.current", &bytes(90));
    for (memory, mib) in [("200Mi", 200), ("50Mi", 200)] {
        tree.ensure(&with(memory)).unwrap();
        assert_eq!(machine.read(group, "memory.max"), bytes(mib), "{memory}");
    }
    // What is kept of files can be dropped.
    let stat = format!("anon 1\nactive_file {}\ninactive_file {}\n", bytes(20), bytes(30));
    machine.write(group, "memory.stat", &stat);
    tree.ensure(&with("50Mi")).unwrap();
    assert_eq!(machine.read(group, "memory.max"), bytes(50));
}

#[test]
fn pods_are_held_to_what_is_left_once_they_use_less() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    let mut less = there();
    less.insert("memory".to_owned(), steersman_api::Quantity::bytes(1 << 30));
    // Groups that are there keep their limits until it is enforced.
    tree.prepare(&less).unwrap();
    assert_eq!(machine.read("kubepods", "memory.max"), "8589934592");
    machine.write("kubepods", "memory.current", "2147483648");
    let error = tree.enforce_node(&less).unwrap_err().to_string();
    assert!(error.contains("kubepods/memory.max") && error.contains("1073741824"), "{error}");
    machine.write("kubepods", "memory.current", "1");
    tree.enforce_node(&less).unwrap();
    assert_eq!(machine.read("kubepods", "memory.max"), "1073741824");
}

#[test]
fn what_runs_in_a_pods_group_dies_with_it() {
    for version in BOTH {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        let pod = burstable("u", "1");
        tree.ensure(&pod).unwrap();
        let inner = "kubepods/burstable/podu/container/deeper";
        for place in machine.hierarchies().places() {
            let kernel = imitation(version);
            let group = place.join("kubepods/burstable/podu");
            kernel.make(&group.join("container")).unwrap();
            kernel.make(&group.join("container/deeper")).unwrap();
            kernel.make(&group.join("empty")).unwrap();
        }
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        // A process of elsewhere shows as 0.
        machine.write(inner, "cgroup.procs", &format!("0\n{}\n", child.id()));
        tree.remove(&Uid::from("u")).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(
            machine
                .hierarchies()
                .places()
                .iter()
                .all(|place| !place.join("kubepods/burstable/podu").exists())
        );
        assert!(!tree.exists(&pod));
        tree.remove(&Uid::from("u")).unwrap();
    }
}

#[test]
fn this_process_is_never_killed_nor_any_other_beside_it() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        tree.ensure(&best_effort("u")).unwrap();
        let group = "kubepods/besteffort/podu";
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        machine.write(group, "cgroup.procs", &format!("{}\n{}\n", child.id(), std::process::id()));
        machine.write(group, "cgroup.kill", "");
        let error = tree.remove(&Uid::from("u")).unwrap_err().to_string();
        assert_eq!(error, format!("kill process {}: it is this process", std::process::id()));
        assert_eq!(machine.read(group, "cgroup.kill"), "");
        assert_eq!(child.try_wait().unwrap(), None, "{version:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Takes note of what was written to `cgroup.kill` of each folder that is removed.
#[derive(Default)]
struct Killed(Mutex<Vec<(String, String)>>);

impl Files for Arc<Killed> {
    fn make(&self, folder: &Path) -> io::Result<()> {
        imitation(CgroupVersion::V2).make(folder)?;
        // Such a file can be written, and shows nothing.
        fs::write(folder.join("cgroup.kill"), "")
    }
    fn remove(&self, folder: &Path) -> io::Result<()> {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        self.0.lock().push((name, fs::read_to_string(folder.join("cgroup.kill"))?));
        imitation(CgroupVersion::V2).remove(folder)
    }
}

#[test]
fn the_kernel_kills_a_whole_group_of_version_two_at_once() {
    let machine = Machine::new(CgroupVersion::V2);
    let killed = Arc::new(Killed::default());
    let settings = settings(CgroupDriver::Cgroupfs);
    let tree = CgroupTree::new(machine.hierarchies(), Box::new(Arc::clone(&killed)), None, settings).unwrap();
    tree.prepare(&there()).unwrap();
    tree.ensure(&best_effort("u")).unwrap();
    let group = "kubepods/besteffort/podu";
    killed.make(&machine.path("", group).join("container")).unwrap();
    // Whoever has the id by now, the kernel alone knows whether it is still in the group.
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    machine.write(&format!("{group}/container"), "cgroup.procs", &child.id().to_string());
    tree.remove(&Uid::from("u")).unwrap();
    assert_eq!(child.try_wait().unwrap(), None, "killed by its id");
    child.kill().unwrap();
    child.wait().unwrap();
    let removed = killed.0.lock().clone();
    assert_eq!(removed, [("container", ""), ("podu", "1")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn what_a_runtime_made_beside_the_hierarchies_is_found_and_removed() {
    let machine = Machine::new(CgroupVersion::V1);
    let tree = machine.prepared();
    let beside = machine.hierarchies().beside.unwrap().join("kubepods/besteffort/podu");
    fs::create_dir_all(&beside).unwrap();
    fs::write(beside.join("cgroup.procs"), "").unwrap();
    assert_eq!(tree.pods().unwrap().len(), 1);
    tree.remove(&Uid::from("u")).unwrap();
    assert!(!beside.exists());
}

#[test]
fn a_pod_left_in_one_hierarchy_is_found_and_removed_and_made_anew() {
    let machine = Machine::new(CgroupVersion::V1);
    let tree = machine.prepared();
    let pod = best_effort("u");
    tree.ensure(&pod).unwrap();
    imitation(CgroupVersion::V1).remove(&machine.path("cpu", "kubepods/besteffort/podu")).unwrap();
    assert!(!tree.exists(&pod));
    assert_eq!(tree.pods().unwrap().len(), 1);
    tree.ensure(&pod).unwrap();
    assert!(tree.exists(&pod));
    assert_eq!(machine.read("kubepods/besteffort/podu", "cpu.shares"), "2");
    imitation(CgroupVersion::V1).remove(&machine.path("memory", "kubepods/besteffort/podu")).unwrap();
    tree.remove(&Uid::from("u")).unwrap();
    assert!(tree.pods().unwrap().is_empty());
}

#[test]
fn what_is_no_pod_is_left_alone() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    for folder in ["kubepods/other", "kubepods/pod", "kubepods/burstable/pod_x"] {
        fs::create_dir(machine.path("", folder)).unwrap();
    }
    fs::write(machine.path("", "kubepods/podfile"), "").unwrap();
    assert!(tree.pods().unwrap().is_empty());
}

#[test]
fn a_uid_that_names_no_group_is_refused() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    let pod = best_effort("../../x");
    let error = tree.ensure(&pod).unwrap_err().to_string();
    assert_eq!(
        error,
        r#"pod uid "../../x" can't name a control group: only letters, digits, "-" and "." can"#
    );
    assert!(!tree.exists(&pod));
    assert_eq!(tree.parent_of(&pod), "");
    tree.remove(&Uid::from("../../x")).unwrap();
}

#[test]
fn the_last_step_of_a_resize_fails_where_a_limit_stays() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    let (large, small) = (guaranteed("u", "500m", "64Mi"), guaranteed("u", "500m", "32Mi"));
    tree.ensure(&large).unwrap();
    machine.write("kubepods/podu", "memory.current", &(48 << 20).to_string());
    let memory = |wanted| PodMemory { used: Some(48 << 20), limit: Some(64 << 20), wanted: Some(wanted) };
    assert_eq!((tree.memory(&large), tree.memory(&large).lowered()), (memory(64 << 20), None));
    assert_eq!((tree.memory(&small), tree.memory(&small).lowered()), (memory(32 << 20), Some(32 << 20)));
    tree.ensure(&small).unwrap();
    let error = tree.resize(&small).unwrap_err().to_string();
    assert!(error.starts_with("write \"33554432\" to ") && error.contains("memory.max"), "{error}");
    assert_eq!(machine.read("kubepods/podu", "memory.max"), (64 << 20).to_string());
    machine.write("kubepods/podu", "memory.current", "0");
    tree.resize(&small).unwrap();
    assert_eq!(machine.read("kubepods/podu", "memory.max"), (32 << 20).to_string());
    // Of a group without limit none is known, on version 1 by its number.
    let unlimited = PodMemory { used: Some(0), limit: None, wanted: None };
    for version in BOTH {
        let machine = Machine::new(version);
        let tree = machine.prepared();
        tree.ensure(&best_effort("u")).unwrap();
        let used = match version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        machine.write("kubepods/besteffort/podu", used, "0");
        assert_eq!(tree.memory(&best_effort("u")), unlimited);
    }
}

#[test]
fn a_node_without_groups_for_pods_leaves_all_to_the_runtime() {
    let pod = best_effort("u");
    assert_eq!(Disabled.parent_of(&pod), "");
    assert!(Disabled.ensure(&pod).is_ok() && Disabled.exists(&pod));
    assert!(Disabled.remove(&Uid::from("u")).is_ok() && Disabled.pods().unwrap().is_empty());
}

#[test]
fn work_is_counted_by_what_it_does() {
    let machine = Machine::new(CgroupVersion::V2);
    let tree = machine.prepared();
    let registry = prometheus::Registry::new();
    tree.metrics().register(&registry).unwrap();
    tree.ensure(&best_effort("u")).unwrap();
    tree.ensure(&best_effort("u")).unwrap();
    tree.remove(&Uid::from("u")).unwrap();
    let families = registry.gather();
    assert_eq!(families[0].name(), "kubelet_cgroup_manager_duration_seconds");
    let counts: BTreeMap<String, u64> = families[0]
        .get_metric()
        .iter()
        .map(|metric| (metric.get_label()[0].value().to_owned(), metric.get_histogram().get_sample_count()))
        .collect();
    let expected = [("create", 4), ("update", 1), ("destroy", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
}
