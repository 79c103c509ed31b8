use http::Response;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::client::Body;
use serde_json::json;
use steersman_api::{FieldSelector, ObjectKey};
use steersman_apiserver::TestServer;

use super::*;
use crate::wire::whole::Whole;
use crate::{Interned, keep, kind, projection};

projection! { struct Spec { pub node: Interned = 10 "nodeName" } }
kind! { struct Pod("", "v1", "pods") { spec: Spec = 2 "spec" } }
keep! { struct Placed: Pod => Spec }

projection! { struct Immutable { pub never: Interned = 999 "never" } }
kind! { struct Map("", "v1", "configmaps") { immutable: Immutable = 998 "none" } }
keep! { struct Maps: Map => Immutable }

/// Over a server that never answers.
fn factory() -> SharedInformerFactory {
    let silent = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    SharedInformerFactory::new(kube::Client::new(silent, "default"), Options::default())
}

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_gets_the_same_by_type_or_by_name() {
    let factory = factory();
    let typed = factory.informer::<Placed>().unwrap();
    assert!(Arc::ptr_eq(&typed.any(), &factory.dynamic(&pods())));
    assert!(Arc::ptr_eq(&typed.any(), &factory.informer::<Placed>().unwrap().any()));
    assert_eq!(factory.informers().len(), 1);
    assert!(matches!(factory.informer::<MetaOnly>(), Err(Error::NoResource)));
}

#[tokio::test(start_paused = true)]
async fn bare_metadata_does_not_serve_who_asks_by_type_later() {
    let factory = factory();
    let dynamic = factory.dynamic(&pods());
    let typed = factory.informer::<Placed>().unwrap();
    assert!(!Arc::ptr_eq(&typed.any(), &dynamic));
    assert!(Arc::ptr_eq(&dynamic, &factory.dynamic(&pods())));
    factory.start();
    let both = factory.wait_for_cache_sync(&factory.informers(), Duration::from_secs(1)).await;
    assert_eq!(both.into_iter().collect::<Vec<_>>(), [(pods(), false)]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_starts_only_what_it_is_asked_for() {
    let factory = factory();
    let [leased, other, shared] =
        ["configmaps", "secrets", "nodes"].map(|plural| GroupVersionResource::new("", "v1", plural));
    let typed = factory.informer::<Placed>().unwrap().any();
    let lease = factory.lease(&leased);
    let _unstarted = factory.lease(&other);
    lease.start();
    assert_eq!(started(&factory), std::slice::from_ref(&leased));
    factory.lease(&pods()).start();
    assert_eq!(
        started(&factory),
        std::slice::from_ref(&leased),
        "the users of a permanent one may still ask for fields"
    );
    factory.start();
    assert_eq!(started(&factory), [leased.clone(), pods()]);
    factory.start();
    lease.start();

    let late = factory.lease(&shared);
    assert!(Arc::ptr_eq(late.informer(), &factory.dynamic(&shared)));
    assert_eq!(factory.permanent_informers().len(), 2);
    drop(late);
    factory.start();
    assert_eq!(started(&factory), [leased, shared.clone(), pods()], "a permanent one needs no lease");
    assert!(!typed.is_stopped());
    factory.shutdown().await;
    assert!(typed.is_stopped() && factory.dynamic(&shared).is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_scoped_informer_caches_its_part_alone_and_serves_only_users_of_that_scope() {
    let (server, factory, client) = served().await;
    let scope = || Scope { fields: FieldSelector::name("mine"), ..Scope::default() };
    let mine = factory.scoped::<Maps>(scope()).unwrap();
    assert!(Arc::ptr_eq(&mine.any(), &factory.scoped::<Maps>(scope()).unwrap().any()));
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    let all = factory.dynamic(&maps);
    assert!(!Arc::ptr_eq(&mine.any(), &all));
    assert!(Arc::ptr_eq(&all, factory.lease(&maps).informer()));
    factory.start();
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    for name in ["mine", "other"] {
        let meta = json!({"name": name, "ownerReferences": owner});
        create::<ConfigMap>(&client, json!({"metadata": meta})).await;
    }
    until("both caches are full", || all.len() == 2 && mine.any().len() == 1).await;
    assert!(mine.any().meta(&ObjectKey::new("default", "mine")).is_some());
    assert_eq!(factory.dependents(&"u".into()).len(), 2);
    factory.shutdown().await;
    drop(server);
}

/// The resources of the informers that were started.
fn started(factory: &SharedInformerFactory) -> Vec<GroupVersionResource> {
    let state = factory.inner.state.lock();
    let started = state.informers.values().flatten().filter(|entry| entry.started == Started::Yes);
    started.map(|entry| entry.informer.resource().clone()).collect()
}

/// Waits until `condition` holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

/// A server with a factory, and a kube client for what the tests write.
async fn served() -> (TestServer, SharedInformerFactory, kube::Client) {
    let server = TestServer::start().await;
    let factory = SharedInformerFactory::new(server.in_memory_client(), Options::default());
    let client = server.in_memory_client();
    (server, factory, client)
}

async fn create<K>(client: &kube::Client, object: serde_json::Value) -> K
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::Serialize
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api = kube::Api::<K>::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

#[tokio::test]
async fn an_informer_runs_until_its_last_lease_is_dropped() {
    let (_server, factory, client) = served().await;
    let resource = GroupVersionResource::new("", "v1", "configmaps");
    let (one, two) = (factory.lease(&resource), factory.lease(&resource));
    let three = two.clone();
    assert!(Arc::ptr_eq(one.informer(), two.informer()) && Arc::ptr_eq(one.informer(), three.informer()));
    one.start();
    create::<ConfigMap>(&client, json!({ "metadata": { "name": "a" } })).await;
    let key = |name: &str| ObjectKey::new("default", name);
    until("the first map is seen", || one.informer().meta(&key("a")).is_some()).await;

    drop(one);
    drop(three);
    create::<ConfigMap>(&client, json!({ "metadata": { "name": "b" } })).await;
    until("the cache goes on for the other lease", || two.informer().meta(&key("b")).is_some()).await;
    assert!(!two.informer().is_stopped());

    let remains = Arc::downgrade(two.informer());
    drop(two);
    until("the task ends", || factory.inner.tasks.is_empty()).await;
    assert_eq!(remains.strong_count(), 0, "the memory is freed");
    assert!(factory.informers().is_empty());

    let again = factory.lease(&resource);
    again.start();
    until("the new informer syncs", || again.informer().has_synced()).await;
    assert!(again.informer().meta(&key("a")).is_some() && again.informer().meta(&key("b")).is_some());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_by_type_shares_the_informer_with_its_permanent_users() {
    let factory = factory();
    let (lease, leased) = factory.lease_informer::<Placed>().unwrap();
    assert!(Arc::ptr_eq(lease.informer(), &leased.any()));
    factory.start();
    assert!(started(&factory).is_empty(), "nobody holds it permanently");
    let permanent = factory.informer::<Placed>().unwrap();
    assert!(Arc::ptr_eq(&permanent.any(), lease.informer()));
    factory.start();
    drop(lease);
    assert_eq!(started(&factory), [pods()]);
    let (again, _) = factory.lease_informer::<Placed>().unwrap();
    assert!(Arc::ptr_eq(again.informer(), &permanent.any()), "the groups are kept since before the start");
    factory.shutdown().await;
}

#[tokio::test]
async fn objects_are_counted_by_namespace() {
    let (_server, factory, client) = served().await;
    let lease = factory.lease(&GroupVersionResource::new("", "v1", "configmaps"));
    lease.start();
    for name in ["a", "b"] {
        create::<ConfigMap>(&client, json!({ "metadata": { "name": name } })).await;
    }
    until("both are counted", || lease.informer().count_in("default") == 2).await;
    assert_eq!(lease.informer().count_in("other"), 0);
    let maps = kube::Api::<ConfigMap>::namespaced(client, "default");
    maps.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    until("one is left", || lease.informer().count_in("default") == 1).await;
    factory.shutdown().await;
}

#[tokio::test]
async fn dependents_of_all_kinds_are_found_once_each() {
    let (_server, factory, client) = served().await;
    let [maps, secrets, unknown] =
        ["configmaps", "secrets", "nowheres"].map(|plural| GroupVersionResource::new("", "v1", plural));
    let owned = |name: &str, owner: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": owner, "uid": owner});
        json!({ "metadata": { "name": name, "ownerReferences": [owner] } })
    };
    for (name, owner) in [("a", "one"), ("b", "two"), ("c", "one")] {
        create::<ConfigMap>(&client, owned(name, owner)).await;
    }
    create::<Secret>(&client, owned("s", "one")).await;
    // A second cache of the maps, and a kind that never syncs.
    let leases = [&maps, &secrets, &unknown].map(|resource| factory.lease(resource));
    leases.iter().for_each(Lease::start);
    let typed = factory.informer::<Whole<ConfigMap>>().unwrap();
    factory.start();
    assert!(typed.synced().await);
    until("the leased kinds sync", || leases[..2].iter().all(|lease| lease.informer().has_synced())).await;
    let found = |owner: &str| {
        let mut found: Vec<_> = factory
            .dependents(&owner.into())
            .iter()
            .map(|found| format!("{} {}", found.resource, found.meta.key.name))
            .collect();
        found.sort();
        found
    };
    assert_eq!(found("one"), ["configmaps a", "configmaps c", "secrets s"]);
    assert_eq!(found("two"), ["configmaps b"]);
    assert!(found("three").is_empty());
    factory.shutdown().await;
}

#[tokio::test]
async fn dependents_come_from_a_synced_cache_if_there_is_one() {
    let (_server, factory, client) = served().await;
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "one"});
    let owned = json!({ "metadata": { "name": "a", "ownerReferences": [owner] } });
    create::<ConfigMap>(&client, owned).await;
    let empty = factory.dynamic(&maps);
    let _typed = factory.informer::<Whole<ConfigMap>>().unwrap();
    let started = factory.informers().into_iter().find(|informer| !Arc::ptr_eq(informer, &empty)).unwrap();
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(Arc::clone(&started).run(stop.clone()));
    until("the typed cache syncs", || started.has_synced()).await;
    assert_eq!(factory.dependents(&"one".into()).len(), 1);
    stop.cancel();
    while tasks.join_next().await.is_some() {}
}

#[tokio::test]
async fn leases_that_are_dropped_before_the_start_leave_nothing() {
    let factory = factory();
    let lease = factory.lease(&pods());
    let (sender, mut mapped) = tokio::sync::mpsc::unbounded_channel::<()>();
    lease.informer().map_meta(Box::new(move |_| _ = sender.send(())));
    let remains = Arc::downgrade(lease.informer());
    drop(lease);
    assert_eq!(remains.strong_count(), 0);
    assert_eq!(mapped.recv().await, None, "its mapping is dropped with it");
}

#[test]
fn no_period_is_too_long_to_be_spread() {
    assert_eq!(jittered(Duration::MAX), Duration::MAX);
    let hour = Duration::from_secs(3600);
    assert!((hour..=2 * hour).contains(&jittered(hour)));
}
