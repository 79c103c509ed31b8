//! What is in volumes, and how it is kept current.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn an_empty_dir_is_a_folder_for_everybody_that_stays() {
    let mut bench = Bench::new();
    let pod = pod(json!([{ "name": "scratch", "emptyDir": { "sizeLimit": "1Gi" } }]));
    bench.volumes.mount(&pod).await.unwrap();
    let dir = bench.root.path().join("pods/u-1/volumes/kubernetes.io~empty-dir/scratch");
    let expected = MountedVolume { path: dir.clone(), read_only: false, relabel: true };
    assert_eq!(bench.volumes.mounted(&uid()), BTreeMap::from([("scratch".to_owned(), expected)]));
    assert_eq!(mode(&dir), 0o777);
    assert!(bench.root.path().join("pods/u-1/plugins/kubernetes.io~empty-dir/scratch/ready").is_file());
    std::fs::write(dir.join("mine"), "x").unwrap();
    bench.restart();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("scratch", "mine"), "x");
    // Somebody removed the folder, but not the note that it was made.
    std::fs::remove_dir_all(&dir).unwrap();
    bench.restart();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(mode(&dir), 0o777);
}

#[tokio::test]
async fn an_empty_dir_in_memory_is_as_large_as_the_smallest_limit_says() {
    if !is_root() {
        return;
    }
    let mut bench = Bench::new();
    let memory = |name: &str, limit: Value| json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": limit } });
    let volumes =
        json!([memory("small", json!("1Mi")), memory("free", json!(null)), memory("huge", json!("1Ti"))]);
    let pod = pod(volumes);
    bench.volumes.mount(&pod).await.unwrap();
    let size = |volume: &str| {
        let stat = rustix::fs::statvfs(bench.path(volume)).unwrap();
        stat.f_blocks * stat.f_frsize
    };
    assert_eq!((size("small"), size("free"), size("huge")), (1 << 20, 64 << 20, 64 << 20));
    std::fs::write(bench.path("small").join("mine"), "x").unwrap();
    bench.restart();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("small", "mine"), "x");
    assert_eq!(mounts::below(&bench.path("small")).unwrap().len(), 1);
}

#[tokio::test]
async fn without_rights_all_volumes_are_on_disk_and_ones_own() {
    let mut bench = Bench::new();
    bench.without_rights();
    bench.set_secret("keys", &[("tls.key", "secret")]);
    let volumes = json!([
        { "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o400 } },
        { "name": "memory", "emptyDir": { "medium": "Memory" } },
        { "name": "token", "projected": { "defaultMode": 0o644, "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } },
        ] } },
    ]);
    let pod = pod_with(volumes, json!({ "securityContext": { "fsGroup": 4000, "runAsUser": 3000 } }));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("keys", "tls.key"), "secret");
    let own = std::fs::metadata(bench.root.path()).unwrap();
    for (volume, file) in [("keys", "tls.key"), ("token", "token"), ("memory", "")] {
        let path = bench.path(volume);
        assert!(!mounts::is_mount_point(&path).unwrap(), "{volume}");
        let meta = std::fs::metadata(path.join(file)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (own.uid(), own.gid()), "{volume}");
    }
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(bench.events.all().is_empty(), "{:?}", bench.messages());
}

#[tokio::test]
async fn volumes_belong_to_the_pods_group() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.set_config_map("settings", &[("key", "value")]);
    let volumes = json!([
        { "name": "scratch", "emptyDir": {} },
        { "name": "map", "configMap": { "name": "settings", "defaultMode": 0o400 } },
    ]);
    let context = json!({ "securityContext": { "fsGroup": 1234 } });
    bench.volumes.mount(&pod_with(volumes, context)).await.unwrap();
    let scratch = bench.path("scratch");
    assert_eq!((mode(&scratch), owner(&scratch)), (0o2777, (0, 1234)));
    let file = bench.path("map").join("..data/key");
    assert_eq!((mode(&file), owner(&file)), (0o440, (0, 1234)));
}

#[tokio::test]
async fn a_config_map_has_a_file_for_each_key_or_for_each_item() {
    let bench = Bench::new();
    bench.set_config_map("settings", &[("a", "1"), ("b", "2")]);
    let pod = pod(json!([
        { "name": "all", "configMap": { "name": "settings", "defaultMode": 0o644 } },
        { "name": "some", "configMap": { "name": "settings", "defaultMode": 0o644,
            "items": [{ "key": "a", "path": "deep/in/it", "mode": 0o400 }, { "key": "b", "path": "b" }] } },
        { "name": "none", "configMap": { "name": "absent", "defaultMode": 0o644, "optional": true } },
        { "name": "part", "configMap": { "name": "settings", "defaultMode": 0o644, "optional": true,
            "items": [{ "key": "absent", "path": "x" }] } },
    ]));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!((bench.text("all", "a"), bench.text("all", "b")), ("1".to_owned(), "2".to_owned()));
    assert_eq!((bench.text("some", "deep/in/it"), bench.text("some", "b")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(mode(&bench.path("some").join("..data/deep/in/it")), 0o400);
    assert_eq!(mode(&bench.path("some").join("..data/b")), 0o644);
    for empty in ["none", "part"] {
        assert_eq!(std::fs::read_dir(bench.path(empty).join("..data")).unwrap().count(), 0);
    }
    let mounted = bench.volumes.mounted(&uid());
    assert!(mounted["all"].read_only && mounted["all"].relabel);
    assert!(mounted["all"].path.ends_with("volumes/kubernetes.io~configmap/all"));
    assert!(bench.root.path().join("pods/u-1/plugins/kubernetes.io~empty-dir/wrapped_all/ready").is_file());
}

#[tokio::test]
async fn a_secret_never_touches_a_disk() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.set_secret("keys", &[("tls.key", "secret")]);
    let pod = pod(json!([{ "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o400 } }]));
    bench.volumes.mount(&pod).await.unwrap();
    assert!(bench.path("keys").ends_with("volumes/kubernetes.io~secret/keys"));
    assert!(mounts::is_tmpfs(&bench.path("keys")).unwrap());
    assert_eq!(bench.text("keys", "tls.key"), "secret");
    assert_eq!(mode(&bench.path("keys").join("..data/tls.key")), 0o400);
}

/// What every pod gets for its service account.
fn default_token() -> Value {
    json!([{ "name": "kube-api-access", "projected": { "defaultMode": 0o644, "sources": [
        { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
        { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
    ] } }])
}

#[tokio::test]
async fn a_pod_has_its_default_token() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.set_config_map("kube-root-ca.crt", &[("ca.crt", "CA")]);
    bench.volumes.mount(&pod(default_token())).await.unwrap();
    let volume = "kube-api-access";
    for (file, text) in [("token", "robot for api"), ("ca.crt", "CA"), ("namespace", "default")] {
        assert_eq!(bench.text(volume, file), text);
    }
    assert!(mounts::is_tmpfs(&bench.path(volume)).unwrap());
    assert_eq!(mode(&bench.path(volume).join("..data/token")), 0o644);
}

#[tokio::test]
async fn a_token_belongs_to_the_user_and_group_of_the_pod() {
    if !is_root() {
        return;
    }
    for (context, expected) in [
        (json!({ "runAsUser": 1000 }), (0o600, (1000, 0))),
        (json!({ "fsGroup": 2000 }), (0o640, (0, 2000))),
        (json!({ "runAsUser": 1000, "fsGroup": 2000 }), (0o640, (1000, 2000))),
    ] {
        let bench = Bench::new();
        bench.set_config_map("kube-root-ca.crt", &[("ca.crt", "CA")]);
        let pod = pod_with(default_token(), json!({ "securityContext": context }));
        bench.volumes.mount(&pod).await.unwrap();
        let token = bench.path("kube-api-access").join("..data/token");
        assert_eq!((mode(&token), owner(&token)), expected, "{context}");
    }
}

#[tokio::test]
async fn the_downward_api_tells_labels_and_resources_as_they_change() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let volumes = json!([{ "name": "info", "downwardAPI": { "defaultMode": 0o644, "items": [
        { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
        { "path": "cpu/request", "mode": 0o600,
          "resourceFieldRef": { "containerName": "c", "resource": "requests.cpu", "divisor": "1m" } },
        { "path": "cpu/limit", "resourceFieldRef": { "containerName": "c", "resource": "limits.cpu" } },
    ] } }]);
    let mut pod = pod(volumes);
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("info", "labels"), "app=\"web\"");
    assert_eq!(
        (bench.text("info", "cpu/request"), bench.text("info", "cpu/limit")),
        ("250".into(), "2".into())
    );
    assert_eq!(mode(&bench.path("info").join("..data/cpu/request")), 0o600);
    Arc::make_mut(&mut pod).metadata.labels = Some([("app".to_owned(), "api".to_owned())].into());
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("info", "labels"), "app=\"api\"");
    assert!(mounts::is_tmpfs(&bench.path("info")).unwrap());
    assert_eq!(mounts::below(&bench.path("info")).unwrap().len(), 1);
}

#[tokio::test]
async fn a_volume_of_the_downward_api_that_was_made_on_disk_stays_there() {
    if !is_root() {
        return;
    }
    let mut bench = Bench::new();
    let items = json!([{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }]);
    let mut pod = pod(json!([{ "name": "info", "downwardAPI": { "defaultMode": 0o644, "items": items } }]));
    bench.without_rights();
    bench.volumes.mount(&pod).await.unwrap();
    // What a container has mounted.
    let seen = std::fs::File::open(bench.path("info")).unwrap();
    bench.restart();
    Arc::make_mut(&mut pod).metadata.labels = Some([("app".to_owned(), "api".to_owned())].into());
    bench.volumes.mount(&pod).await.unwrap();
    let seen = format!("/proc/self/fd/{}/labels", std::os::fd::AsRawFd::as_raw_fd(&seen));
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "app=\"api\"");
    bench.volumes.unmount(&uid()).await.unwrap();
    bench.volumes.mount(&pod).await.unwrap();
    assert!(mounts::is_tmpfs(&bench.path("info")).unwrap());
}

#[tokio::test(start_paused = true)]
async fn files_follow_their_object_at_once_and_the_disk_is_looked_at_now_and_then() {
    let bench = Bench::new();
    bench.set_config_map("settings", &[("a", "1"), ("b", "1")]);
    let pod = pod(json!([{ "name": "map", "configMap": { "name": "settings", "defaultMode": 0o644 } }]));
    bench.volumes.mount(&pod).await.unwrap();
    bench.set_config_map("settings", &[("a", "2")]);
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "2");
    assert!(!bench.path("map").join("b").exists());
    // Nobody looks at the disk for what did not change, for a minute or so.
    let tampered = bench.path("map").join("..data/a");
    std::fs::write(&tampered, "bad").unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "bad");
    tokio::time::advance(Duration::from_secs(32)).await;
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "2");
}

#[tokio::test]
async fn volumes_that_no_container_mounts_are_not_made() {
    let bench = Bench::new();
    let mut pod = pod(
        json!([{ "name": "used", "emptyDir": {} }, { "name": "idle", "nfs": { "server": "x", "path": "/" } }]),
    );
    let spec = Arc::make_mut(&mut pod).spec.as_mut().unwrap();
    spec.containers[0].volume_mounts.as_mut().unwrap().pop();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.volumes.mounted(&uid()).keys().collect::<Vec<_>>(), ["used"]);
}

#[tokio::test]
async fn a_read_only_volume_has_folders_for_what_is_mounted_in_it() {
    let bench = Bench::new();
    bench.set_config_map("settings", &[("a", "1")]);
    let volumes = json!([
        { "name": "map", "configMap": { "name": "settings", "defaultMode": 0o644 } },
        { "name": "map/inner", "emptyDir": {} },
    ]);
    let mut pod = pod(volumes);
    let spec = Arc::make_mut(&mut pod).spec.as_mut().unwrap();
    spec.volumes.as_mut().unwrap()[1].name = "inner".to_owned();
    spec.containers[0].volume_mounts.as_mut().unwrap()[1].name = "inner".to_owned();
    bench.volumes.mount(&pod).await.unwrap();
    assert!(bench.path("map").join("inner").is_dir());
    bench.set_config_map("settings", &[("a", "2")]);
    bench.volumes.mount(&pod).await.unwrap();
    assert!(bench.path("map").join("inner").is_dir() && bench.text("map", "a") == "2");
}

#[tokio::test]
async fn a_host_path_is_used_as_it_is() {
    let bench = Bench::new();
    let outside = bench.outside("data");
    let pod = pod(json!([{ "name": "host", "hostPath": { "path": outside, "type": "Directory" } }]));
    bench.volumes.mount(&pod).await.unwrap();
    let expected = MountedVolume { path: outside, read_only: false, relabel: false };
    assert_eq!(bench.volumes.mounted(&uid())["host"], expected);
}

#[tokio::test]
async fn volumes_are_counted_by_plugin_and_state_and_timed() {
    let bench = Bench::new();
    let registry = prometheus::Registry::new();
    bench.volumes.register(&registry).unwrap();
    let told = || {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == "volume_manager_total_volumes");
        let mut told: Vec<_> = family
            .iter()
            .flat_map(|family| family.get_metric())
            .map(|one| {
                let labels: Vec<_> = one.get_label().iter().map(|label| label.value().to_owned()).collect();
                (labels.join(" "), one.get_gauge().get_value())
            })
            .collect();
        told.sort_by(|one, other| one.0.cmp(&other.0));
        told
    };
    let pod = pod(json!([
        { "name": "a", "emptyDir": {} },
        { "name": "b", "emptyDir": {} },
        { "name": "c", "nfs": { "server": "s", "path": "/" } },
    ]));
    bench.volumes.mount(&pod).await.unwrap_err();
    let (actual, desired) = ("actual_state_of_world", "desired_state_of_world");
    assert_eq!(
        told(),
        [
            (format!("N/A {desired}"), 1.0),
            (format!("kubernetes.io/empty-dir {actual}"), 2.0),
            (format!("kubernetes.io/empty-dir {desired}"), 2.0),
        ]
    );
    bench.volumes.unmount(&uid()).await.unwrap();
    assert_eq!(told(), []);
    let families = registry.gather();
    let timed = families.iter().find(|family| family.name() == "storage_operation_duration_seconds").unwrap();
    let mut operations: Vec<_> = timed
        .get_metric()
        .iter()
        .map(|one| {
            let labels: Vec<_> = one.get_label().iter().map(|label| label.value()).collect();
            format!("{} {}", labels.join(" "), one.get_histogram().get_sample_count())
        })
        .collect();
    operations.sort();
    assert_eq!(
        operations,
        [
            "false volume_mount success kubernetes.io/empty-dir 2",
            "false volume_unmount success kubernetes.io/empty-dir 2",
        ]
    );
}
