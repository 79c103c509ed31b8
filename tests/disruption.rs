//! PodDisruptionBudgets whose statuses the manager keeps, as a process, and evictions that the API server allows or refuses
//! by them. The test plays the kubelet; ReplicaSets have their controller.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::Time;
use support::budgets::{Budget, Refusal, condition, event, evict};
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::replicas::{Kind, Owner, create_pod, is_active, mark, name_of};
use support::{Cluster, Server, eventually};

const CONTROLLERS: &str = "--controllers=disruption-controller,replicaset-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// A cluster with a manager at work, and its pods.
struct Site {
    client: kube::Client,
    pods: Api<Pod>,
    managed: Managed,
}

impl Site {
    async fn start() -> Self {
        let managed = Managed::start(QUICK).await;
        let client = managed.client.clone();
        Self { pods: Api::default_namespaced(client.clone()), client, managed }
    }

    /// A ReplicaSet with that many ready pods.
    async fn replica_set(&self, name: &str, replicas: u32) -> Owner {
        let set = Owner::create(&self.client, Kind::ReplicaSet, name, replicas).await;
        ready(&set, replicas).await;
        set
    }

    async fn budget(&self, app: &str, bound: Value) -> Budget {
        Budget::create(&self.client, app, app, bound).await
    }

    /// A running and ready pod made by hand, with the value `app` of the label `app`, and `metadata` besides.
    async fn pod(&self, app: &str, name: &str, metadata: Value) {
        create_pod(&self.pods, app, name, metadata).await;
        mark(&self.pods, name, "Running", "True", &Time::now()).await;
    }

    /// Creates an object of a kind that has no controller here.
    async fn create(&self, group: &str, kind: &str, plural: &str, object: Value) -> String {
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api = Api::<DynamicObject>::default_namespaced_with(self.client.clone(), &resource);
        let mut typed: DynamicObject = serde_json::from_value(object).unwrap();
        typed.types =
            Some(kube::core::TypeMeta { api_version: format!("{group}/v1"), kind: kind.to_owned() });
        let what = format!("a {kind} can be made");
        let created = eventually(&what, || async { api.create(&PostParams::default(), &typed).await.ok() });
        created.await.metadata.uid.unwrap()
    }
}

/// Waits for the set's pods, and marks those that are not ready.
async fn ready(set: &Owner, replicas: u32) -> Vec<String> {
    let pods = set.has(replicas.try_into().unwrap()).await;
    for pod in &pods {
        set.mark(pod, "Running", "True").await;
    }
    pods
}

fn controlled_by(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    let owner =
        json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true });
    json!({ "ownerReferences": [owner] })
}

fn refused(why: String) -> Result<(), Refusal> {
    Err(Refusal { code: 429, why })
}

fn ago(seconds: i64) -> Time {
    Time::from_seconds(Time::now().seconds() - seconds)
}

#[tokio::test]
async fn a_status_follows_the_spec_and_the_pods() {
    let site = Site::start().await;
    let set = Owner::create(&site.client, Kind::ReplicaSet, "web", 3).await;
    let pods = set.has(3).await;
    let budget = site.budget("web", json!({ "minAvailable": 2 })).await;
    budget.reports([0, 0, 2, 3]).await;
    assert_eq!(budget.says("False", "InsufficientPods").await, "");
    for pod in &pods {
        set.mark(pod, "Running", "True").await;
    }
    let reported = budget.reports([1, 3, 2, 3]).await;
    budget.says("True", "SufficientPods").await;
    let condition = condition(&reported);
    assert_eq!(condition["observedGeneration"], json!(reported.metadata.generation));
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(reported.data["status"].get("disruptedPods"), None);

    for (bound, numbers) in [
        (json!({ "minAvailable": 3 }), [0, 3, 3, 3]),
        (json!({ "minAvailable": 0 }), [3, 3, 0, 3]),
        (json!({ "minAvailable": "50%" }), [1, 3, 2, 3]),
        (json!({ "minAvailable": null, "maxUnavailable": 1 }), [1, 3, 2, 3]),
        (json!({ "maxUnavailable": "1%" }), [1, 3, 2, 3]),
        (json!({ "maxUnavailable": "0%" }), [0, 3, 3, 3]),
        (json!({ "maxUnavailable": 5 }), [3, 3, 0, 3]),
    ] {
        budget.patch(json!({ "spec": bound })).await;
        budget.reports(numbers).await;
    }
    set.mark(&pods[0], "Running", "False").await;
    budget.reports([2, 2, 0, 3]).await;
    set.scale(2).await;
    budget.reports([2, 2, 0, 2]).await;
    set.scale(0).await;
    budget.reports([0, 0, 0, 0]).await;
    let event = budget.event("NoPods").await;
    assert_eq!(event.message.as_deref(), Some("No matching pods found"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("controllermanager"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("PodDisruptionBudget"));
    assert_eq!(event.involved_object.api_version.as_deref(), Some("policy/v1"));
}

#[tokio::test]
async fn an_eviction_is_refused_until_the_budget_can_bear_it() {
    let site = Site::start().await;
    let set = site.replica_set("web", 3).await;
    let pods = set.has(3).await;
    let budget = site.budget("web", json!({ "minAvailable": 3 })).await;
    budget.reports([0, 3, 3, 3]).await;
    let over = |healthy, desired| {
        refused(format!("The disruption budget web needs {desired} healthy pods and has {healthy} currently"))
    };
    assert_eq!(evict(&site.pods, &pods[0]).await, over(3, 3));
    budget.patch(json!({ "spec": { "minAvailable": 2 } })).await;
    budget.reports([1, 3, 2, 3]).await;
    assert_eq!(evict(&site.pods, &pods[0]).await, Ok(()));
    // Another pod takes its place, and is not ready.
    budget.reports([0, 2, 2, 3]).await;
    assert_eq!(evict(&site.pods, &pods[1]).await, over(2, 2));
    ready(&set, 3).await;
    budget.reports([1, 3, 2, 3]).await;
    budget.shows("no disrupted pods", |budget| budget.data["status"].get("disruptedPods").is_none()).await;
    budget.patch(json!({ "spec": { "minAvailable": 3 } })).await;
    budget.reports([0, 3, 3, 3]).await;
    assert_eq!(evict(&site.pods, &pods[1]).await, over(3, 3));
    budget.delete().await;
    // No budget, no refusal.
    assert_eq!(evict(&site.pods, &pods[1]).await, Ok(()));
}

#[tokio::test]
async fn as_many_evictions_are_allowed_in_a_row_as_the_status_says() {
    let site = Site::start().await;
    for (name, replicas, bound, allowed) in [
        ("min-some", 10, json!({ "minAvailable": 7 }), 3),
        ("min-percent-all", 4, json!({ "minAvailable": "100%" }), 0),
        ("min-percent-some", 10, json!({ "minAvailable": "85%" }), 1),
        ("max-none", 3, json!({ "maxUnavailable": 0 }), 0),
        ("max-some", 10, json!({ "maxUnavailable": "25%" }), 3),
    ] {
        let set = site.replica_set(name, replicas).await;
        let pods = set.has(replicas.try_into().unwrap()).await;
        let budget = site.budget(name, bound).await;
        let replicas = i64::from(replicas);
        budget.reports([allowed, replicas, replicas - allowed, replicas]).await;
        let mut evicted = 0;
        for pod in &pods {
            evicted += i64::from(evict(&site.pods, pod).await.is_ok());
        }
        assert_eq!(evicted, allowed, "{name}");
        budget.reports([0, replicas - allowed, replicas - allowed, replicas]).await;
    }
}

#[tokio::test]
async fn unhealthy_pods_are_evicted_as_the_budget_says() {
    let site = Site::start().await;
    for (name, policy, healthy, allowed) in [
        ("default-above", None, 2, true),
        ("default-below", None, 1, false),
        ("if-healthy-below", Some("IfHealthyBudget"), 1, false),
        ("always-below", Some("AlwaysAllow"), 1, true),
    ] {
        let set = Owner::create(&site.client, Kind::ReplicaSet, name, 3).await;
        let pods = set.has(3).await;
        for (at, pod) in pods.iter().enumerate() {
            set.mark(pod, "Running", if at < healthy { "True" } else { "False" }).await;
        }
        let bound = json!({ "minAvailable": 2, "unhealthyPodEvictionPolicy": policy });
        let budget = site.budget(name, bound).await;
        budget.reports([0, healthy.try_into().unwrap(), 2, 3]).await;
        assert_eq!(evict(&site.pods, &pods[2]).await.is_ok(), allowed, "{name}");
        assert!(evict(&site.pods, &pods[0]).await.is_err(), "{name}: a healthy pod");
    }
}

#[tokio::test]
async fn the_owners_of_pods_say_how_many_are_expected() {
    let site = Site::start().await;
    let template = |app: &str| Kind::ReplicaSet.manifest(app, 1)["spec"]["template"].clone();
    let spec = |app: &str, replicas: i32| {
        let selector = json!({ "matchLabels": { "app": app } });
        json!({ "replicas": replicas, "selector": selector, "template": template(app) })
    };
    // A Deployment counts instead of its ReplicaSet.
    let deployment = json!({ "metadata": { "name": "web" }, "spec": spec("web", 6) });
    let uid = site.create("apps", "Deployment", "deployments", deployment).await;
    let mut manifest = Kind::ReplicaSet.manifest("web", 2);
    let owner = controlled_by("apps/v1", "Deployment", "web", &uid);
    manifest["metadata"]["ownerReferences"] = owner["ownerReferences"].clone();
    let set = Owner::create_from(&site.client, Kind::ReplicaSet, manifest).await;
    ready(&set, 2).await;
    site.budget("web", json!({ "maxUnavailable": 5 })).await.reports([1, 2, 1, 6]).await;

    // Another owner of a ReplicaSet does not.
    let mut manifest = Kind::ReplicaSet.manifest("rollout", 2);
    let owner = controlled_by("example.com/v1", "Rollout", "r", "r");
    manifest["metadata"]["ownerReferences"] = owner["ownerReferences"].clone();
    let set = Owner::create_from(&site.client, Kind::ReplicaSet, manifest).await;
    ready(&set, 2).await;
    site.budget("rollout", json!({ "maxUnavailable": 1 })).await.reports([1, 2, 1, 2]).await;

    let mut stateful = json!({ "metadata": { "name": "db" }, "spec": spec("db", 3) });
    stateful["spec"]["serviceName"] = json!("db");
    let uid = site.create("apps", "StatefulSet", "statefulsets", stateful).await;
    site.pod("db", "db-0", controlled_by("apps/v1", "StatefulSet", "db", &uid)).await;
    site.pod("db", "db-1", controlled_by("apps/v1", "StatefulSet", "db", &uid)).await;
    let budget = site.budget("db", json!({ "minAvailable": "34%" })).await;
    budget.reports([0, 2, 2, 3]).await;

    // Pods of two owners.
    let controller = Owner::create(&site.client, Kind::ReplicationController, "rc", 4).await;
    let owner = controlled_by("v1", "ReplicationController", "rc", &controller.uid);
    site.pod("db", "rc-0", owner).await;
    budget.reports([0, 3, 3, 7]).await;
}

#[tokio::test]
async fn pods_without_an_owner_need_a_bound_that_is_a_number() {
    let site = Site::start().await;
    site.pod("bare", "bare", json!({})).await;
    let budget = site.budget("bare", json!({ "maxUnavailable": 1 })).await;
    budget.reports([0, 1, 0, 0]).await;
    let event = budget.event("UnmanagedPods").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let expected = "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: \
        bare,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB \
        cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
        \".spec.minAvailable\" field of the PDB to an integer value.";
    assert_eq!(event.message.as_deref(), Some(expected));
    assert!(evict(&site.pods, "bare").await.is_err());
    budget.patch(json!({ "spec": { "maxUnavailable": null, "minAvailable": 0 } })).await;
    budget.reports([1, 1, 0, 1]).await;
    assert_eq!(evict(&site.pods, "bare").await, Ok(()));
}

#[tokio::test]
async fn an_owner_without_a_scale_forbids_disruptions() {
    let site = Site::start().await;
    let gone = controlled_by("apps/v1", "ReplicaSet", "gone", "gone-uid");
    let job = controlled_by("batch/v1", "Job", "job", "job-uid");
    let unknown = controlled_by("example.com/v1", "Widget", "w", "w-uid");
    let no_owner = "found no controllers for pod \"gone\"";
    let no_scale = "jobs.batch does not implement the scale subresource";
    let no_kind = "no matches for kind \"Widget\" in version \"example.com/v1\"";
    for (name, owner, why) in
        [("gone", gone, no_owner), ("job", job, no_scale), ("unknown", unknown, no_kind)]
    {
        site.pod(name, name, owner).await;
        let budget = site.budget(name, json!({ "minAvailable": "10%" })).await;
        assert_eq!(budget.says("False", "SyncFailed").await, why);
        let event = budget.event("CalculateExpectedPodCountFailed").await;
        let message = format!("Failed to calculate the number of expected pods: {why}");
        assert_eq!((event.message, event.type_.as_deref()), (Some(message), Some("Warning")));
        let status = budget.get().await.data["status"].clone();
        assert_eq!(status["disruptionsAllowed"], 0);
        // A failed calculation observes no generation. The one before it may have: if the cache had no pods yet.
        if status.get("observedGeneration").is_some() {
            budget.event("NoPods").await;
        }
        // A number of pods needs no owner.
        budget.patch(json!({ "spec": { "minAvailable": 0 } })).await;
        budget.reports([1, 1, 0, 1]).await;
        budget.says("True", "SufficientPods").await;
    }
}

#[tokio::test]
async fn the_scale_of_a_custom_resource_counts() {
    let site = Site::start().await;
    if matches!(site.managed.cluster.server, Server::Embedded(_)) {
        println!("the embedded API server has no scale of custom resources: not run");
        return;
    }
    let group = format!("{}.example.com", site.managed.cluster.namespace);
    let definition = json!({
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                "subresources": { "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                } },
            }],
        },
    });
    let resource = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let definitions = Api::<DynamicObject>::all_with(site.client.clone(), &resource);
    let definition: DynamicObject = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let widget = json!({ "metadata": { "name": "w" }, "spec": { "replicas": 4 } });
    let uid = site.create(&group, "Widget", "widgets", widget).await;
    let api_version = format!("{group}/v1");
    for name in ["w-0", "w-1"] {
        site.pod("w", name, controlled_by(&api_version, "Widget", "w", &uid)).await;
    }
    let budget = site.budget("w", json!({ "maxUnavailable": 3 })).await;
    budget.reports([1, 2, 1, 4]).await;

    // The owner of the same name is another one.
    site.pod("gone", "gone-0", controlled_by(&api_version, "Widget", "w", "older")).await;
    let gone = site.budget("gone", json!({ "maxUnavailable": 1 })).await;
    assert_eq!(gone.says("False", "SyncFailed").await, "found no controllers for pod \"gone-0\"");
    definitions.delete(&format!("widgets.{group}"), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn selectors_select_as_their_requirements_say() {
    let site = Site::start().await;
    site.pod("a", "labelled", json!({})).await;
    site.pod("a", "bare", json!({ "labels": {} })).await;
    let expression =
        |operator: &str, values: Value| json!([{ "key": "app", "operator": operator, "values": values }]);
    for (name, selector, expected) in [
        ("everything", json!({}), 2),
        ("nothing", Value::Null, 0),
        ("equal", json!({ "matchLabels": { "app": "a" } }), 1),
        ("in", json!({ "matchExpressions": expression("In", json!(["a", "b"])) }), 1),
        ("not-in", json!({ "matchExpressions": expression("NotIn", json!(["a"])) }), 1),
        ("not-in-other", json!({ "matchExpressions": expression("NotIn", json!(["b"])) }), 2),
        ("exists", json!({ "matchExpressions": expression("Exists", json!([])) }), 1),
        ("does-not-exist", json!({ "matchExpressions": expression("DoesNotExist", json!([])) }), 1),
    ] {
        let spec = json!({ "minAvailable": 0, "selector": selector });
        let budget = Budget::create_from(&site.client, name, spec).await;
        budget.reports([expected, expected, 0, expected]).await;
        // A pod that becomes unready is noticed, whatever the selector.
        let all = site.pods.list(&ListParams::default()).await.unwrap().items;
        for ready in ["False", "True"] {
            for pod in &all {
                mark(&site.pods, &name_of(pod), "Running", ready, &Time::now()).await;
            }
            let healthy = if ready == "True" { expected } else { 0 };
            budget.reports([healthy, healthy, 0, expected]).await;
        }
        budget.delete().await;
    }
}

#[tokio::test]
async fn a_pod_of_several_budgets_is_told_of_and_not_evicted() {
    let site = Site::start().await;
    for name in ["first", "second"] {
        let budget = Budget::create(&site.client, name, "web", json!({ "minAvailable": 0 })).await;
        budget.reports([0, 0, 0, 0]).await;
    }
    site.pod("web", "web", json!({})).await;
    let uid = site.pods.get("web").await.unwrap().metadata.uid.unwrap();
    let event = event(&site.client, &uid, "MultiplePodDisruptionBudgets").await;
    let start = format!(
        "Pod \"{}\"/\"web\" matches multiple PodDisruptionBudgets.  Chose \"",
        site.managed.cluster.namespace
    );
    let message = event.message.unwrap();
    assert!(message.starts_with(&start) && message.ends_with("\" arbitrarily."), "{message}");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("controllermanager"));
    let why =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(evict(&site.pods, "web").await, Err(Refusal { code: 500, why: why.to_owned() }));
}

#[tokio::test]
async fn evicted_pods_do_not_count_until_they_should_have_been_deleted() {
    let site = Site::start().await;
    let set = site.replica_set("web", 3).await;
    let pods = set.has(3).await;
    let budget = site.budget("web", json!({ "minAvailable": 1 })).await;
    budget.reports([2, 3, 1, 3]).await;
    let entries = json!({ &pods[0]: ago(110), &pods[1]: ago(0), "gone": ago(0) });
    budget.patch_status(json!({ "disruptedPods": entries })).await;
    budget.reports([0, 1, 1, 3]).await;
    // Nothing changes when the first one's time is up, so that the controller must wake by itself.
    budget.reports([1, 2, 1, 3]).await;
    let uid = site.pods.get(&pods[0]).await.unwrap().metadata.uid.unwrap();
    let event = event(&site.client, &uid, "NotDeleted").await;
    let namespace = &site.managed.cluster.namespace;
    let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
    assert_eq!((event.message, event.type_.as_deref()), (Some(message), Some("Warning")));
    set.mark(&pods[2], "Running", "False").await;
    let reported = budget.reports([0, 1, 1, 3]).await;
    let left: Vec<_> =
        reported.data["status"]["disruptedPods"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(left, [pods[1].clone()]);
}

#[tokio::test]
async fn the_mark_of_a_pod_that_nothing_deletes_is_taken_back() {
    let site = Site::start().await;
    let marked = async |name: &str, reason: &str, since: Time| {
        create_pod(&site.pods, "web", name, json!({})).await;
        let conditions = json!([
            { "type": "Ready", "status": "True", "lastTransitionTime": since },
            {
                "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "to go",
                "lastTransitionTime": since,
            },
        ]);
        let status = Patch::Merge(json!({ "status": { "phase": "Running", "conditions": conditions } }));
        site.pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    };
    let target = async |name: &str| {
        let status = site.pods.get(name).await.unwrap().status.unwrap();
        let conditions = status.conditions.unwrap();
        assert!(conditions.iter().any(|other| other.type_ == "Ready" && other.status == "True"));
        conditions.into_iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap()
    };
    marked("kubelet", "TerminationByKubelet", ago(500)).await;
    marked("fresh", "EvictionByEvictionAPI", ago(0)).await;
    marked("soon", "EvictionByEvictionAPI", ago(117)).await;
    marked("stale", "PreemptionByScheduler", ago(500)).await;
    for name in ["stale", "soon"] {
        let taken_back = eventually(&format!("the mark of {name} is taken back"), || async {
            Some(target(name).await).filter(|condition| condition.status == "False")
        })
        .await;
        assert_eq!((taken_back.reason, taken_back.message, taken_back.last_probe_time), (None, None, None));
        let age = Time::now().seconds() - Time::from(taken_back.last_transition_time.unwrap().0).seconds();
        assert!(age < 60, "{age}");
        assert_eq!(taken_back.observed_generation, site.pods.get(name).await.unwrap().metadata.generation);
    }
    for name in ["kubelet", "fresh"] {
        assert_eq!(target(name).await.status, "True", "{name}");
    }
}

#[tokio::test]
async fn a_status_that_is_right_is_not_written_again() {
    let mut site = Site::start().await;
    site.replica_set("web", 3).await;
    let budgets = [
        site.budget("web", json!({ "minAvailable": "50%" })).await,
        site.budget("none", json!({ "maxUnavailable": 1 })).await,
    ];
    budgets[0].reports([1, 3, 2, 3]).await;
    budgets[1].reports([0, 0, 0, 0]).await;
    site.pod("job", "job", controlled_by("batch/v1", "Job", "job", "job-uid")).await;
    let failing = site.budget("job", json!({ "maxUnavailable": 1 })).await;
    failing.says("False", "SyncFailed").await;
    let all = [&budgets[0], &budgets[1], &failing];
    let versions = async || {
        let mut versions = BTreeMap::new();
        for budget in all {
            versions.insert(budget.name.clone(), budget.get().await.metadata.resource_version.unwrap());
        }
        versions
    };
    let before = versions().await;
    // A manager that starts looks at every budget; the new one shows that it has.
    site.managed.manager.stop().await;
    let _second = Manager::start(&site.managed.cluster.kubeconfig(), QUICK);
    let last = site.budget("zzz", json!({ "minAvailable": 1 })).await;
    last.reports([0, 0, 1, 0]).await;
    assert_eq!(versions().await, before);
}

/// Evicts the set's pods one after the other, and plays the kubelet for those that take their places. Returns the lowest
/// number of healthy pods that it has seen.
async fn drain(managed_pods: &Api<Pod>, set: &Owner, mut disturb: impl AsyncFnMut(usize)) -> usize {
    let first: Vec<String> = set.active().await.iter().map(name_of).collect();
    let lowest = AtomicUsize::new(first.len());
    let is_healthy = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        is_active(pod) && conditions.into_iter().any(|of| of.type_ == "Ready" && of.status == "True")
    };
    for (at, pod) in first.iter().enumerate() {
        disturb(at).await;
        eventually(&format!("{pod} is evicted"), || async {
            let evicted = evict(managed_pods, pod).await.is_ok();
            let pods = set.active().await;
            lowest.fetch_min(pods.iter().filter(|pod| is_healthy(pod)).count(), Ordering::Relaxed);
            for new in pods.iter().filter(|pod| !is_healthy(pod)) {
                // It may have gone meanwhile.
                let conditions = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": ago(0) }]);
                let status =
                    Patch::Merge(json!({ "status": { "phase": "Running", "conditions": conditions } }));
                drop(managed_pods.patch_status(&name_of(new), &PatchParams::default(), &status).await);
            }
            evicted.then_some(())
        })
        .await;
    }
    lowest.into_inner()
}

#[tokio::test]
async fn a_drain_leaves_enough_pods_though_the_manager_is_killed_again_and_again() {
    let mut site = Site::start().await;
    let set = site.replica_set("web", 6).await;
    let budget = site.budget("web", json!({ "maxUnavailable": 2 })).await;
    budget.reports([2, 6, 4, 6]).await;
    let (pods, kubeconfig) = (site.pods.clone(), site.managed.cluster.kubeconfig());
    let lowest = drain(&pods, &set, async |_| {
        site.managed.manager.kill();
        site.managed.manager = Manager::start(&kubeconfig, QUICK);
    })
    .await;
    assert!(lowest >= 4, "{lowest} pods were healthy");
    ready(&set, 6).await;
    budget.reports([2, 6, 4, 6]).await;
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let mut managers = Candidates::start(&cluster, QUICK).await;
    let set = Owner::create(&client, Kind::ReplicaSet, "web", 4).await;
    ready(&set, 4).await;
    let budget = Budget::create(&client, "web", "web", json!({ "minAvailable": "75%" })).await;
    budget.reports([1, 4, 3, 4]).await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let lowest = drain(&pods, &set, async |at| {
        if at == 1 {
            managers.kill_leader();
        }
    })
    .await;
    assert!(lowest >= 3, "{lowest} pods were healthy");
    ready(&set, 4).await;
    budget.reports([1, 4, 3, 4]).await;
    // A condition that becomes stale after the change of leaders is the second one's.
    create_pod(&pods, "other", "other", json!({})).await;
    let stale = json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": ago(118) }]);
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "conditions": stale } }));
    pods.patch_status("other", &PatchParams::default(), &status).await.unwrap();
    eventually("the mark is taken back", || async {
        let conditions = pods.get("other").await.ok()?.status?.conditions?;
        conditions.iter().any(|of| of.type_ == "DisruptionTarget" && of.status == "False").then_some(())
    })
    .await;
}
