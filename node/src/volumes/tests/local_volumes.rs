//! Local persistent volumes, mounted from folders of the node.

use std::os::unix::fs::MetadataExt;

use super::*;

const PLUGIN: &str = "kubernetes.io/local-volume";

/// A folder with one file, and a claim `name` to it.
fn disk(bench: &Bench, name: &str, members: Value) -> PathBuf {
    let disk = bench.outside(&format!("disk-of-{name}"));
    std::fs::write(disk.join("file"), "data").unwrap();
    bench.set_claim(name, json!({ "local": { "path": disk } }), members);
    disk
}

fn with_group(group: i64) -> Value {
    json!({ "securityContext": { "fsGroup": group } })
}

fn uid_of(pod: &Pod) -> Uid {
    Uid::from(pod.metadata.uid.as_deref().unwrap())
}

fn of(bench: &Bench, pod: &Pod) -> MountedVolume {
    bench.volumes.mounted(&uid_of(pod))["data"].clone()
}

#[tokio::test]
async fn a_folder_is_mounted_into_the_pods_own_and_outlives_pod_and_agent() {
    if !is_root() {
        return;
    }
    let mut bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    let pod = claiming("u-1", "c", json!({}));
    bench.volumes.mount(&pod).await.unwrap();
    let dir = bench.root.pod_volume(&uid(), PLUGIN, "pv-c");
    let expected = MountedVolume { path: dir.clone(), read_only: false, relabel: true };
    assert_eq!(of(&bench, &pod), expected);
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "data");
    std::fs::write(dir.join("new"), "by the pod").unwrap();
    assert_eq!(std::fs::read_to_string(disk.join("new")).unwrap(), "by the pod");

    // A new agent finds it mounted, and mounts nothing over it.
    bench.restart();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(of(&bench, &pod), expected);
    assert_eq!(mounts::below(bench.root.path()).unwrap().len(), 1);
    bench.restart();
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(mounts::below(bench.root.path()).unwrap().is_empty());
    assert!(!dir.exists());
    assert_eq!(std::fs::read_to_string(disk.join("new")).unwrap(), "by the pod");
    assert!(bench.messages().is_empty(), "{:?}", bench.messages());
}

#[tokio::test]
async fn a_link_leads_to_the_folder() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    let link = bench.folder.0.path().join("link");
    std::os::unix::fs::symlink(&disk, &link).unwrap();
    bench.set_claim("c", json!({ "local": { "path": link } }), json!({}));
    let pod = claiming("u-1", "c", json!({}));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(std::fs::read_to_string(of(&bench, &pod).path.join("file")).unwrap(), "data");
}

#[tokio::test]
async fn what_a_pod_that_is_gone_left_is_unmounted_and_its_data_stays() {
    if !is_root() {
        return;
    }
    let mut bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    bench.volumes.mount(&claiming("u-1", "c", json!({}))).await.unwrap();
    bench.restart();
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 0 });
    assert!(bench.volumes.pods_on_disk().unwrap().is_empty());
    assert!(disk.join("file").is_file());
}

/// The mount is gone, as after a reboot; what is in the pod's folder then is nobody's, but is data all the same.
#[tokio::test]
async fn files_under_a_mount_point_are_never_removed() {
    let bench = Bench::new();
    let dir = bench.root.pod_volume(&uid(), PLUGIN, "pv-c");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), "data").unwrap();
    bench.volumes.unmount(&uid()).await.unwrap_err();
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 1 });
    assert!(dir.join("file").is_file());
    std::fs::remove_file(dir.join("file")).unwrap();
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 0 });
}

#[tokio::test]
async fn a_volume_is_given_to_the_group_of_the_first_pod_only() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    let first = claiming("u-1", "c", with_group(4321));
    bench.volumes.mount(&first).await.unwrap();
    assert_eq!((owner(&disk).1, owner(&disk.join("file")).1), (4321, 4321));
    assert_eq!((mode(&disk) & 0o2070, mode(&disk.join("file")) & 0o060), (0o2070, 0o060));
    // The same group needs no event, another is told of, and none of both changes the volume.
    std::fs::write(disk.join("later"), "x").unwrap();
    let before = owner(&disk.join("later"));
    bench.volumes.mount(&claiming("u-2", "c", with_group(4321))).await.unwrap();
    assert!(bench.messages().is_empty());
    bench.volumes.mount(&claiming("u-3", "c", with_group(4322))).await.unwrap();
    bench.volumes.mount(&claiming("u-4", "c", json!({}))).await.unwrap();
    let told = "AlreadyMountedVolume The requested fsGroup is 4322, but the volume pv-c has GID 4321. The volume may \
                not be shareable.";
    assert_eq!(bench.messages(), [told]);
    assert_eq!((owner(&disk).1, owner(&disk.join("later"))), (4321, before));
    // Once nobody has it, the next pod's group gets it.
    for pod in ["u-1", "u-2", "u-3", "u-4"] {
        bench.volumes.unmount(&Uid::from(pod)).await.unwrap();
    }
    bench.volumes.mount(&claiming("u-5", "c", with_group(4322))).await.unwrap();
    assert_eq!((owner(&disk).1, owner(&disk.join("later")).1), (4322, 4322));
    assert_eq!(bench.messages().len(), 1);
}

#[tokio::test]
async fn a_folder_that_two_volumes_name_is_shared_as_well() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let disk = disk(&bench, "one", json!({}));
    bench.set_claim("two", json!({ "local": { "path": disk } }), json!({}));
    bench.volumes.mount(&claiming("u-1", "one", with_group(4321))).await.unwrap();
    bench.volumes.mount(&claiming("u-2", "two", with_group(4322))).await.unwrap();
    assert_eq!(owner(&disk).1, 4321);
    assert_eq!(bench.events.reasons(), ["AlreadyMountedVolume"]);
}

#[tokio::test]
async fn a_group_that_has_the_folder_already_keeps_the_files_as_they_are_if_the_pod_says_so() {
    if !is_root() {
        return;
    }
    for (policy, expected) in [(json!(null), 4321), (json!("Always"), 4321), (json!("OnRootMismatch"), 0)] {
        let bench = Bench::new();
        let disk = disk(&bench, "c", json!({}));
        std::os::unix::fs::lchown(&disk, None, Some(4321)).unwrap();
        disk::set_mode(&disk, 0o2775).unwrap();
        let context = json!({ "fsGroup": 4321, "fsGroupChangePolicy": policy });
        let pod = claiming("u-1", "c", json!({ "securityContext": context }));
        std::os::unix::fs::lchown(disk.join("file"), None, Some(0)).unwrap();
        bench.volumes.mount(&pod).await.unwrap();
        assert_eq!(owner(&disk.join("file")).1, expected, "{policy}");
    }
}

#[tokio::test]
async fn a_volume_that_the_pod_may_only_read_is_mounted_so_and_keeps_its_owner() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    let before = owner(&disk.join("file"));
    let source = json!({ "claimName": "c", "readOnly": true });
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": source }]);
    let pod = pod_with(volumes, with_group(4321));
    bench.volumes.mount(&pod).await.unwrap();
    let mounted = of(&bench, &pod);
    assert!(mounted.read_only);
    let refused = std::fs::write(mounted.path.join("new"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(owner(&disk.join("file")), before);
    std::fs::write(disk.join("new"), "x").unwrap();
}

#[tokio::test]
async fn mount_options_are_those_of_the_volume() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    disk(&bench, "c", json!({ "mountOptions": ["noexec", "nosuid", "example=1"] }));
    let pod = claiming("u-1", "c", json!({}));
    bench.volumes.mount(&pod).await.unwrap();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let path = of(&bench, &pod).path.display().to_string();
    let line = table.lines().find(|line| line.contains(&path)).unwrap();
    let options: Vec<&str> = line.split(' ').nth(5).unwrap().split(',').collect();
    for expected in ["rw", "noexec", "nosuid"] {
        assert!(options.contains(&expected), "{line}");
    }
    assert!(!options.contains(&"nodev"), "{line}");
}

#[tokio::test]
async fn a_volume_for_one_pod_is_refused_to_a_second_also_after_a_restart() {
    if !is_root() {
        return;
    }
    tokio::time::pause();
    let mut bench = Bench::new();
    disk(&bench, "c", json!({ "accessModes": ["ReadWriteOncePod"] }));
    bench.volumes.mount(&claiming("u-1", "c", json!({}))).await.unwrap();
    for _ in 0..2 {
        bench.restart();
        let error = bench.volumes.mount(&claiming("u-2", "c", json!({}))).await.unwrap_err();
        let expected = "MountVolume.SetUp failed for volume \"pv-c\" : volume uses the ReadWriteOncePod access mode and is \
                        already in use by another pod";
        assert_eq!(error.reasons, [expected]);
    }
    bench.volumes.mount(&claiming("u-1", "c", json!({}))).await.unwrap();
    bench.volumes.unmount(&uid()).await.unwrap();
    bench.restart();
    bench.volumes.mount(&claiming("u-2", "c", json!({}))).await.unwrap();
}

#[tokio::test]
async fn two_volumes_of_a_pod_may_stand_for_one_claim() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    disk(&bench, "c", json!({ "accessModes": ["ReadWriteOncePod"] }));
    let source = json!({ "claimName": "c" });
    let pod = pod(json!([
        { "name": "one", "persistentVolumeClaim": source }, { "name": "two", "persistentVolumeClaim": source } ]));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.path("one"), bench.path("two"));
    assert_eq!(mounts::below(bench.root.path()).unwrap().len(), 1);
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(mounts::below(bench.root.path()).unwrap().is_empty());
}

#[tokio::test]
async fn a_part_of_a_volume_is_mounted_and_made_where_missing() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let disk = disk(&bench, "c", json!({}));
    let pod = claiming("u-1", "c", json!({}));
    bench.volumes.mount(&pod).await.unwrap();
    let mount = read(json!({ "name": "data", "mountPath": "/x" }));
    let part = bench.volumes.prepare_sub_path(&pod, "c", 0, &mount, "some/where").unwrap();
    assert_eq!(
        std::fs::metadata(&part).unwrap().ino(),
        std::fs::metadata(disk.join("some/where")).unwrap().ino()
    );
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(disk.join("some/where").is_dir());
    assert!(mounts::below(bench.root.path()).unwrap().is_empty());
}

/// What an earlier kubelet mounted of a block device goes once no pod of the node has it any more.
#[tokio::test]
async fn the_mount_of_a_device_goes_with_the_last_pod() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let global = bench.root.path().join("plugins").join(PLUGIN).join("mounts/pv-c");
    std::fs::create_dir_all(&global).unwrap();
    mounts::mount_tmpfs(&global, 0).unwrap();
    for pod in ["u-1", "u-2"] {
        let dir = bench.root.pod_volume(&Uid::from(pod), PLUGIN, "pv-c");
        std::fs::create_dir_all(&dir).unwrap();
        mounts::bind(std::fs::File::open(&global).unwrap(), &dir).unwrap();
    }
    bench.volumes.unmount(&Uid::from("u-1")).await.unwrap();
    assert!(mounts::is_mount_point(&global).unwrap());
    bench.volumes.unmount(&Uid::from("u-2")).await.unwrap();
    assert!(!global.exists());
}
