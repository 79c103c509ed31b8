//! An informer sees what happens in an API server, in whatever way it comes to it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod as FullPod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use steersman_api::{GroupVersionResource, ObjectKey, ResourceVersion};
use steersman_client::Clients;
use steersman_client::clients::Options as ClientOptions;
use steersman_informer::factory::Options;
use steersman_informer::index::{BY_NAMESPACE, by_namespace};
use steersman_informer::list_watch::Scope;
use steersman_informer::reflector::ListMode;
use steersman_informer::wire::whole::Whole;
use steersman_informer::{Informer, SharedInformerFactory, keep, shared_informer};
use steersman_kinds::pod::{Phase, Placement, Pod};
use support::{Cluster, eventually, until};

keep! {
    /// What these tests read of a pod.
    struct SeenPod: Pod => Placement, Phase
}

fn factory(cluster: &Cluster, mode: ListMode, page: u32) -> SharedInformerFactory {
    let clients = Clients::connect(cluster.config(), ClientOptions::default()).expect("clients must be made");
    let mut informer = shared_informer::Config::default();
    informer.reflector.mode = mode;
    informer.reflector.page = page;
    let scope = Scope { namespace: cluster.namespace.as_str().into(), ..Scope::default() };
    SharedInformerFactory::new(clients.watch_client(), Options { scope, informer })
}

async fn pods(cluster: &Cluster, mode: ListMode, page: u32) -> (SharedInformerFactory, Informer<SeenPod>) {
    let factory = factory(cluster, mode, page);
    let pods = factory.informer::<SeenPod>().expect("pods can be asked for before the start");
    factory.start();
    tokio::time::timeout(Duration::from_secs(60), pods.synced()).await.expect("the cache must sync");
    (factory, pods)
}

fn pod(name: &str) -> FullPod {
    let pod = steersman_testing::pod(name).label("app", "web").build();
    serde_json::from_value(pod).expect("the builder must make a pod")
}

async fn follows(mode: ListMode, page: u32) {
    let cluster = Cluster::start().await;
    let api = Api::<FullPod>::default_namespaced(cluster.client());
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &pod(name)).await.expect("a pod must be made");
    }
    let (factory, pods) = pods(&cluster, mode, page).await;
    let by_namespace = pods.add_index(BY_NAMESPACE, by_namespace);
    let lister = pods.lister();
    assert_eq!(lister.len(), 3);

    let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "db" } } }));
    let patched = api.patch("b", &PatchParams::default(), &patch).await.expect("a label must be set");
    let status = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    let running = api.patch_status("a", &PatchParams::default(), &status).await.expect("a phase must be set");
    api.delete("c", &DeleteParams::default().grace_period(0)).await.expect("a pod must be deleted");
    until("the deletion is seen", || lister.len() == 2).await;

    let get = |name: &str| lister.get(&ObjectKey::new(cluster.namespace.as_str(), name)).unwrap().unwrap();
    assert_eq!(get("b").meta().labels.get("app").unwrap(), "db");
    assert_eq!(get("b").meta().uid.to_string(), patched.metadata.uid.unwrap());
    assert_eq!(&get("a").get::<Phase>().phase, "Running");
    let version = ResourceVersion::parse(&running.metadata.resource_version.unwrap()).unwrap();
    assert_eq!(get("a").meta().resource_version, version);
    assert!(pods.last_sync_resource_version() >= version);
    assert_eq!(lister.by_index(&by_namespace, &cluster.namespace.as_str().into()).unwrap().len(), 2);
    factory.shutdown().await;
}

#[tokio::test]
async fn a_streamed_list_and_its_watch_follow_the_server() {
    follows(ListMode::Streamed, 500).await;
}

#[tokio::test]
async fn a_whole_list_and_a_watch_follow_the_server() {
    follows(ListMode::Whole, 500).await;
}

#[tokio::test]
async fn a_paged_list_and_a_watch_follow_the_server() {
    follows(ListMode::Paged, 2).await;
}

#[tokio::test]
async fn whole_objects_and_bare_metadata_are_cached_as_well() {
    let cluster = Cluster::start().await;
    let api = Api::<ConfigMap>::default_namespaced(cluster.client());
    let map = json!({ "metadata": { "name": "settings" }, "data": { "colour": "green" } });
    api.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .expect("a map must be made");
    let factory = factory(&cluster, ListMode::Streamed, 500);
    let maps = factory.informer::<Whole<ConfigMap>>().unwrap();
    let claims = factory.dynamic(&GroupVersionResource::new("", "v1", "secrets"));
    factory.start();
    let all = factory.informers();
    let synced = factory.wait_for_cache_sync(&all, Duration::from_secs(60)).await;
    assert!(synced.values().all(|synced| *synced), "{synced:?}");

    let key = ObjectKey::new(cluster.namespace.as_str(), "settings");
    let cached = maps.lister().get(&key).unwrap().unwrap();
    let data = cached.object().object().unwrap().data.as_ref().unwrap();
    assert_eq!(data["colour"], "green");

    assert!(claims.is_empty());
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::default_namespaced(cluster.client());
    let secret =
        json!({ "metadata": { "name": "hidden", "labels": { "a": "b" } }, "stringData": { "x": "y" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.expect("a secret");
    let key = ObjectKey::new(cluster.namespace.as_str(), "hidden");
    let meta = eventually("the secret's metadata is seen", || std::future::ready(claims.meta(&key))).await;
    assert_eq!(meta.labels.get("a").unwrap(), "b");
    factory.shutdown().await;
}

#[tokio::test]
async fn the_cache_catches_up_after_the_api_server_was_away() {
    let cluster = Cluster::start_own().await;
    let api = Api::<FullPod>::default_namespaced(cluster.client());
    api.create(&PostParams::default(), &pod("before")).await.expect("a pod must be made");
    let (factory, pods) = pods(&cluster, ListMode::Streamed, 500).await;
    cluster.restart(Duration::from_millis(500)).await;
    eventually("the server takes a pod again", || async {
        api.create(&PostParams::default(), &pod("after")).await.ok()
    })
    .await;
    until("the cache has caught up", || pods.lister().len() == 2).await;
    factory.shutdown().await;
}

#[tokio::test]
async fn one_sick_kind_keeps_nobody_from_the_others() {
    let cluster = Cluster::start().await;
    let factory = factory(&cluster, ListMode::Streamed, 500);
    let pods = factory.informer::<SeenPod>().unwrap();
    let unknown = GroupVersionResource::new("nowhere.example.com", "v1", "things");
    let sick = factory.lease(&unknown);
    sick.start();
    factory.start();
    factory.start();
    let caches = [pods.any(), Arc::clone(sick.informer())];
    let synced = factory.wait_for_cache_sync(&caches, Duration::from_secs(5)).await;
    assert_eq!(synced.get(&unknown), Some(&false));
    assert_eq!(synced.get(&GroupVersionResource::new("", "v1", "pods")), Some(&true));
    drop((sick, caches));
    assert_eq!(factory.informers().len(), 1);
    factory.shutdown().await;
}

mod with_faults {
    use super::*;
    use steersman_apiserver::{Calls, Failure, Verb};

    #[tokio::test]
    async fn many_users_share_one_watch() {
        let cluster = Cluster::start_embedded().await;
        let recording = cluster.embedded().record();
        let factory = factory(&cluster, ListMode::Streamed, 500);
        let users: Vec<_> = (0..10).map(|_| factory.informer::<SeenPod>().unwrap()).collect();
        factory.start();
        users[9].synced().await;
        assert_eq!(recording.requests().len(), 1);
        factory.shutdown().await;
    }

    #[tokio::test]
    async fn cut_watches_lose_nothing() {
        let cluster = Cluster::start_embedded().await;
        let (factory, pods) = pods(&cluster, ListMode::Streamed, 500).await;
        let api = Api::<FullPod>::default_namespaced(cluster.client());
        for i in 0..5 {
            cluster.embedded().faults().cut_watches(Calls::all());
            let name = format!("pod-{i}");
            api.create(&PostParams::default(), &pod(&name)).await.expect("a pod must be made");
            until("the pod is seen", || pods.lister().len() == i + 1).await;
        }
        factory.shutdown().await;
    }

    #[tokio::test]
    async fn a_compacted_history_is_made_up_for_by_a_list_that_sweeps() {
        let cluster = Cluster::start_embedded().await;
        let api = Api::<FullPod>::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &pod("old")).await.expect("a pod must be made");
        let (factory, pods) = pods(&cluster, ListMode::Streamed, 500).await;
        let server = cluster.embedded();
        server.faults().fail(1, Calls::all().verb(Verb::Watch), Failure::InternalError);
        server.faults().cut_watches(Calls::all());
        api.delete("old", &DeleteParams::default().grace_period(0)).await.expect("it must be deleted");
        api.create(&PostParams::default(), &pod("new")).await.expect("a pod must be made");
        server.compact();
        let key = ObjectKey::new(cluster.namespace.as_str(), "new");
        until("the new pod is seen", || pods.lister().get(&key).unwrap().is_some()).await;
        until("the old one is swept", || pods.lister().len() == 1).await;
        factory.shutdown().await;
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_not_taken_for_absent() {
        let cluster = Cluster::start_embedded().await;
        let api = Api::<FullPod>::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &pod("good")).await.expect("a pod must be made");
        api.create(&PostParams::default(), &pod("bad")).await.expect("a pod must be made");
        cluster.embedded().faults().spoil(Calls::all(), "bad");
        let (factory, pods) = pods(&cluster, ListMode::Streamed, 500).await;
        let key = |name: &str| ObjectKey::new(cluster.namespace.as_str(), name);
        assert!(pods.lister().get(&key("good")).unwrap().is_some());
        assert!(pods.lister().get(&key("bad")).is_err());
        assert_eq!(pods.lister().len(), 2);
        cluster.embedded().faults().clear();
        cluster.embedded().faults().cut_watches(Calls::all());
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "db" } } }));
        api.patch("bad", &PatchParams::default(), &patch).await.expect("a label must be set");
        until("it can be read again", || pods.lister().get(&key("bad")).is_ok()).await;
        factory.shutdown().await;
    }
}

/// The same cache, for whoever asks: what `Arc` would say of a watch.
#[tokio::test]
async fn typed_and_dynamic_users_of_a_kind_share_its_cache() {
    let cluster = Cluster::start().await;
    let factory = factory(&cluster, ListMode::Streamed, 500);
    let pods = factory.informer::<SeenPod>().unwrap();
    let any = factory.dynamic(&GroupVersionResource::new("", "v1", "pods"));
    assert!(Arc::ptr_eq(&pods.any(), &any));
}
