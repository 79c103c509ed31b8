//! ResourceQuotas whose figures the manager keeps, as a process, while the API server's admission charges them.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::quotas::{Quota, amounts, asking_pod, cluster_objects, create, delete, objects, refusal};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=resourcequota-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// One whose manager has these further flags.
    async fn start_with(flags: &[&str]) -> Self {
        let cluster = Cluster::start_alone().await;
        let manager = Manager::start(&cluster.kubeconfig(), &[QUICK, flags].concat());
        Self { client: cluster.client(), manager, cluster }
    }

    async fn quota(&self, name: &str, hard: Value) -> Quota {
        Quota::create(&self.client, name, hard).await
    }

    async fn scoped(&self, name: &str, hard: Value, scope: Value) -> Quota {
        let mut spec = scope;
        spec["hard"] = hard;
        Quota::create_from(&self.client, name, spec).await
    }

    fn objects(&self, kind: &str) -> Api<DynamicObject> {
        objects(&self.client, kind)
    }

    fn pods(&self) -> Api<DynamicObject> {
        self.objects("v1/Pod")
    }
}

/// A scope selector with one scope.
fn selector(scope: &str, operator: &str, values: &[&str]) -> Value {
    let mut requirement = json!({ "scopeName": scope, "operator": operator });
    if !values.is_empty() {
        requirement["values"] = json!(values);
    }
    json!({ "scopeSelector": { "matchExpressions": [requirement] } })
}

fn service(kind: &str, ports: usize) -> Value {
    let ports: Vec<Value> =
        (0..ports).map(|at| json!({ "name": format!("p{at}"), "port": 80 + at })).collect();
    json!({ "spec": { "type": kind, "selector": { "app": "a" }, "ports": ports } })
}

#[tokio::test]
async fn a_new_quota_has_its_figures_promptly() {
    let managed = Managed::start().await;
    let hard = json!({
        "pods": "5", "services": "10", "services.nodeports": "1", "services.loadbalancers": "1", "cpu": "1",
        "memory": "500Mi", "ephemeral-storage": "50Gi", "persistentvolumeclaims": "10", "requests.storage": "10Gi",
        "resourcequotas": "1", "replicationcontrollers": "10", "configmaps": "10", "secrets": "10",
        "gold.storageclass.storage.k8s.io/requests.storage": "10Gi", "requests.example.com/dongle": "3",
        "count/replicasets.apps": "5", "count/pods": "9", "count/resourceclaims.resource.k8s.io": "1",
        "gold.deviceclass.resource.k8s.io/devices": "1",
    });
    let quota = managed.quota("q", hard.clone()).await;
    let mut used = hard.clone();
    used.as_object_mut().unwrap().values_mut().for_each(|amount| *amount = "0".into());
    // The quota is an object that it counts.
    used["resourcequotas"] = "1".into();
    if managed.quota_counts_config_maps().await {
        used["configmaps"] = "1".into();
    }
    quota.uses(used).await;
    assert_eq!(amounts(&quota.status().await["hard"]), amounts(&hard));
}

impl Managed {
    /// Whether each namespace has a ConfigMap: the real server's controllers may publish the root certificate.
    async fn quota_counts_config_maps(&self) -> bool {
        let maps = self.objects("v1/ConfigMap").list(&ListParams::default()).await.unwrap();
        !maps.items.is_empty()
    }
}

#[tokio::test]
async fn services_are_counted_with_their_node_ports_and_load_balancers() {
    let managed = Managed::start().await;
    let services = managed.objects("v1/Service");
    let hard = json!({"services": "3", "services.nodeports": "3", "services.loadbalancers": "1"});
    let quota = managed.quota("q", hard).await;
    let used = |all: u8, ports: u8, balancers: u8| {
        json!({
            "services": all.to_string(), "services.nodeports": ports.to_string(),
            "services.loadbalancers": balancers.to_string(),
        })
    };
    quota.uses(used(0, 0, 0)).await;
    create(&services, "plain", service("ClusterIP", 1)).await;
    create(&services, "ports", service("NodePort", 2)).await;
    quota.uses(used(2, 2, 0)).await;
    let why = refusal(&services, "balanced", service("LoadBalancer", 2)).await;
    assert!(
        why.contains("exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2"),
        "{why}"
    );
    create(&services, "balanced", service("LoadBalancer", 1)).await;
    quota.uses(used(3, 3, 1)).await;

    // A change of the type gives its node ports back.
    let plain = json!({ "spec": { "type": "ClusterIP", "ports": [
        { "name": "p0", "port": 80, "nodePort": null }, { "name": "p1", "port": 81, "nodePort": null },
    ] } });
    services.patch("ports", &PatchParams::default(), &Patch::Merge(plain)).await.unwrap();
    quota.uses(used(3, 1, 1)).await;
    for (name, left) in [("balanced", used(2, 0, 0)), ("ports", used(1, 0, 0)), ("plain", used(0, 0, 0))] {
        delete(&services, name).await;
        quota.uses(left).await;
    }
}

#[tokio::test]
async fn objects_of_any_kind_are_counted() {
    let managed = Managed::start().await;
    let template = json!({
        "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "c", "image": "busybox" }] },
    });
    let set = json!({ "spec": { "replicas": 0, "selector": { "matchLabels": { "app": "a" } }, "template": template } });
    let controller = json!({ "spec": { "replicas": 0, "selector": { "app": "a" }, "template": template } });
    for (name, kind, members) in [
        ("secrets", "v1/Secret", json!({ "stringData": { "a": "b" } })),
        ("count/secrets", "v1/Secret", json!({ "stringData": { "a": "b" } })),
        ("replicationcontrollers", "v1/ReplicationController", controller),
        ("count/replicasets.apps", "apps/v1/ReplicaSet", set),
        ("count/leases.coordination.k8s.io", "coordination.k8s.io/v1/Lease", json!({})),
    ] {
        let api = managed.objects(kind);
        let quota = managed.quota("q", json!({ name: "1" })).await;
        quota.uses(json!({ name: "0" })).await;
        create(&api, "first", members.clone()).await;
        quota.uses(json!({ name: "1" })).await;
        let why = refusal(&api, "second", members.clone()).await;
        let expected = format!("exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1");
        assert!(why.contains(&expected), "{why}");
        delete(&api, "first").await;
        quota.uses(json!({ name: "0" })).await;
        create(&api, "second", members).await;
        quota.uses(json!({ name: "1" })).await;
        delete(&api, "second").await;
        quota.delete().await;
    }
}

#[tokio::test]
async fn pods_count_with_what_they_ask_for_until_they_end() {
    let managed = Managed::start().await;
    let pods = managed.pods();
    let hard = json!({
        "pods": "5", "count/pods": "5", "cpu": "1", "memory": "500Mi", "limits.cpu": "2", "ephemeral-storage": "50Gi",
        "requests.example.com/dongle": "3",
    });
    let quota = managed.quota("q", hard).await;
    let used = |pods: u8, all: u8, cpu: &str, memory: &str, limit: &str, storage: &str, dongles: u8| {
        json!({
            "pods": pods.to_string(), "count/pods": all.to_string(), "cpu": cpu, "memory": memory, "limits.cpu": limit,
            "ephemeral-storage": storage, "requests.example.com/dongle": dongles.to_string(),
        })
    };
    quota.uses(used(0, 0, "0", "0", "0", "0", 0)).await;
    let asks =
        json!({ "cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": "2" });
    let may =
        json!({ "cpu": "1", "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": "2" });
    create(&pods, "first", asking_pod(asks, may)).await;
    quota.uses(used(1, 1, "500m", "252Mi", "1", "30Gi", 2)).await;
    let much =
        || asking_pod(json!({ "cpu": "600m", "memory": "100Mi" }), json!({ "cpu": "1", "memory": "100Mi" }));
    let why = refusal(&pods, "much", much()).await;
    assert!(why.contains("exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1"), "{why}");
    let dongles = json!({ "cpu": "1m", "memory": "1Mi", "example.com/dongle": "2" });
    let why = refusal(&pods, "dongles", asking_pod(dongles.clone(), dongles)).await;
    assert!(why.contains("requested: requests.example.com/dongle=2"), "{why}");

    // A pod that ends makes room for others. It is still an object.
    let ended = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
    pods.patch_status("first", &PatchParams::default(), &ended).await.unwrap();
    quota.uses(used(0, 1, "0", "0", "0", "0", 0)).await;
    create(&pods, "much", much()).await;
    quota.uses(used(1, 2, "600m", "100Mi", "1", "0", 0)).await;
    delete(&pods, "first").await;
    delete(&pods, "much").await;
    quota.uses(used(0, 0, "0", "0", "0", "0", 0)).await;
}

#[tokio::test]
async fn a_pod_that_is_resized_counts_what_it_has_while_that_is_more() {
    let managed = Managed::start().await;
    let pods = managed.pods();
    let quota = managed.quota("q", json!({ "requests.cpu": "2" })).await;
    quota.uses(json!({ "requests.cpu": "0" })).await;
    create(&pods, "a", asking_pod(json!({ "cpu": "200m" }), json!({}))).await;
    quota.uses(json!({ "requests.cpu": "200m" })).await;
    let has = |cpu: &str| {
        let amounts = json!({ "cpu": cpu });
        let status = json!({
            "name": "c", "image": "busybox", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": amounts, "resources": { "requests": amounts },
        });
        Patch::Merge(json!({ "status": { "phase": "Running", "containerStatuses": [status] } }))
    };
    for (actual, counted) in [("200m", "200m"), ("700m", "700m"), ("100m", "200m")] {
        pods.patch_status("a", &PatchParams::default(), &has(actual)).await.unwrap();
        quota.uses(json!({ "requests.cpu": counted })).await;
    }
}

#[tokio::test]
async fn claims_count_with_their_storage_for_the_namespace_and_for_their_class() {
    let managed = Managed::start().await;
    let claims = managed.objects("v1/PersistentVolumeClaim");
    let (claims_of_gold, storage_of_gold) = (
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "gold.storageclass.storage.k8s.io/requests.storage",
    );
    let hard = json!({
        "persistentvolumeclaims": "2", "requests.storage": "10Gi", claims_of_gold: "1", storage_of_gold: "5Gi",
    });
    let quota = managed.quota("q", hard).await;
    let used = |all: u8, storage: &str, golden: u8, gold: &str| {
        json!({
            "persistentvolumeclaims": all.to_string(), "requests.storage": storage,
            claims_of_gold: golden.to_string(), storage_of_gold: gold,
        })
    };
    let claim = |class: &str, storage: &str| {
        json!({ "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": storage } },
        } })
    };
    quota.uses(used(0, "0", 0, "0")).await;
    create(&claims, "plain", claim("", "1Gi")).await;
    create(&claims, "gold", claim("gold", "2Gi")).await;
    quota.uses(used(2, "3Gi", 1, "2Gi")).await;
    let why = refusal(&claims, "more", claim("gold", "1Gi")).await;
    assert!(why.contains("exceeded quota: q"), "{why}");
    delete(&claims, "gold").await;
    quota.uses(used(1, "1Gi", 0, "0")).await;
    delete(&claims, "plain").await;
    quota.uses(used(0, "0", 0, "0")).await;
}

#[tokio::test]
async fn claims_are_counted_in_the_scope_of_their_class_of_attributes() {
    let managed = Managed::start().await;
    let claims = managed.objects("v1/PersistentVolumeClaim");
    let hard = || json!({ "persistentvolumeclaims": "5" });
    let gold = managed.scoped("gold", hard(), selector("VolumeAttributesClass", "In", &["gold"])).await;
    let none = managed.scoped("none", hard(), selector("VolumeAttributesClass", "DoesNotExist", &[])).await;
    let used = |all: u8| json!({ "persistentvolumeclaims": all.to_string() });
    for quota in [&gold, &none] {
        quota.uses(used(0)).await;
    }
    let claim = |class: Value| {
        json!({ "spec": {
            "storageClassName": "", "volumeAttributesClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        } })
    };
    create(&claims, "a", claim(json!("gold"))).await;
    create(&claims, "b", claim(json!("silver"))).await;
    create(&claims, "c", claim(Value::Null)).await;
    gold.uses(used(1)).await;
    none.uses(used(1)).await;
    let changing = json!({ "status": {
        "currentVolumeAttributesClassName": "silver",
        "modifyVolumeStatus": { "targetVolumeAttributesClassName": "gold", "status": "InProgress" },
    } });
    claims.patch_status("b", &PatchParams::default(), &Patch::Merge(changing)).await.unwrap();
    gold.uses(used(2)).await;
}

#[tokio::test]
async fn devices_are_counted_by_their_classes() {
    let managed = Managed::start().await;
    let claims = managed.objects("resource.k8s.io/v1/ResourceClaim");
    let devices = "gold.deviceclass.resource.k8s.io/devices";
    let hard = json!({ "count/resourceclaims.resource.k8s.io": "2", devices: "3" });
    let quota = managed.quota("q", hard).await;
    let used = |claims: u8, count: u8| json!({ "count/resourceclaims.resource.k8s.io": claims.to_string(), devices: count.to_string() });
    let claim = |count: u8| {
        let exactly = json!({ "deviceClassName": "gold", "allocationMode": "ExactCount", "count": count });
        json!({ "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } } })
    };
    quota.uses(used(0, 0)).await;
    create(&claims, "first", claim(2)).await;
    quota.uses(used(1, 2)).await;
    delete(&claims, "first").await;
    quota.uses(used(0, 0)).await;
}

#[tokio::test]
async fn custom_resources_are_counted_once_they_are_defined() {
    // Upstream's manager counts a kind that is new with the next resync.
    let managed = Managed::start_with(&["--resource-quota-sync-period=2s"]).await;
    let group = format!("{}.example.com", managed.cluster.namespace);
    let counted = format!("count/widgets.{group}");
    let quota = managed.quota("q", json!({ counted.clone(): "1", "pods": "1" })).await;
    eventually("the other name has its figure", || async {
        let used = quota.status().await["used"].clone();
        (used == json!({ "pods": "0" }) || used == json!({ "pods": "0", counted.clone(): "0" })).then_some(())
    })
    .await;
    let definitions = cluster_objects(&managed.client, "apiextensions.k8s.io/v1/CustomResourceDefinition");
    let definition = json!({ "spec": {
        "group": group, "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
        }],
    } });
    let name = format!("widgets.{group}");
    create(&definitions, &name, definition).await;
    // Managers ask for the kinds of the API server every thirty seconds.
    quota.uses(json!({ counted.clone(): "0", "pods": "0" })).await;
    let widgets = managed.objects(&format!("{group}/v1/Widget"));
    let kind = json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget" });
    create(&widgets, "first", kind).await;
    quota.uses(json!({ counted.clone(): "1", "pods": "0" })).await;
    delete(&widgets, "first").await;
    quota.uses(json!({ counted: "0", "pods": "0" })).await;
    delete(&definitions, &name).await;
}

#[tokio::test]
async fn a_quota_counts_the_pods_in_all_of_its_scopes() {
    let managed = Managed::start().await;
    let pods = managed.pods();
    let class = format!("high-{}", managed.cluster.namespace);
    let classes = cluster_objects(&managed.client, "scheduling.k8s.io/v1/PriorityClass");
    create(&classes, &class, json!({ "value": 1000 })).await;
    let scopes = |scopes: &[&str]| json!({ "scopes": scopes });
    let mut both = selector("PriorityClass", "In", &[&class]);
    both["scopes"] = json!(["NotBestEffort"]);
    let cases = [
        ("terminating", scopes(&["Terminating"]), [0, 1, 0, 0]),
        ("not-terminating", scopes(&["NotTerminating"]), [1, 0, 1, 1]),
        ("best-effort", scopes(&["BestEffort"]), [1, 0, 0, 1]),
        ("not-best-effort", scopes(&["NotBestEffort"]), [0, 1, 1, 0]),
        ("both", scopes(&["NotTerminating", "NotBestEffort"]), [0, 0, 1, 0]),
        ("terminating-selector", selector("Terminating", "Exists", &[]), [0, 1, 0, 0]),
        ("best-effort-selector", selector("BestEffort", "Exists", &[]), [1, 0, 0, 1]),
        ("in", selector("PriorityClass", "In", &["low", &class]), [0, 0, 1, 0]),
        ("exists", selector("PriorityClass", "Exists", &[]), [0, 0, 1, 0]),
        ("class-and-scope", both, [0, 0, 1, 0]),
        ("affinity", selector("CrossNamespacePodAffinity", "Exists", &[]), [0, 0, 0, 1]),
    ];
    let mut quotas = Vec::new();
    for (name, scope, counts) in cases {
        quotas.push((managed.scoped(name, json!({ "pods": "9" }), scope).await, counts));
    }
    let not_in = selector("PriorityClass", "NotIn", &[&class]);
    quotas.push((managed.scoped("not-in", json!({ "pods": "9" }), not_in).await, [1, 1, 0, 1]));
    for (quota, _) in &quotas {
        quota.uses(json!({ "pods": "0" })).await;
    }
    let asking = || asking_pod(json!({ "cpu": "1m", "memory": "1Mi" }), json!({}));
    let mut ending = asking();
    ending["spec"]["activeDeadlineSeconds"] = json!(3600);
    let mut urgent = asking();
    urgent["spec"]["priorityClassName"] = class.clone().into();
    let mut crossing = asking_pod(json!({}), json!({}));
    crossing["spec"]["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "region", "labelSelector": {}, "namespaceSelector": {} },
    ] } });
    let all = [
        ("plain", asking_pod(json!({}), json!({}))),
        ("ending", ending),
        ("urgent", urgent),
        ("crossing", crossing),
    ];
    let mut expected = vec![0; quotas.len()];
    for (at, (name, members)) in all.into_iter().enumerate() {
        create(&pods, name, members).await;
        for ((quota, counts), sum) in quotas.iter().zip(&mut expected) {
            *sum += counts[at];
            quota.uses(json!({ "pods": sum.to_string() })).await;
        }
    }
    // A pod that gets a deadline goes from one scope to the other.
    let deadline = Patch::Merge(json!({ "spec": { "activeDeadlineSeconds": 3600 } }));
    pods.patch("plain", &PatchParams::default(), &deadline).await.unwrap();
    quotas[0].0.uses(json!({ "pods": "2" })).await;
    quotas[1].0.uses(json!({ "pods": (expected[1] - 1).to_string() })).await;
    for name in ["plain", "ending", "urgent", "crossing"] {
        delete(&pods, name).await;
    }
    for (quota, _) in &quotas {
        quota.uses(json!({ "pods": "0" })).await;
    }
    delete(&classes, &class).await;
}

#[tokio::test]
async fn limits_that_change_are_in_the_status_and_names_that_go_are_not() {
    let managed = Managed::start().await;
    let pods = managed.pods();
    create(&pods, "a", asking_pod(json!({ "cpu": "100m" }), json!({}))).await;
    let quota = managed.quota("q", json!({ "pods": "1", "cpu": "1" })).await;
    quota.uses(json!({ "pods": "1", "cpu": "100m" })).await;
    quota.patch(json!({ "spec": { "hard": { "pods": "2", "cpu": null, "services": "1" } } })).await;
    quota.uses(json!({ "pods": "1", "services": "0" })).await;
    assert_eq!(amounts(&quota.status().await["hard"]), amounts(&json!({ "pods": "2", "services": "1" })));
    create(&pods, "b", asking_pod(json!({}), json!({}))).await;
    quota.uses(json!({ "pods": "2", "services": "0" })).await;
    quota.delete().await;
    create(&pods, "c", asking_pod(json!({}), json!({}))).await;
}

#[tokio::test]
async fn a_status_that_is_right_is_not_written_again() {
    let managed = Managed::start().await;
    let pods = managed.pods();
    create(&pods, "a", asking_pod(json!({ "cpu": "100m", "memory": "1Gi" }), json!({}))).await;
    let quota = managed.quota("q", json!({ "pods": "5", "cpu": "1000m", "memory": "1024Mi" })).await;
    quota.uses(json!({ "pods": "1", "cpu": "100m", "memory": "1Gi" })).await;
    let before = quota.version().await;
    // Another quota, and pods in another phase, make the manager count this one, too.
    let running = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    pods.patch_status("a", &PatchParams::default(), &running).await.unwrap();
    let other = managed.quota("other", json!({ "pods": "5" })).await;
    other.uses(json!({ "pods": "1" })).await;
    quota.patch(json!({ "metadata": { "labels": { "a": "b" } } })).await;
    let labelled = quota.version().await;
    assert_ne!(labelled, before);
    other.patch(json!({ "spec": { "hard": { "pods": "6" } } })).await;
    eventually("the other quota is counted", || async {
        (other.status().await["hard"]["pods"] == "6").then_some(())
    })
    .await;
    assert_eq!(quota.version().await, labelled);
}

#[tokio::test]
async fn figures_are_right_in_the_end_though_the_manager_is_killed_again_and_again() {
    let mut managed = Managed::start().await;
    let pods = managed.pods();
    let quota = managed.quota("q", json!({ "pods": "40", "cpu": "40" })).await;
    quota.uses(json!({ "pods": "0", "cpu": "0" })).await;
    let asking = || asking_pod(json!({ "cpu": "100m" }), json!({}));
    for round in 0..4 {
        for at in 0..6 {
            create(&pods, &format!("p{round}-{at}"), asking()).await;
        }
        managed.manager.kill();
        for at in 0..4 {
            delete(&pods, &format!("p{round}-{at}")).await;
        }
        managed.manager = Manager::start(&managed.cluster.kubeconfig(), QUICK);
        delete(&pods, &format!("p{round}-4")).await;
        let left = round + 1;
        quota.uses(json!({ "pods": left.to_string(), "cpu": format!("{}m", 100 * left) })).await;
    }
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let lease = format!("quotas-{}", cluster.namespace);
    let resource = format!("--leader-elect-resource-name={lease}");
    let terms = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=400ms",
        &resource,
    ];
    let flags = [QUICK, &terms].concat();
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let mut first = Manager::start_candidate(&cluster.kubeconfig(), &flags);
    eventually("the first leads", || async {
        leases.get(&lease).await.ok()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
    })
    .await;
    let _second = Manager::start_candidate(&cluster.kubeconfig(), &flags);
    let pods = objects(&client, "v1/Pod");
    let quota = Quota::create(&client, "q", json!({ "pods": "9", "secrets": "9" })).await;
    quota.uses(json!({ "pods": "0", "secrets": "0" })).await;
    for name in ["a", "b", "c"] {
        create(&pods, name, asking_pod(json!({}), json!({}))).await;
    }
    quota.uses(json!({ "pods": "3", "secrets": "0" })).await;
    first.kill();
    delete(&pods, "a").await;
    create(&objects(&client, "v1/Secret"), "s", json!({})).await;
    quota.uses(json!({ "pods": "2", "secrets": "1" })).await;
    delete(&pods, "b").await;
    quota.uses(json!({ "pods": "1", "secrets": "1" })).await;
}
