//! The controllers, and parts of controllers, that run only with feature gates which are off by default: the manager as a
//! process, whose controllers act under Kubernetes's own roles. A test plays kube-scheduler, the driver and the kubelets.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman. Without a real API server, the
//! tests say that they do nothing: the embedded one has no such API.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::devices::{DRIVER, Devices, claim_spec, consumer, shared, templated};
use support::identities::{CA, OTHER_CA};
use support::manager::Manager;
use support::quotas::{cluster_objects, named, objects};
use support::real::MANAGER_TOKEN;
use support::{Cluster, eventually, lines};

const GATES: &str = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true,DRADeviceTaintRules=true,\
                     ClusterTrustBundle=true,PodCertificateRequest=true";

/// The flags of an API server that serves the APIs behind the gates.
const SERVED: &[&str] = &[
    GATES,
    "--runtime-config=scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true,certificates.k8s.io/v1beta1=true",
];

/// A cluster with the gates, and a manager.
struct Gated {
    manager: Manager,
    cluster: Cluster,
    client: kube::Client,
    devices: Devices,
}

/// Starts a manager with these controllers. `None` without a real API server.
async fn start(controllers: &str) -> Option<Gated> {
    let Some(cluster) = Cluster::start_audited_with(SERVED).await else {
        println!("skipped: KUBEBUILDER_ASSETS names no real API server");
        return None;
    };
    let controllers = format!("--controllers={controllers}");
    let root_ca = format!("--root-ca-file={CA}");
    let kubeconfig = cluster.kubeconfig_with_token(MANAGER_TOKEN);
    let flags = ["--use-service-account-credentials", GATES, &controllers, &root_ca];
    let manager = Manager::start(&kubeconfig, &flags);
    let client = cluster.client();
    let devices = Devices::of(&client, &cluster.namespace);
    Some(Gated { manager, cluster, client, devices })
}

impl Gated {
    /// Ends the manager, and shows that Kubernetes's roles granted all that it asked for.
    async fn end(mut self) {
        self.manager.stop().await;
        let log = self.cluster.audit_log();
        let user = |request: &Value| request["user"]["username"].as_str().unwrap_or_default().to_owned();
        let forbidden = log.iter().filter(|request| {
            request["annotations"]["authorization.k8s.io/decision"] == "forbid"
                && (user(request) == "system:kube-controller-manager"
                    || user(request).starts_with("system:serviceaccount:kube-system:"))
        });
        let forbidden: Vec<_> = forbidden
            .map(|request| format!("{}: {} {}", user(request), request["verb"], request["requestURI"]))
            .collect();
        assert!(forbidden.is_empty(), "forbidden:\n{}", lines(&forbidden));
    }
}

async fn create(api: &Api<DynamicObject>, name: &str, members: Value) -> String {
    let created = api.create(&PostParams::default(), &named(name, members)).await;
    created.unwrap().metadata.uid.unwrap()
}

/// An object as JSON, or null.
async fn get(api: &Api<DynamicObject>, name: &str) -> Value {
    let found = api.get_opt(name).await.unwrap();
    found.map(|found| serde_json::to_value(found).unwrap()).unwrap_or_default()
}

async fn is(api: &Api<DynamicObject>, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{name} {what}"), || async { Some(get(api, name).await).filter(|found| is(found)) })
        .await
}

fn pod_groups(client: &kube::Client) -> Api<DynamicObject> {
    objects(client, "scheduling.k8s.io/v1alpha2/PodGroup")
}

/// A PodGroup with these claims.
fn group(claims: &[Value]) -> Value {
    json!({"spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}})
}

/// A pod of the group `g`.
fn member(node: Value, claims: &[Value]) -> Value {
    json!({"spec": {
        "containers": [{"name": "c", "image": "busybox"}], "nodeName": node, "resourceClaims": claims,
        "schedulingGroup": {"podGroupName": "g"}, "terminationGracePeriodSeconds": 0,
    }})
}

#[tokio::test]
async fn a_pod_group_goes_after_its_last_pod_has_ended() {
    let Some(gated) = start("podgroup-protection-controller").await else { return };
    let (groups, pods) = (pod_groups(&gated.client), objects(&gated.client, "v1/Pod"));
    create(&groups, "g", group(&[])).await;
    create(&groups, "empty", group(&[])).await;
    create(&pods, "a", member(Value::Null, &[])).await;
    create(&pods, "b", member(Value::Null, &[])).await;
    for name in ["g", "empty"] {
        let finalizers = &get(&groups, name).await["metadata"]["finalizers"];
        assert_eq!(finalizers, &json!(["scheduling.k8s.io/podgroup-protection"]), "{name}");
        groups.delete(name, &DeleteParams::default()).await.unwrap();
    }
    is(&groups, "empty", "goes", Value::is_null).await;
    gated.devices.set_phase("a", "Succeeded").await;
    create(&groups, "witness", group(&[])).await;
    groups.delete("witness", &DeleteParams::default()).await.unwrap();
    is(&groups, "witness", "goes", Value::is_null).await;
    assert!(
        get(&groups, "g").await["metadata"]["deletionTimestamp"].is_string(),
        "the group still has a pod"
    );
    gated.devices.remove_pod("b").await;
    is(&groups, "g", "goes", Value::is_null).await;
    gated.end().await;
}

#[tokio::test]
async fn the_authority_of_the_api_server_is_published_as_a_bundle() {
    let Some(gated) = start("kube-apiserver-serving-clustertrustbundle-publisher-controller").await else {
        return;
    };
    let bundles = cluster_objects(&gated.client, "certificates.k8s.io/v1beta1/ClusterTrustBundle");
    let authority = std::fs::read_to_string(CA).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, authority.as_bytes());
    let digest: String = digest.as_ref()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("kubernetes.io:kube-apiserver-serving:{digest}");
    let is_right = |bundle: &Value| bundle["spec"]["trustBundle"] == authority;
    let bundle = is(&bundles, &name, "is published", is_right).await;
    assert_eq!(bundle["spec"]["signerName"], "kubernetes.io/kube-apiserver-serving");
    // Another bundle of the signer is that of an earlier authority. Those of others are none of the controller's business.
    let other = std::fs::read_to_string(OTHER_CA).unwrap();
    create(&bundles, "others", json!({"spec": {"trustBundle": other}})).await;
    let old = json!({"spec": {"signerName": "kubernetes.io/kube-apiserver-serving", "trustBundle": other}});
    create(&bundles, "kubernetes.io:kube-apiserver-serving:old", old).await;
    is(&bundles, "kubernetes.io:kube-apiserver-serving:old", "goes", Value::is_null).await;
    // A changed one is restored, and so is one that is deleted.
    let change = json!({"metadata": {"labels": {"mine": "kept"}}, "spec": {"trustBundle": other}});
    bundles.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    let restored = is(&bundles, &name, "is restored", is_right).await;
    assert_eq!(restored["metadata"]["labels"]["mine"], "kept");
    bundles.delete(&name, &DeleteParams::default()).await.unwrap();
    is(&bundles, &name, "is published again", |bundle| {
        is_right(bundle) && bundle["metadata"]["uid"] != restored["metadata"]["uid"]
    })
    .await;
    assert!(!get(&bundles, "others").await.is_null());
    gated.end().await;
}

#[tokio::test]
async fn the_cleaner_of_requests_needs_no_more_than_its_role() {
    let Some(gated) = start("podcertificaterequest-cleaner-controller").await else { return };
    // The controller finds no request that is old enough to be deleted: requests of tests are young.
    if gated.manager.is_steersman() {
        eventually("the cleaner runs", || async {
            let (_, metrics) = gated.manager.get("/metrics").await?;
            let runs = |line: &str| {
                line.starts_with("running_managed_controllers{")
                    && line.contains("\"podcertificaterequest-cleaner-controller\"")
                    && line.ends_with(" 1")
            };
            metrics.lines().any(runs).then_some(())
        })
        .await;
    }
    gated.end().await;
}

#[tokio::test]
async fn the_pods_of_a_group_share_its_claims() {
    let Some(gated) = start("resourceclaim-controller").await else { return };
    let Gated { client, devices, .. } = &gated;
    let (groups, pods) = (pod_groups(client), objects(client, "v1/Pod"));
    devices.template("t", json!({"labels": {"team": "a"}})).await;
    let claims = [templated("gpu", "t")];
    let uid = create(&groups, "g", group(&claims)).await;
    for name in ["a", "b"] {
        create(&pods, name, member("n1".into(), &claims)).await;
    }
    let told = is(&groups, "g", "has its claim", |group| {
        group["status"]["resourceClaimStatuses"][0]["resourceClaimName"].is_string()
    })
    .await;
    let name = told["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned();
    for pod in ["a", "b"] {
        assert_eq!(devices.generated(pod, 1).await, [("gpu".to_owned(), name.clone())]);
    }
    let claim = devices.get(&name).await;
    assert_eq!(claim["metadata"]["generateName"], "g-gpu-");
    assert_eq!(claim["metadata"]["labels"], json!({"team": "a"}));
    let owner = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": uid, "controller": true,
    });
    assert_eq!(claim["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(devices.names().await, std::slice::from_ref(&name), "the pods have no claims of their own");

    // The pods have nodes already, so that the claim is reserved for the group as soon as it is allocated.
    devices.allocate(&name, "gpu-0", Value::Null, &[]).await;
    let group = json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid});
    devices.claim_is(&name, "is reserved", |claim| claim["status"]["reservedFor"] == json!([group])).await;

    // The end of a pod changes nothing. The end of the group releases the claim.
    devices.set_phase("a", "Succeeded").await;
    devices.remove_pod("b").await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    groups.delete("g", &DeleteParams::default()).await.unwrap();
    assert_eq!(devices.get(&name).await["status"]["reservedFor"], json!([group]));
    groups.patch("g", &PatchParams::default(), &free).await.unwrap();
    let released = |claim: &Value| claim["status"].get("reservedFor").is_none();
    let claim = devices.claim_is(&name, "is released", |claim| claim.is_null() || released(claim)).await;
    if !claim.is_null() {
        devices
            .claim_is(&name, "is deallocated", |claim| {
                claim["status"].get("allocation").is_none() && claim["metadata"].get("finalizers").is_none()
            })
            .await;
    }
    gated.end().await;
}

#[tokio::test]
async fn a_group_without_its_template_is_told_so() {
    let Some(gated) = start("resourceclaim-controller").await else { return };
    let groups = pod_groups(&gated.client);
    create(&groups, "g", group(&[templated("gpu", "missing")])).await;
    let events = objects(&gated.client, "v1/Event");
    let event = eventually("an event", || async {
        let about = ListParams::default().fields("involvedObject.kind=PodGroup,involvedObject.name=g");
        events.list(&about).await.ok()?.items.into_iter().next()
    })
    .await;
    let event = serde_json::to_value(event).unwrap();
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("FailedResourceClaimCreation"))
    );
    assert_eq!(
        event["message"],
        "PodGroupResourceClaim gpu: resource claim template \"missing\": resourceclaimtemplate.resource.k8s.io \
         \"missing\" not found"
    );
    gated.devices.template("missing", json!({})).await;
    is(&groups, "g", "gets its claim", |group| group["status"]["resourceClaimStatuses"].is_array()).await;
    gated.end().await;
}

/// A rule that taints all devices of the test's pool.
fn rule(devices: &Devices, effect: &str) -> Value {
    json!({"spec": {
        "deviceSelector": {"driver": DRIVER, "pool": devices.pool},
        "taint": {"key": "example.com/broken", "effect": effect},
    }})
}

/// The condition of a rule.
fn eviction(rule: &Value) -> Value {
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == "EvictionInProgress").unwrap_or_default()
}

/// Waits until a rule has this condition.
async fn tells(rules: &Api<DynamicObject>, name: &str, expected: [&str; 3]) {
    let mut last = Value::Null;
    let told = async {
        loop {
            last = eviction(&get(rules, name).await);
            if is_condition(&last, expected) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(support::patience(), told).await.is_ok();
    assert!(in_time, "{name} must tell {expected:?}, and tells {last}");
}

/// Creates a rule with the effect `None`, and waits until its condition has this message.
///
/// The manager writes the condition of such a rule once, from caches that may still lack what the test wrote before it. Where they
/// did, this creates the rule again.
async fn create_counted(rules: &Api<DynamicObject>, name: &str, rule: Value, message: &str) {
    eventually(&format!("{name} tells {message:?}"), || async {
        create(rules, name, rule.clone()).await;
        let counted = is(rules, name, "is counted", |rule| eviction(rule)["reason"].is_string()).await;
        let condition = eviction(&counted);
        if is_condition(&condition, ["False", "NoEffect", message]) {
            return Some(());
        }
        println!("{name} was counted too early: {condition}");
        rules.delete(name, &DeleteParams::default()).await.unwrap();
        None
    })
    .await;
}

/// Whether a condition has this status, reason and message.
fn is_condition(condition: &Value, expected: [&str; 3]) -> bool {
    ["status", "reason", "message"]
        .into_iter()
        .zip(expected)
        .all(|(member, value)| condition[member] == value)
}

#[tokio::test]
async fn a_rule_evicts_pods_and_tells_of_it() {
    let Some(gated) = start("device-taint-eviction-controller").await else { return };
    let Gated { client, devices, .. } = &gated;
    let rules = cluster_objects(client, "resource.k8s.io/v1beta2/DeviceTaintRule");
    devices.publish("a", 1, Value::Null).await;
    for (name, tolerations) in [
        ("web", Value::Null),
        ("tolerant", json!([{"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}])),
    ] {
        let spec = json!({ "spec": claim_spec() });
        create(&devices.claims, name, spec).await;
        let uid = devices.pod(name, "n1", &[shared("gpu", name)]).await;
        devices.allocate(name, "gpu-0", tolerations, &[consumer(name, &uid)]).await;
    }
    create_counted(
        &rules,
        "simulated",
        rule(devices, "None"),
        "1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace if the effect was \
         NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
    )
    .await;
    create(&rules, "unscheduled", rule(devices, "NoSchedule")).await;
    tells(&rules, "unscheduled", ["False", "OtherEffect", "Eviction only happens for the NoExecute effect."])
        .await;
    // This one selects other devices.
    let mut other = rule(devices, "NoExecute");
    other["spec"]["deviceSelector"]["device"] = "gpu-1".into();
    create(&rules, "other", other).await;
    tells(&rules, "other", ["False", "NotStarted", ""]).await;
    let found = devices.pods.get("web").await.unwrap();
    assert_eq!(found.metadata.deletion_timestamp, None);

    create(&rules, "broken", rule(devices, "NoExecute")).await;
    eventually("web is evicted", || async {
        let pod = devices.pods.get("web").await.unwrap();
        pod.metadata.deletion_timestamp
    })
    .await;
    let event = devices.event("web", "Marking for deletion").await;
    assert_eq!(event, ["Normal", "device-taint-eviction-controller", "DeviceTaintManagerEviction"]);
    let completed = ["False", "Completed", "1 pod evicted since starting the controller."];
    tells(&rules, "broken", completed).await;
    assert_eq!(devices.pods.get("tolerant").await.unwrap().metadata.deletion_timestamp, None);
    let told = eviction(&get(&rules, "broken").await);
    assert!(told["lastTransitionTime"].as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()));
    assert_eq!(told["observedGeneration"], 1);
    gated.end().await;
}
