//! What systemd is told of groups that it keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::cgroups::systemd::{self, Properties, Slices, Units};

/// A systemd that makes a folder for each slice that it starts, with files as they are before anything is set.
struct Manager {
    top: PathBuf,
    calls: Arc<Mutex<Vec<String>>>,
    /// Whether it knows none of the slices that are named.
    is_lost: Arc<AtomicBool>,
}

impl Units for Manager {
    fn start(&self, slice: &str, above: &str) -> Result<(), systemd::Error> {
        self.calls.lock().push(format!("start {slice} in {above}"));
        Ok(())
    }

    fn set(&self, slice: &str, properties: &Properties) -> Result<(), systemd::Error> {
        let properties: Vec<String> =
            properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.calls.lock().push(format!("set {slice} {}", properties.join(" ")));
        match self.is_lost.load(Ordering::Relaxed) {
            true => Err(systemd::Error::Job("lost".to_owned())),
            false => Ok(()),
        }
    }

    fn stop(&self, slice: &str) -> Result<(), systemd::Error> {
        let folder = self.top.join("kubepods.slice").join(slice);
        self.calls.lock().push(format!("stop {slice}, which is there: {}", folder.is_dir()));
        Ok(())
    }
}

/// A tree of slices, and what systemd was asked for since it was last looked at.
fn kept(machine: &Machine) -> (CgroupTree, impl Fn() -> Vec<String>) {
    let (tree, calls, _) = forgetful(machine);
    (tree, calls)
}

/// Likewise, and what makes systemd lose them.
fn forgetful(machine: &Machine) -> (CgroupTree, impl Fn() -> Vec<String>, Arc<AtomicBool>) {
    let is_lost = Arc::<AtomicBool>::default();
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let manager = Manager {
        top: machine.folder.path().to_owned(),
        calls: Arc::clone(&calls),
        is_lost: Arc::clone(&is_lost),
    };
    let tree = CgroupTree::new(
        machine.hierarchies(),
        Box::new(imitation(machine.version)),
        Some(Slices::new(Box::new(manager))),
        settings(CgroupDriver::Systemd),
    );
    (tree.unwrap(), move || std::mem::take(&mut *calls.lock()), is_lost)
}

const POD: &str = "kubepods-podab_cd.slice";

#[test]
fn systemd_keeps_each_group_and_knows_its_limits() {
    let machine = Machine::new(CgroupVersion::V2);
    let (tree, calls) = kept(&machine);
    tree.prepare(&there()).unwrap();
    assert_eq!(
        calls(),
        [
            "start kubepods.slice in -.slice",
            "set kubepods.slice CPUWeight=157 MemoryMax=8589934592 TasksMax=1000",
            "start kubepods-burstable.slice in kubepods.slice",
            "start kubepods-besteffort.slice in kubepods.slice",
            "set kubepods-besteffort.slice CPUWeight=1",
        ]
    );
    tree.ensure(&guaranteed("ab-cd", "125m", "64Mi")).unwrap();
    assert_eq!(
        calls(),
        [
            format!("start {POD} in kubepods.slice"),
            // Processor time is rounded up to what systemd keeps, as what runtimes give to containers is.
            format!(
                "set {POD} CPUQuotaPerSecUSec=130000 CPUQuotaPeriodUSec=100000 CPUWeight=5 \
                 MemoryMax=67108864"
            ),
        ]
    );
    assert_eq!(machine.read(&format!("kubepods.slice/{POD}"), "cpu.max"), "13000 100000");
}

#[test]
fn systemd_is_told_what_changes_and_what_is_not_so_any_more() {
    let machine = Machine::new(CgroupVersion::V2);
    let (tree, calls) = kept(&machine);
    tree.prepare(&there()).unwrap();
    let pod = guaranteed("ab-cd", "1", "64Mi");
    tree.ensure(&pod).unwrap();
    let all = |memory: u64| {
        format!(
            "set {POD} CPUQuotaPerSecUSec=1000000 CPUQuotaPeriodUSec=100000 CPUWeight=39 MemoryMax={memory}"
        )
    };
    assert_eq!(calls().pop(), Some(all(64 << 20)));
    tree.ensure(&pod).unwrap();
    assert!(calls().is_empty());

    let group = format!("kubepods.slice/{POD}");
    machine.write(&group, "memory.max", "max\n");
    tree.ensure(&pod).unwrap();
    assert_eq!((calls(), machine.read(&group, "memory.max")), (vec![all(64 << 20)], "67108864".to_owned()));
    tree.ensure(&guaranteed("ab-cd", "1", "128Mi")).unwrap();
    assert_eq!(calls(), [all(128 << 20)]);
    // It would kill for a limit below what is in use.
    machine.write(&group, "memory.current", "100000000");
    tree.ensure(&guaranteed("ab-cd", "1", "64Mi")).unwrap();
    assert!(calls().is_empty());

    // One that does not know yet what its forerunner has said says it again.
    let (next, calls) = kept(&machine);
    next.ensure(&guaranteed("ab-cd", "1", "128Mi")).unwrap();
    assert_eq!(calls(), [format!("start {POD} in kubepods.slice"), all(128 << 20)]);
}

#[test]
fn a_slice_that_somebody_stopped_is_started_again() {
    let machine = Machine::new(CgroupVersion::V2);
    let (tree, calls, is_lost) = forgetful(&machine);
    tree.prepare(&there()).unwrap();
    let pod = guaranteed("ab-cd", "1", "64Mi");
    tree.ensure(&pod).unwrap();
    is_lost.store(true, Ordering::Relaxed);
    machine.write(&format!("kubepods.slice/{POD}"), "memory.max", "max");
    let error = tree.ensure(&pod).unwrap_err().to_string();
    assert_eq!(error, format!("control group /kubepods.slice/{POD}: systemd's job: lost"));
    is_lost.store(false, Ordering::Relaxed);
    drop(calls());
    tree.ensure(&pod).unwrap();
    assert_eq!(calls()[0], format!("start {POD} in kubepods.slice"));
    // Its folder went with it.
    imitation(machine.version).remove(&machine.path("cpu", &format!("kubepods.slice/{POD}"))).unwrap();
    tree.ensure(&pod).unwrap();
    assert_eq!(calls()[0], format!("start {POD} in kubepods.slice"));
}

#[test]
fn a_slice_is_stopped_while_its_folder_is_there() {
    let machine = Machine::new(CgroupVersion::V2);
    let (tree, calls) = kept(&machine);
    tree.prepare(&there()).unwrap();
    let pod = guaranteed("ab-cd", "1", "64Mi");
    tree.ensure(&pod).unwrap();
    let (next, stopped) = kept(&machine);
    next.remove(&Uid::from("ab-cd")).unwrap();
    assert_eq!(stopped(), [format!("stop {POD}, which is there: true")]);
    assert!(!tree.exists(&pod));
    // Who has had it made has it ended, even where the folder went before.
    drop(calls());
    tree.remove(&Uid::from("ab-cd")).unwrap();
    assert_eq!(calls(), [format!("stop {POD}, which is there: false")]);
    tree.remove(&Uid::from("ab-cd")).unwrap();
    assert!(calls().is_empty());
}

#[test]
fn the_hosts_slices_are_found_under_any_of_their_names() {
    let machine = Machine::new(CgroupVersion::V2);
    let (tree, calls) = kept(&machine);
    let reserved = |group: &str| Reserved {
        whose: Whose::System,
        group: group.to_owned(),
        amounts: there(),
        extent: Extent::Compressible,
    };
    let missing = tree.enforce_reserved(&reserved("/system")).unwrap_err();
    assert_eq!(missing.to_string(), r#""/system" cgroup does not exist"#);
    fs::write(machine.folder.path().join("cgroup.subtree_control"), "+cpu").unwrap();
    imitation(machine.version).make(&machine.folder.path().join("system.slice")).unwrap();
    for group in ["/system", "system.slice"] {
        tree.enforce_reserved(&reserved(group)).unwrap();
    }
    assert_eq!(calls(), ["start system.slice in -.slice", "set system.slice CPUWeight=157"]);
    assert_eq!(machine.read("system.slice", "cpu.weight"), "157");
}

#[test]
fn controllers_that_were_taken_away_are_handed_down_again() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        let machine = Machine::new(CgroupVersion::V2);
        let tree = machine.tree(settings(driver)).unwrap();
        tree.prepare(&there()).unwrap();
        let (above, burstable) = (GroupName::parse("/kubepods"), GroupName::parse("/kubepods/burstable"));
        let handed_down = || machine.read(&above.path(driver), "cgroup.subtree_control");
        assert!(handed_down().contains("+cpu"));
        machine.write(&above.path(driver), "cgroup.subtree_control", "");
        machine.write(&burstable.path(driver), "cgroup.controllers", "memory pids");
        // Here they do not come back, and so it is an error.
        let error = tree.update_classes([&super::burstable("u", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("lacks controllers: cpu"), "{error}");
        assert!(handed_down().contains("+cpu"));
    }
}
