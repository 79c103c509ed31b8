//! Volumes that can't be had.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_told_in_upstreams_words_and_tried_again_after_a_back_off() {
    let bench = Bench::new();
    let pod = pod(json!([
        { "name": "map", "configMap": { "name": "absent", "defaultMode": 0o644 } },
        { "name": "scratch", "emptyDir": {} },
    ]));
    let error = bench.volumes.mount(&pod).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unmounted volumes=[map], unattached volumes=[], failed to process volumes=[]: \
         MountVolume.SetUp failed for volume \"map\" : configmap \"absent\" not found"
    );
    assert_eq!(error.retry_in, Duration::from_millis(500));
    let said = ["FailedMount MountVolume.SetUp failed for volume \"map\" : configmap \"absent\" not found"];
    assert_eq!(bench.messages(), said);
    // What is there is there.
    assert_eq!(bench.volumes.mounted(&uid()).keys().collect::<Vec<_>>(), ["scratch"]);
    // Too early: the same error, no event.
    bench.set_config_map("absent", &[("a", "1")]);
    tokio::time::advance(Duration::from_millis(400)).await;
    let early = bench.volumes.mount(&pod).await.unwrap_err();
    assert_eq!((early.reasons, early.retry_in), (error.reasons, Duration::from_millis(100)));
    assert_eq!(bench.messages().len(), 1);
    tokio::time::advance(Duration::from_millis(100)).await;
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_back_off_grows_with_each_failure() {
    let bench = Bench::new();
    let pod = pod(json!([{ "name": "keys", "secret": { "secretName": "absent", "defaultMode": 0o644 } }]));
    for wait in [500, 1000, 2000] {
        let error = bench.volumes.mount(&pod).await.unwrap_err();
        assert_eq!(error.retry_in, Duration::from_millis(wait));
        tokio::time::advance(error.retry_in).await;
    }
    assert_eq!(bench.messages().len(), 3);
}

#[tokio::test]
async fn a_kind_that_is_not_supported_is_named() {
    let projected = |source: Value| json!({ "projected": { "defaultMode": 0o644, "sources": [source] } });
    for (source, kind) in [
        (json!({ "csi": { "driver": "d" } }), "csi"),
        (json!({ "nfs": { "server": "s", "path": "/" } }), "nfs"),
        (json!({ "image": { "reference": "i" } }), "image"),
        (json!({ "emptyDir": { "medium": "HugePages-2Mi" } }), "emptyDir with medium HugePages-2Mi"),
        (projected(json!({ "clusterTrustBundle": { "path": "p" } })), "projected with clusterTrustBundle"),
        (
            projected(json!({ "podCertificate": { "keyType": "k", "signerName": "s" } })),
            "projected with podCertificate",
        ),
    ] {
        let bench = Bench::new();
        let mut volume = source;
        volume["name"] = json!("data");
        let error = bench.volumes.mount(&pod(json!([volume]))).await.unwrap_err();
        let why = format!("volume \"data\" is of kind {kind}, which this node does not support");
        let whole = format!(
            "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: {why}"
        );
        assert_eq!(error.to_string(), whole);
        assert_eq!(bench.messages(), [format!("FailedMount Unable to attach or mount volumes: {whole}")]);
        assert!(!bench.root.pod_volumes(&uid()).exists(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_made_stays_when_it_can_not_be_refreshed() {
    let bench = Bench::new();
    bench.set_config_map("settings", &[("a", "1")]);
    let pod = pod(json!([{ "name": "map", "configMap": { "name": "settings", "defaultMode": 0o644 } }]));
    bench.volumes.mount(&pod).await.unwrap();
    bench.objects.config_maps.lock().clear();
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "1");
    assert_eq!(bench.events.reasons(), ["FailedMount"]);
    bench.set_config_map("settings", &[("../a", "2")]);
    tokio::time::advance(Duration::from_secs(1)).await;
    bench.volumes.mount(&pod).await.unwrap();
    assert_eq!(bench.text("map", "a"), "1");
    let said =
        "FailedMount MountVolume.SetUp failed for volume \"map\" : invalid path: must not contain '..': ../a";
    assert_eq!(bench.messages()[1], said);
}

#[tokio::test]
async fn a_volume_that_could_not_be_filled_leaves_nothing() {
    let bench = Bench::new();
    bench.set_config_map("settings", &[("..data", "1")]);
    let pod = pod(json!([{ "name": "map", "configMap": { "name": "settings", "defaultMode": 0o644 } }]));
    bench.volumes.mount(&pod).await.unwrap_err();
    assert!(!bench.root.pod_volume(&uid(), "kubernetes.io/configmap", "map").exists());
}

#[tokio::test]
async fn all_that_is_wrong_is_told_by_name() {
    let bench = Bench::new();
    bench.set_secret("keys", &[("a", "1")]);
    let volumes = json!([
        { "name": "b", "secret": { "secretName": "keys", "defaultMode": 0o644, "items": [{ "key": "x", "path": "x" }] } },
        { "name": "a", "projected": { "defaultMode": 0o644, "sources": [
            { "secret": { "name": "one" } }, { "configMap": { "name": "two" } }, { "secret": { "name": "one" } } ] } },
        { "name": "c", "configMap": { "name": "settings" } },
    ]);
    bench.set_config_map("settings", &[]);
    let error = bench.volumes.mount(&pod(volumes)).await.unwrap_err();
    assert_eq!(error.unmounted, ["a", "b", "c"]);
    assert_eq!(
        error.reasons,
        [
            "MountVolume.SetUp failed for volume \"a\" : [secret \"one\" not found, configmap \"two\" not found]",
            "MountVolume.SetUp failed for volume \"b\" : references non-existent secret key: x",
            "MountVolume.SetUp failed for volume \"c\" : no defaultMode used, not even the default value for it",
        ]
    );
}

#[tokio::test]
async fn names_that_lead_out_of_the_pods_folder_are_refused() {
    let bench = Bench::new();
    let good = pod(json!([{ "name": "scratch", "emptyDir": {} }]));
    let mut bad = good.clone();
    Arc::make_mut(&mut bad).metadata.uid = Some("../../out".to_owned());
    let error = bench.volumes.mount(&bad).await.unwrap_err();
    assert!(error.to_string().contains("uid \"../../out\" can't name a folder"), "{error}");
    let error = bench.volumes.mount(&pod(json!([{ "name": "..", "emptyDir": {} }]))).await.unwrap_err();
    assert!(error.to_string().contains("volume \"..\" can't name a folder"), "{error}");
}
