//! Namespaces emptied and finalized by the manager, as a process, when a client deletes them.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use support::manager::Manager;
use support::namespaces::{Space, bound_pod, config_map, held};
use support::real::NAMESPACE_CONTROLLER_TOKEN;
use support::{Cluster, Server, eventually};

const CONTROLLER: &[&str] = &["--controllers=namespace-controller"];
/// What the tests' objects are held by.
const HOLD: &str = "custom.io/finalizer";

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        Self::on(Cluster::start_alone().await)
    }

    fn on(cluster: Cluster) -> Self {
        let manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
        Self { client: cluster.client(), manager, cluster }
    }

    async fn space(&self) -> Space {
        Space::create(&self.client).await
    }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
            },
        },
    })
}

/// One object of each of some kinds. The pod has no node, so that it goes at once.
fn samples() -> Vec<Value> {
    let named = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "sample" } });
        rest.as_object().unwrap().iter().for_each(|(field, value)| object[field] = value.clone());
        object
    };
    vec![
        steersman_testing::pod("sample").build(),
        config_map("sample"),
        deployment(),
        named("v1", "Secret", json!({})),
        named("v1", "ServiceAccount", json!({})),
        named("v1", "Service", json!({ "spec": { "ports": [{ "port": 80 }] } })),
        named("v1", "ResourceQuota", json!({ "spec": { "hard": { "pods": "10" } } })),
        named("coordination.k8s.io/v1", "Lease", json!({})),
        named("rbac.authorization.k8s.io/v1", "Role", json!({ "rules": [] })),
        named("policy/v1", "PodDisruptionBudget", json!({ "spec": { "minAvailable": 1 } })),
    ]
}

#[tokio::test]
async fn everything_in_a_deleted_namespace_goes_and_nothing_elsewhere() {
    let managed = Managed::start().await;
    let (space, other) = (managed.space().await, managed.space().await);
    for object in samples() {
        space.put(object.clone()).await;
        other.put(object).await;
    }
    space.delete().await;
    space.is_gone().await;
    for object in samples() {
        assert!(space.has_none(&object).await, "{object}");
        let left = other.list(&object).await;
        let name = object["metadata"]["name"].as_str().unwrap();
        assert_eq!(left.get(name), Some(&false), "{object}");
    }
    assert_eq!(other.get().await.unwrap().status.unwrap().phase.as_deref(), Some("Active"));
}

#[tokio::test]
async fn nothing_but_pods_goes_until_the_pods_are_gone() {
    let managed = Managed::start().await;
    let space = managed.space().await;
    let (running, kept) = (bound_pod("running"), held(bound_pod("kept"), &[HOLD]));
    for object in [running.clone(), kept.clone(), config_map("map"), deployment()] {
        space.put(object).await;
    }
    space.delete().await;
    space.says("NamespaceDeletionContentFailure", "False", "ContentDeleted").await;
    assert_eq!(space.list(&running).await, [("kept".to_owned(), true), ("running".to_owned(), true)].into());
    for object in [config_map("map"), deployment()] {
        assert!(space.list(&object).await.values().all(|is_deleting| !is_deleting), "{object}");
    }
    if managed.manager.is_steersman() {
        let message = space.says("steersman.io/BlockingObjects", "True", "ObjectsRemain").await;
        assert_eq!(message, format!("pods/kept (finalizers: {HOLD}), pods/running"));
    }

    space.end(&running).await;
    space.end(&kept).await;
    assert_eq!(space.list(&kept).await.len(), 1, "its finalizer keeps it");
    assert!(!space.has_none(&config_map("map")).await);
    space.release(&kept).await;
    space.is_gone().await;
}

#[tokio::test]
async fn an_object_with_a_finalizer_holds_its_namespace_and_the_conditions_say_so() {
    let managed = Managed::start().await;
    let space = managed.space().await;
    let held = held(deployment(), &[HOLD]);
    for object in [bound_pod("free"), held.clone(), config_map("map")] {
        let mut object = object;
        if object["kind"] == "Pod" {
            object["spec"].as_object_mut().unwrap().remove("nodeName");
        }
        space.put(object).await;
    }
    space.delete().await;
    space.says("NamespaceContentRemaining", "True", "SomeResourcesRemain").await;
    let conditions = space.conditions().await;
    let finalizers =
        format!("Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances");
    for (condition, status, reason, message) in [
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: deployments.apps has 1 resource instances",
        ),
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", &finalizers),
    ] {
        let expected = (status.to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!(conditions.get(condition), Some(&expected), "{condition}");
    }
    if managed.manager.is_steersman() {
        let (_, _, message) = &conditions["steersman.io/BlockingObjects"];
        assert_eq!(message, &format!("deployments.apps/web (finalizers: {HOLD})"));
    }
    assert!(space.has_none(&config_map("map")).await, "the other kinds are gone");
    space.release(&held).await;
    space.is_gone().await;
}

#[tokio::test]
async fn another_finalizer_of_the_namespace_keeps_it_without_its_contents() {
    let managed = Managed::start().await;
    let space = managed.space().await;
    space.set_finalizers(&["kubernetes", "e2e.example.com/fakeFinalizer"]).await;
    space.put(config_map("map")).await;
    space.delete().await;
    eventually("only the other finalizer is left", || async {
        let finalizers = space.get().await?.spec?.finalizers?;
        (finalizers == ["e2e.example.com/fakeFinalizer"]).then_some(())
    })
    .await;
    assert!(space.has_none(&config_map("map")).await);
    assert_eq!(space.get().await.unwrap().status.unwrap().phase.as_deref(), Some("Terminating"));
    space.set_finalizers(&[]).await;
    space.is_gone().await;
}

#[tokio::test]
async fn many_namespaces_go_at_the_same_time() {
    let managed = Managed::start().await;
    let mut spaces = Vec::new();
    for _ in 0..30 {
        let space = managed.space().await;
        space.put(config_map("a")).await;
        space.put(config_map("b")).await;
        space.delete().await;
        spaces.push(space);
    }
    for space in spaces {
        space.is_gone().await;
    }
}

/// The definition of a namespaced kind in the group `GROUP.example.com`.
async fn define(client: &kube::Client, group: &str) -> Value {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = json!({
        "metadata": { "name": format!("flakes.{group}.example.com") },
        "spec": {
            "group": format!("{group}.example.com"), "scope": "Namespaced",
            "names": { "plural": "flakes", "singular": "flake", "kind": "Flake", "listKind": "FlakeList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let flake = json!({
        "apiVersion": format!("{group}.example.com/v1"), "kind": "Flake", "metadata": { "name": "flake" },
    });
    let space = Space::named(client, "default");
    eventually("the kind is served", || async {
        space.api(&flake).list_metadata(&ListParams::default()).await.ok().map(drop)
    })
    .await;
    flake
}

async fn undefine(client: &kube::Client, group: &str) {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let name = format!("flakes.{group}.example.com");
    definitions.delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn objects_of_a_kind_that_was_defined_later_go_too() {
    let managed = Managed::start().await;
    let first = managed.space().await;
    first.delete().await;
    first.is_gone().await;
    let flake = define(&managed.client, "later").await;
    let space = managed.space().await;
    space.put(flake.clone()).await;
    space.delete().await;
    space.is_gone().await;
    assert!(space.has_none(&flake).await);
    undefine(&managed.client, "later").await;
}

#[tokio::test]
async fn a_definition_may_be_deleted_while_its_objects_are() {
    let managed = Managed::start().await;
    let flake = define(&managed.client, "gone").await;
    let space = managed.space().await;
    let held = held(flake, &[HOLD]);
    space.put(held.clone()).await;
    space.delete().await;
    let message = space.says("NamespaceContentRemaining", "True", "SomeResourcesRemain").await;
    assert_eq!(message, "Some resources are remaining: flakes.gone.example.com has 1 resource instances");
    // The definition waits for its objects.
    undefine(&managed.client, "gone").await;
    space.release(&held).await;
    space.is_gone().await;
    let definitions = Api::<CustomResourceDefinition>::all(managed.client.clone());
    eventually("the definition is gone", || async {
        definitions.get_opt("flakes.gone.example.com").await.ok()?.is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_group_that_does_not_answer_holds_up_the_end_and_not_the_deletion() {
    let cluster = Cluster::start_own().await;
    if matches!(cluster.server, Server::Embedded(_)) {
        println!("the embedded API server has no aggregated groups: not run");
        return;
    }
    let managed = Managed::on(cluster);
    let services = Api::<APIService>::all(managed.client.clone());
    let nobody = json!({
        "metadata": { "name": "v1.nobody.example.com" },
        "spec": {
            "group": "nobody.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 1,
            "insecureSkipTLSVerify": true, "service": { "name": "nobody", "namespace": "default" },
        },
    });
    services.create(&PostParams::default(), &serde_json::from_value(nobody).unwrap()).await.unwrap();
    let space = managed.space().await;
    space.put(config_map("map")).await;
    space.delete().await;
    let message = space.says("NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed").await;
    assert_eq!(
        message,
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
         nobody.example.com/v1: stale GroupVersion discovery: nobody.example.com/v1"
    );
    assert!(space.has_none(&config_map("map")).await);
    assert_eq!(space.get().await.unwrap().spec.unwrap().finalizers.unwrap(), ["kubernetes"]);
    services.delete("v1.nobody.example.com", &DeleteParams::default()).await.unwrap();
    space.is_gone().await;
}

#[tokio::test]
async fn calls_that_fail_are_told_and_made_again() {
    let managed = Managed::on(Cluster::start_embedded().await);
    let space = managed.space().await;
    space.put(config_map("map")).await;
    let faults = managed.cluster.embedded().faults();
    let calls = Calls::to("configmaps").verb(Verb::DeleteCollection);
    faults.fail(usize::MAX, calls, Failure::InternalError);
    space.delete().await;
    let message = space.says("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed").await;
    assert!(message.starts_with("Failed to delete all resource types, 1 remaining: "), "{message}");
    assert!(!space.has_none(&config_map("map")).await);
    faults.clear();
    space.is_gone().await;
}

#[tokio::test]
async fn a_manager_that_is_killed_again_and_again_leaves_nothing() {
    let cluster = Cluster::start_own().await;
    let client = cluster.client();
    let mut spaces = Vec::new();
    for _ in 0..10 {
        let space = Space::create(&client).await;
        for name in ["a", "b", "c"] {
            space.put(config_map(name)).await;
        }
        space.put(deployment()).await;
        spaces.push(space);
    }
    let other = Space::create(&client).await;
    other.put(config_map("a")).await;
    // This one is in the middle: its pod goes when no manager runs.
    let middle = Space::create(&client).await;
    for object in [bound_pod("pod"), config_map("map")] {
        middle.put(object).await;
    }
    let mut manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
    for space in spaces.iter().chain([&middle]) {
        space.delete().await;
    }
    let left = || async {
        let all = other.namespaces.list_metadata(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|one| one.metadata.deletion_timestamp.is_some()).count()
    };
    for round in 0..3 {
        let before = left().await;
        let progress = async {
            while left().await == before && before > 1 {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(support::patience(), progress).await.unwrap();
        if round == 0 {
            eventually("the pod is being deleted", || async {
                middle.list(&bound_pod("pod")).await.get("pod").copied().filter(|is_deleting| *is_deleting)
            })
            .await;
            manager.kill();
            middle.end(&bound_pod("pod")).await;
            assert!(!middle.has_none(&config_map("map")).await);
        } else {
            manager.kill();
        }
        manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
    }
    for space in spaces.iter().chain([&middle]) {
        space.is_gone().await;
    }
    assert_eq!(other.list(&config_map("a")).await.get("a"), Some(&false));
    assert!(other.get().await.unwrap().metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn deletions_end_though_the_api_server_restarts_in_the_middle() {
    let managed = Managed::on(Cluster::start_own().await);
    // This namespace waits for its pod, which ends after the restart.
    let waits = managed.space().await;
    for object in [bound_pod("pod"), config_map("map"), deployment()] {
        waits.put(object).await;
    }
    let mut spaces = vec![managed.space().await, managed.space().await, managed.space().await];
    for space in &spaces {
        for object in samples() {
            space.put(object).await;
        }
    }
    let other = managed.space().await;
    other.put(config_map("map")).await;
    waits.delete().await;
    eventually("the pod is being deleted", || async {
        waits.list(&bound_pod("pod")).await.get("pod").copied().filter(|is_deleting| *is_deleting)
    })
    .await;
    // The restart interrupts the calls for these namespaces.
    for space in &spaces {
        space.delete().await;
    }
    managed.cluster.restart(std::time::Duration::from_secs(1)).await;
    assert!(!waits.has_none(&config_map("map")).await, "it is in the middle");
    waits.end(&bound_pod("pod")).await;
    spaces.push(waits);
    for space in &spaces {
        space.is_gone().await;
    }
    // The manager has resumed its watch.
    let later = managed.space().await;
    later.put(config_map("map")).await;
    later.delete().await;
    later.is_gone().await;
    assert_eq!(other.list(&config_map("map")).await.get("map"), Some(&false));
    assert_eq!(other.get().await.unwrap().status.unwrap().phase.as_deref(), Some("Active"));
}

#[tokio::test]
async fn two_managers_do_no_harm_to_each_other() {
    let managed = Managed::on(Cluster::start_own().await);
    let second = Manager::start(&managed.cluster.kubeconfig(), CONTROLLER);
    let mut spaces = Vec::new();
    for _ in 0..10 {
        let space = managed.space().await;
        for object in samples() {
            space.put(object).await;
        }
        spaces.push(space);
    }
    let held = held(config_map("held"), &[HOLD]);
    spaces[0].put(held.clone()).await;
    for space in &spaces {
        space.delete().await;
    }
    spaces[0].says("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain").await;
    spaces[0].release(&held).await;
    for space in &spaces {
        space.is_gone().await;
    }
    for manager in [&managed.manager, &second] {
        assert!(!manager.log().contains("panic"), "{}", manager.log());
    }
}

#[tokio::test]
async fn a_namespace_goes_with_the_rights_of_kubernetes_own_role() {
    let cluster = Cluster::start_own().await;
    if matches!(cluster.server, Server::Embedded(_)) {
        println!("the embedded API server asks for no rights: not run");
        return;
    }
    let _manager = Manager::start(&cluster.kubeconfig_with_token(NAMESPACE_CONTROLLER_TOKEN), CONTROLLER);
    let space = Space::create(&cluster.client()).await;
    for object in samples() {
        space.put(object).await;
    }
    let held = held(config_map("held"), &[HOLD]);
    space.put(held.clone()).await;
    space.delete().await;
    space.says("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain").await;
    space.release(&held).await;
    space.is_gone().await;
}
