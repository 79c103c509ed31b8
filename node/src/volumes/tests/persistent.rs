//! Claims: what is read of them, and what is told of those that can't be used.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_bound_is_told_in_upstreams_words_and_read_again() {
    let bench = Bench::new();
    let host = bench.outside("host");
    let pod = claiming("u-1", "c", json!({}));
    for (why, claim) in [
        ("failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found", None),
        ("PVC is not bound", Some("Pending")),
    ] {
        if let Some(phase) = claim {
            bench.set_claim("c", json!({ "hostPath": { "path": host } }), json!({}));
            let mut claims = bench.objects.claims.lock();
            claims.get_mut("c").unwrap().status.as_mut().unwrap().phase = Some(phase.to_owned());
        }
        let error = bench.volumes.mount(&pod).await.unwrap_err();
        let whole = format!(
            "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC \
             default/c: {why}"
        );
        assert_eq!(error.to_string(), whole);
        assert!(!error.is_unsupported());
        let told = format!("FailedMount Unable to attach or mount volumes: {whole}");
        assert_eq!(bench.messages().last(), Some(&told));
        tokio::time::advance(error.retry_in).await;
    }
    bench.set_claim("c", json!({ "hostPath": { "path": host } }), json!({}));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.path("data"), host);
    assert_eq!(bench.messages().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn volumes_that_can_not_be_processed_are_one_event() {
    let bench = Bench::new();
    let pod = pod(json!([
        { "name": "b", "persistentVolumeClaim": { "claimName": "two" } },
        { "name": "a", "persistentVolumeClaim": { "claimName": "one" } },
        { "name": "map", "configMap": { "name": "absent", "defaultMode": 0o644 } },
        { "name": "share", "nfs": { "server": "s", "path": "/" } },
    ]));
    let error = bench.volumes.mount(&pod).await.unwrap_err();
    assert_eq!((error.unmounted.len(), error.unprocessed.len(), error.unsupported.len()), (4, 3, 1));
    let not_found = |name: &str| {
        format!(
            "error processing PVC default/{name}: failed to fetch PVC from API server: persistentvolumeclaims \
             \"{name}\" not found"
        )
    };
    let whole = format!(
        "FailedMount Unable to attach or mount volumes: unmounted volumes=[a b map share], unattached volumes=[], failed \
         to process volumes=[a b share]: {}; {}; volume \"share\" is of kind nfs, which this node does not support",
        not_found("one"),
        not_found("two"),
    );
    let of_map = "FailedMount MountVolume.SetUp failed for volume \"map\" : configmap \"absent\" not found";
    assert_eq!(bench.messages(), [of_map.to_owned(), whole]);
    // While all are left alone, nothing is told and nothing is read.
    let reads = bench.objects.reads.load(Ordering::Relaxed);
    bench.volumes.mount(&pod).await.unwrap_err();
    assert_eq!((bench.messages().len(), bench.objects.reads.load(Ordering::Relaxed)), (2, reads));
}

#[tokio::test]
async fn what_is_mounted_is_not_read_again() {
    let mut bench = Bench::new();
    let host = bench.outside("host");
    bench.set_claim("c", json!({ "hostPath": { "path": host } }), json!({}));
    let pod = claiming("u-1", "c", json!({}));
    for _ in 0..3 {
        bench.volumes.mount(&pod).await.unwrap();
    }
    assert_eq!(bench.objects.reads.load(Ordering::Relaxed), 2, "a claim and a volume");
    bench.restart();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.objects.reads.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_host_path_is_mounted_as_it_is_and_its_group_is_not_changed() {
    let bench = Bench::new();
    let host = bench.outside("host");
    std::fs::write(host.join("file"), "x").unwrap();
    let before = (mode(&host.join("file")), owner(&host.join("file")));
    let annotated = json!({ "pv.beta.kubernetes.io/gid": "7000" });
    bench.set_claim("c", json!({ "hostPath": { "path": host, "type": "Directory" } }), json!({}));
    bench.objects.volumes.lock().get_mut("pv-c").unwrap().metadata.annotations = Some(read(annotated));
    let pod = claiming("u-1", "c", json!({ "securityContext": { "fsGroup": 4321 } }));
    bench.volumes.mount(&pod).await.unwrap();
    let expected = MountedVolume { path: host.clone(), read_only: false, relabel: false };
    assert_eq!(bench.volumes.mounted(&uid())["data"], expected);
    assert_eq!((mode(&host.join("file")), owner(&host.join("file"))), before);
    assert_eq!(bench.volumes.groups(&uid()).into_iter().collect::<Vec<_>>(), [7000]);
    bench.volumes.unmount(&uid()).await.unwrap();
    assert!(host.join("file").is_file());
    assert!(bench.volumes.groups(&uid()).is_empty());
}

#[tokio::test]
async fn a_claim_that_the_pod_may_only_read_is_read_only() {
    let bench = Bench::new();
    let host = bench.outside("host");
    bench.set_claim("c", json!({ "hostPath": { "path": host } }), json!({}));
    let source = json!({ "claimName": "c", "readOnly": true });
    bench.volumes.mount(&pod(json!([{ "name": "data", "persistentVolumeClaim": source }]))).await.unwrap();
    assert!(bench.volumes.mounted(&uid())["data"].read_only);
}

#[tokio::test(start_paused = true)]
async fn a_host_path_for_one_pod_is_refused_to_a_second_until_the_first_is_unmounted() {
    let bench = Bench::new();
    let host = json!({ "hostPath": { "path": bench.outside("host") } });
    bench.set_claim("c", host, json!({ "accessModes": ["ReadWriteOncePod"] }));
    let (first, second) = (claiming("u-1", "c", json!({})), claiming("u-2", "c", json!({})));
    bench.volumes.mount(&first).await.unwrap();
    let error = bench.volumes.mount(&second).await.unwrap_err();
    let expected = "MountVolume.SetUp failed for volume \"pv-c\" : volume uses the ReadWriteOncePod access mode and is \
                    already in use by another pod";
    assert_eq!(error.reasons, [expected]);
    bench.volumes.mount(&first).await.unwrap();
    bench.volumes.unmount(&uid()).await.unwrap();
    tokio::time::advance(error.retry_in).await;
    bench.volumes.mount(&second).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_persistent_volume_is_told_by_its_own_name() {
    let terms = json!([{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"] } ] }]);
    for (source, members, expected) in [
        (
            json!({ "hostPath": { "path": "/none/at/all", "type": "Directory" } }),
            json!({}),
            "MountVolume.SetUp failed for volume \"pv-c\" : hostPath type check failed: /none/at/all is not a directory",
        ),
        (
            json!({ "hostPath": { "path": "/" } }),
            json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } }),
            "MountVolume.NodeAffinity check failed for volume \"pv-c\" : no matching NodeSelectorTerms",
        ),
        (
            json!({ "hostPath": { "path": "/" } }),
            json!({ "mountOptions": ["noexec"] }),
            "MountVolume.MountOptionSupport check failed for volume \"pv-c\" : mount options are not supported for this \
             volume type",
        ),
        (
            json!({ "local": { "path": "/none/at/all" } }),
            json!({}),
            "MountVolume.NewMounter initialization failed for volume \"pv-c\" : path \"/none/at/all\" does not exist",
        ),
        (
            json!({ "local": { "path": "/proc/self/status" } }),
            json!({}),
            "MountVolume.NewMounter initialization failed for volume \"pv-c\" : only directory and block device are \
             supported",
        ),
        (
            json!({ "local": { "path": "" } }),
            json!({}),
            "MountVolume.NewMounter initialization failed for volume \"pv-c\" : local volume source is nil or local path \
             is not set",
        ),
        (
            json!({ "local": { "path": "/usr/../usr" } }),
            json!({}),
            "MountVolume.SetUp failed for volume \"pv-c\" : invalid path: /usr/../usr must not contain '..'",
        ),
    ] {
        let bench = Bench::new();
        bench.set_claim("c", source.clone(), members);
        let error = bench.volumes.mount(&claiming("u-1", "c", json!({}))).await.unwrap_err();
        assert_eq!(error.reasons, [expected], "{source}");
        assert_eq!(bench.messages(), [format!("FailedMount {expected}")]);
        assert!(error.unprocessed.is_empty());
        assert!(!bench.root.pod_volume(&uid(), "kubernetes.io/local-volume", "pv-c").exists());
    }
}

#[tokio::test]
async fn the_name_of_a_persistent_volume_can_not_lead_out_of_the_pods_folder() {
    let bench = Bench::new();
    bench.set_claim("c", json!({ "local": { "path": bench.outside("disk") } }), json!({}));
    let mut volume = bench.objects.volumes.lock()["pv-c"].clone();
    volume.metadata.name = Some("../../../out".to_owned());
    bench.objects.volumes.lock().insert("pv-c".to_owned(), volume);
    let error = bench.volumes.mount(&claiming("u-1", "c", json!({}))).await.unwrap_err();
    assert!(error.to_string().contains("volume \"../../../out\" can't name a folder"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_rights_gives_an_empty_folder_for_any_claim_that_is_bound() {
    let mut bench = Bench::new();
    bench.without_rights();
    let sources = [
        json!({ "csi": { "driver": "d", "volumeHandle": "h" } }),
        json!({ "local": { "path": "/none/at/all" } }),
        json!({ "hostPath": { "path": "/none/at/all", "type": "Directory" } }),
    ];
    for (index, source) in sources.into_iter().enumerate() {
        let (claim, pod_uid) = (format!("c-{index}"), Uid::from(format!("u-{index}").as_str()));
        let pod = claiming(&pod_uid.to_string(), &claim, json!({}));
        let error = bench.volumes.mount(&pod).await.unwrap_err();
        tokio::time::advance(error.retry_in).await;
        bench.set_claim(&claim, source, json!({}));
        bench.volumes.mount(&pod).await.unwrap();
        let mounted = bench.volumes.mounted(&pod_uid)["data"].clone();
        assert!(mounted.path.starts_with(bench.root.pod(&pod_uid)) && mounted.path.is_dir());
        std::fs::write(mounted.path.join("file"), "x").unwrap();
        bench.volumes.unmount(&pod_uid).await.unwrap();
        assert!(!mounted.path.exists());
    }
}

/// A pod of a kubelet before this agent keeps a volume whose claim stands for what this node does not support.
#[tokio::test]
async fn the_claim_of_a_running_pod_is_adopted_where_its_volume_is_not_supported() {
    let bench = Bench::new();
    bench.set_claim("c", json!({ "csi": { "driver": "d", "volumeHandle": "h" } }), json!({}));
    let pod = claiming("u-1", "c", json!({}));
    let error = bench.volumes.mount(&pod).await.unwrap_err();
    assert!(error.is_unsupported());
    let there = bench.root.pod_volume(&uid(), "kubernetes.io/csi", "pv-c").join("mount");
    let mount = crate::cri::v1::Mount {
        container_path: "data".to_owned(),
        host_path: there.display().to_string(),
        ..Default::default()
    };
    let found = [ContainerMounts { container: "c".to_owned(), mounts: vec![mount] }];
    assert!(bench.volumes.adopt(&pod, &error.unsupported, &found));
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.path("data"), there);
}

#[tokio::test]
async fn refused_claims_wait_no_longer_than_upstream_lets_pods_wait() {
    tokio::time::pause();
    let bench = Bench::new();
    let pod = claiming("u-1", "c", json!({}));
    for _ in 0..8 {
        let error = bench.volumes.mount(&pod).await.unwrap_err();
        assert!(error.retry_in <= Duration::from_secs(10));
        tokio::time::advance(error.retry_in).await;
    }
}
