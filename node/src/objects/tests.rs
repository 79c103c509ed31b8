use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_api::Status;
use steersman_apiserver::{Calls, Failure, TestServer, Verb};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::watched_object::IDLE;
use super::*;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON of a test must fit its type")
}

/// A pod that mounts config maps and secrets of those names.
fn pod(uid: &str, config_maps: &[&str], secrets: &[&str]) -> Pod {
    let maps =
        config_maps.iter().map(|name| json!({ "name": format!("m-{name}"), "configMap": { "name": name } }));
    let secrets =
        secrets.iter().map(|name| json!({ "name": format!("s-{name}"), "secret": { "secretName": name } }));
    read(json!({
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
        "spec": { "containers": [], "volumes": maps.chain(secrets).collect::<Vec<_>>() },
    }))
}

#[test]
fn all_that_a_pod_names_is_found() {
    let pod: Pod = read(json!({
        "metadata": {},
        "spec": {
            "imagePullSecrets": [{ "name": "pull" }, { "name": "" }],
            "initContainers": [{ "name": "i", "envFrom": [
                { "configMapRef": { "name": "from-map" } }, { "secretRef": { "name": "from-secret" } } ] }],
            "containers": [{ "name": "c", "env": [
                { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "key-map", "key": "k" } } },
                { "name": "B", "valueFrom": { "secretKeyRef": { "name": "key-secret", "key": "k" } } } ] }],
            "ephemeralContainers": [{ "name": "e", "envFrom": [{ "configMapRef": { "name": "debug-map" } }] }],
            "volumes": [
                { "name": "a", "configMap": { "name": "map" } },
                { "name": "b", "secret": { "secretName": "secret" } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "part-map" } }, { "secret": { "name": "part-secret" } } ] } },
                { "name": "d", "csi": { "driver": "x", "nodePublishSecretRef": { "name": "publish" } } },
                { "name": "e", "azureFile": { "secretName": "azure", "shareName": "s" } },
            ],
        },
    }));
    let found = References::of(&pod);
    let names = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(&found.config_maps), "debug-map from-map key-map map part-map");
    assert_eq!(names(&found.secrets), "azure from-secret key-secret part-secret publish pull secret");
}

/// A server, and the node's objects on it.
struct Bench {
    server: TestServer,
    objects: WatchedObjects,
    stop: CancellationToken,
}

impl Bench {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let stop = CancellationToken::new();
        let objects = WatchedObjects::new(server.in_memory_client(), stop.clone());
        Self { server, objects, stop }
    }

    fn api<T>(&self) -> Api<T>
    where
        T: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.server.in_memory_client(), "default")
    }

    async fn create<T>(&self, object: Value)
    where
        T: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + DeserializeOwned
            + Serialize
            + Clone
            + std::fmt::Debug,
    {
        self.api::<T>().create(&PostParams::default(), &read(object)).await.unwrap();
    }

    async fn set(&self, name: &str, value: &str) {
        let patch = kube::api::Patch::Merge(json!({ "data": { "k": value } }));
        self.api::<ConfigMap>().patch(name, &Default::default(), &patch).await.unwrap();
    }

    async fn value(&self, name: &str) -> Result<String, ObjectError> {
        let map = self.objects.config_map("default", name).await?;
        Ok(map.data.as_ref().unwrap()["k"].clone())
    }

    /// Until a config map reads so.
    async fn reads(&self, name: &str, value: &str) {
        tokio::time::timeout(Duration::from_secs(60), async {
            while self.value(name).await.ok().as_deref() != Some(value) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the change must be seen");
    }

    async fn end(self) {
        self.stop.cancel();
        self.objects.stopped().await;
    }
}

fn map(name: &str, value: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "k": value } })
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_as_it_is_and_followed_by_a_watch_of_its_own() {
    let bench = Bench::start().await;
    bench.create::<ConfigMap>(map("a", "1")).await;
    bench.create::<ConfigMap>(map("other", "1")).await;
    let recording = bench.server.record();
    bench.objects.register(&pod("p", &["a"], &[]));
    assert_eq!(bench.value("a").await.unwrap(), "1");
    bench.set("a", "2").await;
    bench.reads("a", "2").await;
    assert_eq!(recording.count(&Calls::to("configmaps").verb(Verb::Watch)), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_asked_for_by_their_names_alone() {
    let server = TestServer::start().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let service = server.in_memory().map_request(move |request: http::Request<kube::client::Body>| {
        seen.lock().push(request.uri().to_string());
        request
    });
    let stop = CancellationToken::new();
    let objects = WatchedObjects::new(kube::Client::new(service, "default"), stop.clone());
    objects.register(&pod("p", &["a"], &["s"]));
    assert!(objects.config_map("default", "a").await.is_err());
    assert!(objects.secret("default", "s").await.is_err());
    stop.cancel();
    objects.stopped().await;
    let asked = asked.lock();
    assert_eq!(asked.len(), 2);
    for (uri, name) in asked.iter().zip(["a", "s"]) {
        assert!(uri.contains(&format!("fieldSelector=metadata.name%3D{name}&")), "{uri}");
        assert!(uri.starts_with("/api/v1/namespaces/default/"), "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_not_found_in_the_servers_words_until_it_is_there() {
    let bench = Bench::start().await;
    bench.objects.register(&pod("p", &["a"], &["s"]));
    let missing = bench.value("a").await.unwrap_err();
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "configmap \"a\" not found");
    let missing = bench.objects.secret("default", "s").await.unwrap_err();
    assert_eq!(missing.to_string(), "secret \"s\" not found");
    bench.create::<ConfigMap>(map("a", "1")).await;
    bench.reads("a", "1").await;
    bench.api::<ConfigMap>().delete("a", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), async {
        while bench.value("a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the deletion must be seen");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_no_pod_registered_is_refused() {
    let bench = Bench::start().await;
    let refused = bench.value("a").await.unwrap_err();
    assert!(!refused.is_not_found());
    assert_eq!(refused.to_string(), "object \"default\"/\"a\" not registered");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_lives_as_long_as_a_pod_refers_to_its_object() {
    let bench = Bench::start().await;
    bench.create::<ConfigMap>(map("a", "1")).await;
    let (one, two) = (pod("one", &["a"], &[]), pod("two", &["a"], &["s"]));
    bench.objects.register(&one);
    bench.objects.register(&two);
    bench.objects.register(&two);
    assert_eq!(bench.objects.len(), 2);
    bench.objects.unregister(&one);
    bench.objects.unregister(&one);
    assert_eq!(bench.value("a").await.unwrap(), "1");
    // An update of the pod may drop a reference.
    bench.objects.register(&pod("two", &[], &["s"]));
    assert_eq!(bench.objects.len(), 1);
    assert!(bench.value("a").await.is_err());
    bench.objects.unregister(&two);
    assert!(bench.objects.is_empty());
    // No task is left, though nobody said stop.
    bench.objects.tasks_end().await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_new_pod_reads_is_no_older_than_its_registration() {
    let bench = Bench::start().await;
    bench.create::<ConfigMap>(map("a", "1")).await;
    bench.objects.register(&pod("one", &["a"], &[]));
    assert_eq!(bench.value("a").await.unwrap(), "1");
    // The watch that is open tells of the change late.
    bench.server.faults().delay_watches(Calls::to("configmaps"), Duration::from_secs(30));
    bench.set("a", "2").await;
    bench.server.faults().clear();
    bench.objects.register(&pod("two", &["a"], &[]));
    assert_eq!(bench.value("a").await.unwrap(), "2");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_immutable_object_is_watched_no_longer_once_it_is_read() {
    let bench = Bench::start().await;
    bench
        .create::<Secret>(json!({ "metadata": { "name": "s" }, "immutable": true, "data": { "k": "eA==" } }))
        .await;
    bench.objects.register(&pod("one", &[], &["s"]));
    let secret = bench.objects.secret("default", "s").await.unwrap();
    assert_eq!(secret.data.as_ref().unwrap()["k"].0, b"x");
    bench.objects.tasks_end().await;
    bench.objects.register(&pod("two", &[], &["s"]));
    assert!(bench.objects.secret("default", "s").await.is_ok());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_which_nothing_is_read_pauses_and_comes_back_with_the_next_read() {
    let bench = Bench::start().await;
    bench.create::<ConfigMap>(map("a", "1")).await;
    let recording = bench.server.record();
    bench.objects.register(&pod("p", &["a"], &[]));
    assert_eq!(bench.value("a").await.unwrap(), "1");
    tokio::time::sleep(IDLE + Duration::from_secs(1)).await;
    bench.set("a", "2").await;
    let watches = Calls::to("configmaps").verb(Verb::Watch);
    assert_eq!(recording.count(&watches), 1);
    assert_eq!(bench.value("a").await.unwrap(), "2");
    assert_eq!(recording.count(&watches), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_read_gives_up_after_a_second_and_says_why() {
    let bench = Bench::start().await;
    bench.create::<ConfigMap>(map("a", "1")).await;
    bench.server.faults().fail(
        1000,
        Calls::to("configmaps"),
        Failure::Status(Box::new(Status::failure(403, "Forbidden", "no"))),
    );
    bench.objects.register(&pod("p", &["a"], &[]));
    let began = tokio::time::Instant::now();
    let error = bench.value("a").await.unwrap_err();
    assert!(began.elapsed() <= Duration::from_millis(1100), "{:?}", began.elapsed());
    assert!(!error.is_not_found());
    let text = error.to_string();
    assert!(
        text.starts_with("failed to sync configmap cache: timed out waiting for the condition: "),
        "{text}"
    );
    bench.server.faults().clear();
    bench.reads("a", "1").await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn services_are_listed_by_namespace_and_followed() {
    let server = TestServer::start().await;
    let (stop, lister) = (CancellationToken::new(), ServiceLister::new());
    let create = async |namespace: &str, name: &str| {
        let api = Api::<Service>::namespaced(server.in_memory_client(), namespace);
        let service = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
        api.create(&PostParams::default(), &read(service)).await.unwrap();
    };
    create("default", "a").await;
    create("kube-system", "dns").await;
    assert!(!lister.synced());
    let names = |namespace: &str| {
        let services = lister.of_namespace(namespace);
        services.iter().map(|service| service.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    let run = Arc::clone(&lister).run(server.in_memory_client(), stop.clone());
    tokio::join!(run, async {
        lister.wait_for_sync().await;
        assert_eq!((names("default"), names("kube-system")), (vec!["a".to_owned()], vec!["dns".to_owned()]));
        create("default", "b").await;
        tokio::time::timeout(Duration::from_secs(60), async {
            while names("default").len() != 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the new service must be seen");
        stop.cancel();
    });
}

#[tokio::test]
async fn a_node_without_api_server_says_so() {
    let refused = NoApi.secret("default", "s").await.unwrap_err();
    assert!(!refused.is_not_found());
    assert_eq!(refused.to_string(), "couldn't get secret default/s, no kubeClient defined");
    assert!(Services::synced(&NoApi) && NoApi.of_namespace("default").is_empty());
}
