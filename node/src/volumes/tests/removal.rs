//! How volumes go.

use std::time::Duration;

use super::*;
use crate::tree::{TreeError, remove_tree};

fn of_all_kinds(host: &Path) -> Arc<Pod> {
    pod(json!([
        { "name": "data", "emptyDir": {} },
        { "name": "fast", "emptyDir": { "medium": "Memory" } },
        { "name": "host", "hostPath": { "path": host } },
        { "name": "map", "configMap": { "name": "settings", "defaultMode": 0o644 } },
        { "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o644 } },
        { "name": "info", "downwardAPI": { "defaultMode": 0o644, "items": [
            { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } } ] } },
        { "name": "both", "projected": { "defaultMode": 0o644, "sources": [
            { "secret": { "name": "keys" } }, { "serviceAccountToken": { "path": "token" } } ] } },
    ]))
}

#[tokio::test]
async fn all_volumes_go_by_what_is_on_disk_alone() {
    if !is_root() {
        return;
    }
    let mut bench = Bench::new();
    bench.set_config_map("settings", &[("a", "1")]);
    bench.set_secret("keys", &[("a", "1")]);
    let host = bench.outside("host");
    std::fs::write(host.join("file"), "x").unwrap();
    let pod = of_all_kinds(&host);
    bench.volumes.mount(&pod).await.unwrap();
    std::fs::create_dir(bench.path("data").join("part")).unwrap();
    for (index, (volume, part)) in [("data", "part"), ("host", "file"), ("map", "a")].into_iter().enumerate()
    {
        let mount = read(json!({ "name": volume, "mountPath": "/x" }));
        bench.volumes.prepare_sub_path(&pod, "c", index, &mount, part).unwrap();
    }
    assert_eq!(mounts::below(bench.root.path()).unwrap().len(), 7);
    bench.restart();
    assert_eq!(bench.volumes.pods_on_disk().unwrap(), [uid()]);
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(mounts::below(bench.root.path()).unwrap().is_empty());
    assert!(disk::names(&bench.root.pod_volumes(&uid())).unwrap().is_empty());
    assert!(disk::names(&bench.root.pod(&uid()).join("plugins/kubernetes.io~empty-dir")).unwrap().is_empty());
    assert!(!bench.root.pod_sub_paths(&uid()).exists());
    assert!(host.join("file").is_file(), "what is the node's own stays");
    // Once more does no harm.
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(bench.volumes.mounted(&uid()).is_empty());
}

#[tokio::test]
async fn nothing_is_removed_through_a_mount() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let precious = bench.outside("precious");
    std::fs::write(precious.join("file"), "x").unwrap();
    bench.volumes.mount(&pod(json!([{ "name": "data", "emptyDir": {} }]))).await.unwrap();
    let inner = bench.path("data").join("inner");
    std::fs::create_dir(&inner).unwrap();
    mounts::bind(std::fs::File::open(&precious).unwrap(), &inner).unwrap();
    let error = bench.volumes.unmount(&uid()).await.unwrap_err().to_string();
    assert!(error.starts_with("volumes of pod u-1 are still there: "), "{error}");
    assert!(error.contains("inner\" is still mounted"), "{error}");
    assert!(precious.join("file").is_file());
    // Nor by those who clean up after pods that are gone.
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 1 });
    mounts::unmount_all(&inner).unwrap();
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 0 });
    assert!(bench.volumes.pods_on_disk().unwrap().is_empty());
    assert!(precious.join("file").is_file());
}

#[test]
fn a_mount_that_arrives_while_a_tree_is_removed_stays_with_all_that_is_in_it() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let precious = bench.outside("precious");
    std::fs::write(precious.join("file"), "x").unwrap();
    let tree = bench.outside("tree");
    let (folder, file) = (tree.join("a/b"), tree.join("a/file"));
    // As if the mount had come after mounts were looked for.
    for (source, target) in [(precious.clone(), &folder), (precious.join("file"), &file)] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&file, "y").unwrap();
        mounts::bind(std::fs::File::open(source).unwrap(), target).unwrap();
        let error = remove_tree(&tree).unwrap_err();
        let left = std::fs::read(precious.join("file"));
        mounts::unmount_all(target).unwrap();
        assert!(left.is_ok_and(|left| left == b"x"), "a file was removed through a mount");
        assert!(matches!(&error, TreeError::Mounted(mount) if mount == target), "{error}");
    }
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
}

#[tokio::test]
async fn what_pods_that_are_gone_left_goes_and_nothing_else() {
    let bench = Bench::new();
    let folder = |pod: &str, below: &str| {
        let path = bench.root.pods().join(pod).join(below);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    // Left by a kubelet, half removed.
    std::fs::write(folder("gone", "volumes/kubernetes.io~empty-dir/data").join("file"), "x").unwrap();
    std::fs::write(folder("gone", "containers/c").join("log"), "x").unwrap();
    folder("gone", "volumes/kubernetes.io~csi/empty");
    folder("back", "volumes/kubernetes.io~empty-dir/data");
    std::fs::write(folder("foreign", "volumes/kubernetes.io~csi/pvc-1/mount").join("precious"), "x").unwrap();
    bench.volumes.mount(&pod(json!([{ "name": "data", "emptyDir": {} }]))).await.unwrap();
    let orphans = bench.volumes.pods_on_disk().unwrap();
    // Comes after they were found.
    folder("new", "volumes");
    let gone = |pod: &Uid| *pod != Uid::from("back");
    let done = bench.volumes.clean_orphans(&orphans, gone).await;
    assert_eq!(done, Orphans { found: 2, failed: 1 });
    let left = bench.volumes.pods_on_disk().unwrap();
    assert_eq!(left, ["back", "foreign", "new", "u-1"].map(Uid::from));
    assert!(bench.root.pods().join("foreign/volumes/kubernetes.io~csi/pvc-1/mount/precious").is_file());
    assert!(bench.path("data").is_dir());
    // Once its volumes are unmounted it is an orphan as any other.
    bench.volumes.unmount(&uid()).await.unwrap();
    bench.volumes.clean_orphans(&orphans, gone).await;
    assert_eq!(bench.volumes.pods_on_disk().unwrap(), ["back", "foreign", "new"].map(Uid::from));
}

#[test]
fn nothing_of_a_mount_that_was_given_up_comes_after_the_unmount() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new();
        let pod = pod(json!([{ "name": "data", "emptyDir": {} }]));
        // The only thread that may block is taken, so that the mount waits for it.
        let (release, taken) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || taken.recv());
        let given_up = tokio::time::timeout(Duration::from_millis(1), bench.volumes.mount(&pod)).await;
        assert!(given_up.is_err());
        let uid = uid();
        let (unmounted, ()) = tokio::join!(bench.volumes.unmount(&uid), async { release.send(()).unwrap() });
        unmounted.unwrap();
        busy.await.unwrap().unwrap();
        // Whatever was queued has run before this.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert!(!bench.root.pod(&uid).exists());
    });
}

#[tokio::test]
async fn a_mounted_volume_of_another_agents_plugin_stays_though_it_is_empty() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let (server, other) =
        (bench.outside("server"), bench.root.pod_volume(&uid(), "kubernetes.io/nfs", "other"));
    // On the volume itself, as NFS has it, or in a folder of it, as CSI has it.
    let mounted = ["kubernetes.io/nfs", "kubernetes.io/csi"].map(|plugin| {
        let volume = bench.root.pod_volume(&uid(), plugin, "pvc");
        let target = if plugin.ends_with("csi") { volume.join("mount") } else { volume };
        std::fs::create_dir_all(&target).unwrap();
        mounts::bind(std::fs::File::open(&server).unwrap(), &target).unwrap();
        target
    });
    std::fs::create_dir(&other).unwrap();
    let ended = bench.volumes.unmount(&uid()).await;
    let left = mounted.each_ref().map(|target| mounts::is_mount_point(target).unwrap());
    mounted.iter().for_each(|target| mounts::unmount_all(target).unwrap());
    assert!(ended.is_ok() && left == [true, true] && !other.exists(), "{ended:?} {left:?}");
}

#[tokio::test]
async fn a_pod_ends_though_volumes_of_another_agents_plugins_stay() {
    let bench = Bench::new();
    let volume = bench.root.pod_volume(&uid(), "kubernetes.io/csi", "pvc-1").join("mount/precious");
    let device = bench.root.pod_devices(&uid()).join("kubernetes.io~csi/pvc-2");
    for file in [&volume, &device] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }
    bench.volumes.mount(&pod(json!([{ "name": "data", "emptyDir": {} }]))).await.unwrap();
    let own = bench.path("data");
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(!own.exists());
    assert!(volume.is_file() && device.is_file());
    // Nor are they removed once the pod is an orphan.
    assert_eq!(bench.volumes.clean_orphans(&[uid()], |_| true).await, Orphans { found: 1, failed: 1 });
    assert!(volume.is_file() && device.is_file());
}
