//! Objects that outlive their server.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::discovery::ApiResource;
use serde_json::json;
use steersman_apiserver::{OpenError, TestDisk, TestServer};
use tokio::time::Instant;

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

#[tokio::test]
async fn a_second_life_goes_on_where_the_first_ended() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let first = TestServer::builder().kept_in(&data).start().await;
    let maps: Api<ConfigMap> = Api::namespaced(first.client(), "default");
    let kept = maps.create(&PostParams::default(), &map("kept")).await.unwrap();
    maps.create(&PostParams::default(), &map("gone")).await.unwrap();
    maps.delete("gone", &Default::default()).await.unwrap();
    let version = first.resource_version();
    first.stop().await;
    drop(first);
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);

    let second = TestServer::builder().kept_in(&data).start().await;
    let maps: Api<ConfigMap> = Api::namespaced(second.client(), "default");
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert!(maps.get_opt("gone").await.unwrap().is_none());
    let later = maps.create(&PostParams::default(), &map("later")).await.unwrap();
    let later: u64 = later.metadata.resource_version.unwrap().parse().unwrap();
    assert!(later > version, "versions must go on: {later} after {version}");
    let before = maps.watch(&Default::default(), &(version - 1).to_string()).await;
    let expired = match before {
        Err(kube::Error::Api(status)) => status.code == 410,
        Ok(events) => {
            use futures::TryStreamExt;
            let first = std::pin::pin!(events).try_next().await.unwrap();
            matches!(first, Some(kube::api::WatchEvent::Error(status)) if status.code == 410)
        }
        Err(error) => panic!("{error}"),
    };
    assert!(expired, "what the first life's history was is forgotten");
}

#[tokio::test]
async fn custom_resources_and_their_definitions_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let definition = json!({
        "metadata": {"name": "knobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "knobs", "singular": "knob", "kind": "Knob", "listKind": "KnobList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let of = |kind: &str, group: &str, plural: &str| ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{group}/v1"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let crd = of("CustomResourceDefinition", "apiextensions.k8s.io", "customresourcedefinitions");
    let knob = of("Knob", "example.com", "knobs");
    let first = TestServer::builder().kept_in(folder.path()).start().await;
    let definitions: Api<DynamicObject> = Api::all_with(first.client(), &crd);
    let definition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let knobs: Api<DynamicObject> = Api::namespaced_with(first.client(), "default", &knob);
    let one = DynamicObject::new("one", &knob).data(json!({"spec": {"turned": 3}}));
    knobs.create(&PostParams::default(), &one).await.unwrap();
    first.stop().await;
    drop(first);

    let second = TestServer::builder().kept_in(folder.path()).start().await;
    let knobs: Api<DynamicObject> = Api::namespaced_with(second.client(), "default", &knob);
    assert_eq!(knobs.get("one").await.unwrap().data["spec"]["turned"], 3);
}

#[tokio::test]
async fn a_folder_that_is_in_use_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let _first = TestServer::builder().kept_in(folder.path()).start().await;
    let second = TestServer::builder().kept_in(folder.path()).try_start().await;
    let Err(error @ OpenError::InUse(_)) = second else { panic!("two servers share a folder") };
    assert_eq!(
        error.to_string(),
        format!("data folder {}: another server is using it", folder.path().display())
    );
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    std::fs::write(&file, b"somebody's notes").unwrap();
    let opened = TestServer::builder().kept_in(folder.path()).try_start().await;
    assert!(matches!(opened, Err(OpenError::Read { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), b"somebody's notes");
}

/// What a client is told is on the disk, whenever the power is cut; a commit takes time, which may be paused.
#[tokio::test(start_paused = true)]
async fn on_a_disk_in_memory_objects_last_on_one_thread() {
    let disk = TestDisk::new(TestDisk::new_file(), usize::MAX);
    let server = TestServer::builder().without_port().kept_on(disk.clone()).start().await;
    let maps = Api::<ConfigMap>::default_namespaced(server.in_memory_client());
    let began = Instant::now();
    let made = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert!(began.elapsed() > Duration::ZERO, "a commit takes time");
    // Of this one nobody is told.
    let (parameters, second) = (PostParams::default(), map("b"));
    let mut write = Box::pin(maps.create(&parameters, &second));
    assert!(futures::poll!(&mut write).is_pending());
    disk.cut();
    assert!(write.await.is_err());

    let disk = TestDisk::new(disk.after_the_crash(0), usize::MAX);
    let server = TestServer::builder().without_port().kept_on(disk.clone()).start().await;
    let maps = Api::<ConfigMap>::default_namespaced(server.in_memory_client());
    assert_eq!(maps.get_opt("b").await.unwrap(), None);
    assert_eq!(maps.get("a").await.unwrap(), made);

    disk.fail_after(0);
    assert!(maps.create(&PostParams::default(), &map("c")).await.is_err());
    assert!(server.failed().await.contains("failed"));
}
