//! Parts of volumes.

use std::os::unix::fs::symlink;

use super::*;

fn mount() -> k8s_openapi::api::core::v1::VolumeMount {
    read(json!({ "name": "data", "mountPath": "/data" }))
}

/// A pod with a volume `data`, mounted.
async fn bench() -> (Bench, Arc<Pod>, PathBuf) {
    let bench = Bench::new();
    let pod = pod(json!([{ "name": "data", "emptyDir": {} }]));
    bench.volumes.mount(&pod).await.unwrap();
    let data = bench.path("data");
    (bench, pod, data)
}

#[tokio::test]
async fn a_part_of_a_volume_is_mounted_where_upstream_has_it() {
    if !is_root() {
        return;
    }
    let (bench, pod, data) = bench().await;
    std::fs::create_dir_all(data.join("a/b")).unwrap();
    std::fs::write(data.join("a/b/file"), "x").unwrap();
    symlink("a/b", data.join("link")).unwrap();
    let prepare =
        |index, part: &str| bench.volumes.prepare_sub_path(&pod, "c", index, &mount(), part).unwrap();
    let dir = prepare(0, "a/b");
    assert!(dir.ends_with("pods/u-1/volume-subpaths/data/c/0"), "{dir:?}");
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "x");
    let file = prepare(1, "link/file");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    // Again, as for the next start of the container.
    assert_eq!((prepare(0, "a//b/."), prepare(1, "a/b/file")), (dir.clone(), file.clone()));
    assert_eq!(mounts::below(bench.root.path()).unwrap().len(), 2);
    // The file was replaced by a folder since.
    std::fs::remove_file(data.join("a/b/file")).unwrap();
    std::fs::create_dir(data.join("a/b/file")).unwrap();
    assert!(prepare(1, "a/b/file").is_dir());
    assert_eq!(mounts::below(bench.root.path()).unwrap().len(), 2);
    // The whole volume is a part as well.
    assert!(prepare(2, ".").join("a/b").is_dir());
}

#[tokio::test]
async fn missing_folders_are_made_with_the_volumes_mode() {
    if !is_root() {
        return;
    }
    let (bench, pod, data) = bench().await;
    disk::set_mode(&data, 0o2770).unwrap();
    std::fs::create_dir(data.join("old")).unwrap();
    bench.volumes.prepare_sub_path(&pod, "c", 0, &mount(), "old/new/newer").unwrap();
    for made in ["old/new", "old/new/newer"] {
        assert_eq!(mode(&data.join(made)), 0o2770, "{made}");
    }
}

#[tokio::test]
async fn a_link_by_way_of_the_nodes_root_may_lead_back_into_the_volume() {
    if !is_root() {
        return;
    }
    let (bench, pod, data) = bench().await;
    std::fs::create_dir_all(data.join("a/b")).unwrap();
    std::fs::write(data.join("a/b/file"), "x").unwrap();
    symlink(data.join("a"), data.join("folder")).unwrap();
    symlink(data.join("folder/b/file"), data.join("file")).unwrap();
    symlink(&data, data.join("whole")).unwrap();
    let prepare = |index, part: &str| bench.volumes.prepare_sub_path(&pod, "c", index, &mount(), part);
    for (index, part) in ["file", "folder/b/file", "whole/a/b/file"].into_iter().enumerate() {
        let file = prepare(index, part).unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "x", "{part}");
    }
    assert!(prepare(3, "whole").unwrap().join("a/b").is_dir());
    // What is missing is made there.
    prepare(4, "folder/new/newer").unwrap();
    assert!(data.join("a/new/newer").is_dir());
}

#[tokio::test]
async fn what_leads_out_of_the_volume_is_refused() {
    let (bench, pod, data) = bench().await;
    let outside = bench.outside("secrets");
    std::fs::write(outside.join("key"), "x").unwrap();
    symlink(&outside, data.join("absolute")).unwrap();
    symlink("../../../../../../secrets", data.join("relative")).unwrap();
    symlink("relative", data.join("chain")).unwrap();
    // Begins like the volume's own path.
    let beside = data.with_file_name("data-2");
    std::fs::create_dir(&beside).unwrap();
    symlink(&beside, data.join("beside")).unwrap();
    symlink("nowhere", data.join("dangling")).unwrap();
    symlink("/proc/self/root", data.join("magic")).unwrap();
    std::fs::write(data.join("file"), "x").unwrap();
    assert!(data.join("relative/key").is_file(), "the link must lead there");
    let refused = |part: &str| bench.volumes.prepare_sub_path(&pod, "c", 0, &mount(), part).unwrap_err();
    for part in [
        "absolute",
        "absolute/key",
        "relative",
        "relative/key",
        "relative/new",
        "chain/key",
        "beside",
        "beside/new",
        "dangling",
        "dangling/new",
        "magic/etc",
        "file/new",
        // Whoever asks has refused these in other words.
        "/etc",
        "a/../../b",
    ] {
        let expected = "failed to create subPath directory for volumeMount \"data\" of container \"c\"";
        assert_eq!(refused(part), expected, "{part}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
    assert_eq!(std::fs::read_dir(&beside).unwrap().count(), 0, "nor beside it");
    assert!(!bench.root.pod_sub_paths(&uid()).exists());
}

#[tokio::test]
async fn a_volume_that_is_not_mounted_has_no_parts() {
    let bench = Bench::new();
    let pod = pod(json!([{ "name": "data", "emptyDir": {} }]));
    let refused = bench.volumes.prepare_sub_path(&pod, "c", 0, &mount(), "a").unwrap_err();
    assert_eq!(refused, "cannot find volume \"data\" to mount into container \"c\"");
}
