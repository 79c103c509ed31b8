//! DaemonSets kept on their nodes by the manager, as a process, while a test plays the scheduler and the kubelets. The nodes
//! exist in the API alone.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail in this way")]

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};
use steersman_api::Time;
use support::daemons::{Daemons, HASH, Nodes, manifest, node_of};
use support::history::PodHistory;
use support::kubectl::Kubectl;
use support::managed::{Candidates, Managed};
use support::manager::Manager;
use support::replicas::{create_pod, image_of, is_ready, mark, name_of};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=daemonset-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second that a test sees the manager in the middle of its work.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=5", "--kube-api-burst=5"];

/// A cluster, without nodes at first, with a manager at work.
struct Site {
    nodes: Nodes,
    managed: Managed,
}

impl Site {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let nodes = Nodes::of(&cluster.client()).await;
        Self { nodes, managed: Managed::on(cluster, QUICK) }
    }

    /// Creates nodes without labels, and a DaemonSet whose spec `change` has changed.
    async fn create(&self, nodes: &[&str], change: impl FnOnce(&mut Value)) -> Daemons {
        self.nodes.create_all(nodes).await;
        let mut manifest = manifest("agent");
        change(&mut manifest["spec"]);
        Daemons::create(&self.managed.client, manifest).await
    }
}

fn rolling(max_unavailable: Value, max_surge: Value) -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": { "maxUnavailable": max_unavailable, "maxSurge": max_surge },
    })
}

#[tokio::test]
async fn each_node_gets_a_pod_from_the_template() {
    let site = Site::start().await;
    let own = json!({ "key": "own", "operator": "Exists", "effect": "NoSchedule" });
    let spread = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "other" } } },
    ] });
    let set = site
        .create(&["a", "b", "c"], |spec| {
            spec["template"]["metadata"]["annotations"] = json!({ "note": "kept" });
            spec["template"]["spec"]["tolerations"] = json!([own]);
            spec["template"]["spec"]["affinity"] = json!({ "podAntiAffinity": spread });
        })
        .await;
    set.has_one_on(&["a", "b", "c"]).await;
    let revisions = set.revisions().await;
    let [(1, revision, _)] = &revisions[..] else { panic!("{revisions:?}") };
    let hash = revision.strip_prefix("agent-").unwrap();
    for pod in set.active().await {
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("agent-"));
        let labels = json!({ "app": "agent", HASH: hash, "pod-template-generation": "1" });
        assert_eq!(serde_json::to_value(&pod.metadata.labels).unwrap(), labels);
        assert_eq!(serde_json::to_value(&pod.metadata.annotations).unwrap(), json!({ "note": "kept" }));
        let owners = json!([{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": set.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(serde_json::to_value(&pod.metadata.owner_references).unwrap(), owners);
        let spec = serde_json::to_value(&pod.spec).unwrap();
        let by_name = json!({ "key": "metadata.name", "operator": "In", "values": [node_of(&pod)] });
        let required = json!({ "nodeSelectorTerms": [{ "matchFields": [by_name] }] });
        let affinity = json!({
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required }, "podAntiAffinity": spread,
        });
        assert_eq!(spec["affinity"], affinity);
        let problem = |name: &str, effect: &str| json!({ "key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": effect });
        let tolerations = json!([
            own,
            problem("not-ready", "NoExecute"),
            problem("unreachable", "NoExecute"),
            problem("disk-pressure", "NoSchedule"),
            problem("memory-pressure", "NoSchedule"),
            problem("pid-pressure", "NoSchedule"),
            problem("unschedulable", "NoSchedule"),
        ]);
        assert_eq!(spec["tolerations"], tolerations);
    }
    set.reports(json!({
        "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3, "numberMisscheduled": 0,
        "numberReady": 0, "numberAvailable": 0, "numberUnavailable": 3,
    }))
    .await;
    set.settles(json!({ "numberReady": 3, "numberAvailable": 3, "numberUnavailable": 0 })).await;
    for pod in set.active().await {
        let message = format!("Created pod: {}", name_of(&pod));
        let event = set.event("SuccessfulCreate", &message).await;
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.source.unwrap().component.as_deref(), Some("daemonset-controller"));
    }
}

#[tokio::test]
async fn pods_of_the_nodes_network_tolerate_that_it_is_not_there_yet() {
    let site = Site::start().await;
    let set = site.create(&["a"], |spec| spec["template"]["spec"]["hostNetwork"] = json!(true)).await;
    let missing = json!([{ "key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule" }]);
    set.has_one_on(&["a"]).await;
    site.nodes.create("b", json!({})).await;
    site.nodes.taint("b", missing).await;
    set.has_one_on(&["a", "b"]).await;
    let tolerations = set.active().await[0].spec.clone().unwrap().tolerations.unwrap();
    assert_eq!(tolerations.last().unwrap().key.as_deref(), Some("node.kubernetes.io/network-unavailable"));
}

#[tokio::test]
async fn taints_keep_pods_away_or_drive_them_away() {
    let site = Site::start().await;
    let set = site
        .create(&["plain", "tainted", "tolerated"], |spec| {
            let toleration = json!({ "key": "mine", "operator": "Equal", "value": "yes" });
            spec["template"]["spec"]["tolerations"] = json!([toleration]);
        })
        .await;
    let taint = |key: &str, effect: &str| json!([{ "key": key, "value": "yes", "effect": effect }]);
    set.has_one_on(&["plain", "tainted", "tolerated"]).await;
    set.settles(json!({ "numberReady": 3 })).await;

    // A taint keeps new pods away, and not those that run.
    site.nodes.taint("tainted", taint("other", "NoSchedule")).await;
    site.nodes.taint("tolerated", taint("mine", "NoExecute")).await;
    site.nodes.create("late", json!({})).await;
    set.has_one_on(&["late", "plain", "tainted", "tolerated"]).await;
    set.reports(json!({ "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 1 }))
        .await;
    let [.., on_tainted, _] = &set.has_one_on(&["late", "plain", "tainted", "tolerated"]).await[..] else {
        panic!("there are four")
    };
    set.pods.delete(on_tainted, &DeleteParams::default().grace_period(0)).await.unwrap();
    set.has_one_on(&["late", "plain", "tolerated"]).await;
    set.settles(json!({ "desiredNumberScheduled": 3, "numberReady": 3, "numberMisscheduled": 0 })).await;

    // The other effect drives them away.
    site.nodes.taint("plain", taint("other", "NoExecute")).await;
    set.has_one_on(&["late", "tolerated"]).await;
    set.settles(json!({ "desiredNumberScheduled": 2, "numberMisscheduled": 0 })).await;
    site.nodes.taint("plain", json!([])).await;
    site.nodes.taint("tainted", json!([])).await;
    set.has_one_on(&["late", "plain", "tainted", "tolerated"]).await;
    set.settles(json!({ "desiredNumberScheduled": 4, "numberReady": 4 })).await;

    // What the node controller says of a node's problems keeps no daemon away.
    let problems = json!([
        { "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" },
        { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
    ]);
    site.nodes.taint("late", problems).await;
    site.nodes.taint("plain", taint("other", "NoExecute")).await;
    set.has_one_on(&["late", "tainted", "tolerated"]).await;
}

#[tokio::test]
async fn pods_follow_the_labels_of_nodes_and_the_set() {
    let site = Site::start().await;
    site.nodes.create("fast", json!({ "disk": "fast", "cores": "8" })).await;
    site.nodes.create("slow", json!({ "disk": "slow", "cores": "2" })).await;
    let set = site
        .create(&["none"], |spec| spec["template"]["spec"]["nodeSelector"] = json!({ "disk": "fast" }))
        .await;
    set.has_one_on(&["fast"]).await;
    site.nodes.label("slow", json!({ "disk": "fast" })).await;
    set.has_one_on(&["fast", "slow"]).await;
    site.nodes.label("fast", json!({ "disk": null })).await;
    set.has_one_on(&["slow"]).await;
    set.settles(json!({ "desiredNumberScheduled": 1, "numberReady": 1 })).await;

    let required = |expression: Value| {
        let term = json!({ "matchExpressions": [expression] });
        let required =
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
        json!({ "spec": { "template": { "spec": { "nodeSelector": null, "affinity": { "nodeAffinity": required } } } } })
    };
    for (operator, values, nodes) in [
        ("Gt", json!(["4"]), &["fast"][..]),
        ("Lt", json!(["4"]), &["slow"]),
        ("Exists", Value::Null, &["fast", "slow"]),
        ("DoesNotExist", Value::Null, &["none"]),
        ("NotIn", json!(["8"]), &["none", "slow"]),
        ("In", json!(["2", "8"]), &["fast", "slow"]),
    ] {
        let expression = json!({ "key": "cores", "operator": operator, "values": values });
        set.patch(required(expression)).await;
        let expected = json!({ "desiredNumberScheduled": nodes.len(), "numberReady": nodes.len(), "updatedNumberScheduled": nodes.len() });
        set.settles(expected).await;
        set.has_one_on(nodes).await;
    }
}

#[tokio::test]
async fn new_nodes_get_pods_and_vanished_ones_are_counted_no_more() {
    let site = Site::start().await;
    let set = site.create(&[], |_| {}).await;
    set.reports(json!({ "desiredNumberScheduled": 0 })).await;
    site.nodes.create_all(&["a", "b"]).await;
    let pods = set.has_one_on(&["a", "b"]).await;
    set.reports(json!({ "desiredNumberScheduled": 2, "currentNumberScheduled": 2 })).await;
    // The scheduler never binds the pod of a node that is gone, so that the pod collector never sees it.
    site.nodes.delete("b").await;
    // Upstream looks only when something else happens.
    set.patch(json!({ "metadata": { "annotations": { "look": "again" } } })).await;
    assert_eq!(set.has_one_on(&["a"]).await, pods[..1]);
    set.reports(json!({ "desiredNumberScheduled": 1, "currentNumberScheduled": 1 })).await;
    site.nodes.create("b", json!({})).await;
    set.has_one_on(&["a", "b"]).await;
    set.settles(json!({ "desiredNumberScheduled": 2, "numberReady": 2 })).await;
}

#[tokio::test]
async fn a_rolling_update_takes_no_more_nodes_down_than_it_may() {
    let site = Site::start().await;
    let nodes = ["a", "b", "c", "d", "e"];
    let set = site.create(&nodes, |spec| spec["updateStrategy"] = rolling(json!("30%"), json!(0))).await;
    set.settles(json!({ "numberAvailable": 5 })).await;

    // 30 % of five are two. Pods of the new image never become ready, so that the update stops there.
    set.set_image("second").await;
    set.settles_with(
        json!({ "updatedNumberScheduled": 2, "numberAvailable": 3, "numberUnavailable": 2 }),
        |_| false,
    )
    .await;
    for _ in 0..20 {
        set.play(|_| false).await;
        assert!(set.active().await.iter().filter(|pod| is_ready(pod)).count() >= 3);
    }
    set.reports(json!({ "updatedNumberScheduled": 2, "numberAvailable": 3 })).await;

    // A better image: the pods that are not ready go at once, the others as before.
    set.set_image("third").await;
    let updated = json!({ "updatedNumberScheduled": 5, "numberAvailable": 5, "numberUnavailable": 0 });
    set.settles(updated).await;
    set.has_one_on(&nodes).await;
    assert!(set.active().await.iter().all(|pod| image_of(pod) == "third"));
    set.has_revisions(&[(1, "first"), (2, "second"), (3, "third")]).await;
}

#[tokio::test]
async fn a_rolling_update_with_surge_keeps_every_node_served() {
    let site = Site::start().await;
    let nodes = ["a", "b", "c"];
    let set = site.create(&nodes, |spec| spec["updateStrategy"] = rolling(json!(0), json!(1))).await;
    set.settles(json!({ "numberAvailable": 3 })).await;
    set.set_image("second").await;
    let served = |pods: &[k8s_openapi::api::core::v1::Pod]| -> BTreeSet<String> {
        pods.iter().filter(|pod| is_ready(pod)).map(node_of).collect()
    };
    // One node has two pods, of which the new one never becomes ready.
    for _ in 0..20 {
        set.play(|_| false).await;
        let pods = set.active().await;
        assert!(
            served(&pods).len() == 3 && pods.len() <= 4,
            "{:?}",
            pods.iter().map(name_of).collect::<Vec<_>>()
        );
    }
    eventually("a node has both", || async { (set.active().await.len() == 4).then_some(()) }).await;
    for pod in set.active().await.iter().filter(|pod| !is_ready(pod)) {
        mark(&set.pods, &name_of(pod), "Running", "True", &Time::now()).await;
    }
    let updated = json!({ "updatedNumberScheduled": 3, "numberAvailable": 3 });
    set.settles(updated).await;
    set.has_one_on(&nodes).await;
    assert!(set.active().await.iter().all(|pod| image_of(pod) == "second"));
}

#[tokio::test]
async fn pods_count_as_available_once_they_have_been_ready_for_long_enough() {
    let site = Site::start().await;
    let set = site.create(&["a", "b"], |spec| spec["minReadySeconds"] = json!(3600)).await;
    let pods = set.has_one_on(&["a", "b"]).await;
    let ago = |seconds: i64| Time::from_seconds(Time::now().seconds() - seconds);
    set.play(|_| false).await;
    mark(&set.pods, &pods[0], "Running", "True", &ago(1)).await;
    set.reports(json!({ "numberReady": 1, "numberAvailable": 0, "numberUnavailable": 2 })).await;
    mark(&set.pods, &pods[1], "Running", "True", &ago(7200)).await;
    set.reports(json!({ "numberReady": 2, "numberAvailable": 1, "numberUnavailable": 1 })).await;
}

#[tokio::test]
async fn on_delete_replaces_pods_that_others_delete() {
    let site = Site::start().await;
    let set = site.create(&["a", "b"], |spec| spec["updateStrategy"] = json!({ "type": "OnDelete" })).await;
    set.settles(json!({ "numberAvailable": 2 })).await;
    let before = set.has_one_on(&["a", "b"]).await;
    set.set_image("second").await;
    set.reports(json!({ "updatedNumberScheduled": 0, "numberAvailable": 2 })).await;
    set.has_revisions(&[(1, "first"), (2, "second")]).await;
    assert_eq!(set.has_one_on(&["a", "b"]).await, before);
    set.pods.delete(&before[0], &DeleteParams::default().grace_period(0)).await.unwrap();
    set.settles(json!({ "updatedNumberScheduled": 1, "numberAvailable": 2 })).await;
    let after = set.has_one_on(&["a", "b"]).await;
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1]);
    let new = set.pods.get(&after[0]).await.unwrap();
    assert_eq!(
        (image_of(&new), new.metadata.labels.as_ref().unwrap()["pod-template-generation"].as_str()),
        ("second", "2")
    );
}

#[tokio::test]
async fn a_rollback_makes_the_old_revision_the_latest_again() {
    let site = Site::start().await;
    let set = site.create(&["a", "b"], |spec| spec["updateStrategy"] = rolling(json!(1), json!(0))).await;
    set.settles(json!({ "numberAvailable": 2 })).await;
    let first = set.revisions().await.remove(0).1;
    set.set_image("second").await;
    set.settles(json!({ "updatedNumberScheduled": 2, "numberAvailable": 2 })).await;
    match Kubectl::find(&site.managed.cluster.kubeconfig(), &site.managed.cluster.namespace) {
        Some(kubectl) => assert!(kubectl.run("rollout undo daemonset/agent").await.contains("rolled back")),
        None => set.set_image("first").await,
    }
    set.settles(json!({ "updatedNumberScheduled": 2, "numberAvailable": 2 })).await;
    assert!(set.active().await.iter().all(|pod| image_of(pod) == "first"));
    set.has_revisions(&[(2, "second"), (3, "first")]).await;
    assert_eq!(set.revisions().await[1].1, first, "no revision is made");
}

#[tokio::test]
async fn old_revisions_go_beyond_the_limit() {
    let site = Site::start().await;
    let set = site.create(&["a"], |spec| spec["revisionHistoryLimit"] = json!(1)).await;
    set.settles(json!({ "numberAvailable": 1 })).await;
    for image in ["second", "third", "fourth"] {
        set.set_image(image).await;
        set.settles(json!({ "updatedNumberScheduled": 1, "numberAvailable": 1 })).await;
    }
    set.has_revisions(&[(3, "third"), (4, "fourth")]).await;
}

#[tokio::test]
async fn pods_that_have_ended_are_replaced_and_failed_ones_ever_more_slowly() {
    let site = Site::start().await;
    let set = site.create(&["a"], |_| {}).await;
    set.settles(json!({ "numberAvailable": 1 })).await;
    let mut last = set.has_one_on(&["a"]).await.remove(0);
    let mut begun = tokio::time::Instant::now();
    for (at, end) in ["Succeeded", "Failed", "Failed", "Failed"].into_iter().enumerate() {
        if at == 2 {
            begun = tokio::time::Instant::now();
        }
        set.mark(&last, end, "False").await;
        let (reason, message) = match end {
            "Failed" => (
                "FailedDaemonPod",
                format!(
                    "Found failed daemon pod {}/{last} on node a, will try to kill it",
                    site.managed.cluster.namespace
                ),
            ),
            _ => (
                "SucceededDaemonPod",
                format!(
                    "Found succeeded daemon pod {}/{last} on node a, will try to delete it",
                    site.managed.cluster.namespace
                ),
            ),
        };
        let event = set.event(reason, &message).await;
        assert_eq!(event.type_.as_deref(), Some(if end == "Failed" { "Warning" } else { "Normal" }));
        let gone = last.clone();
        eventually("another pod takes its place", || async {
            set.play(|_| true).await;
            set.active().await.iter().any(|pod| name_of(pod) != gone && is_ready(pod)).then_some(())
        })
        .await;
        last = set.has_one_on(&["a"]).await.remove(0);
    }
    // The third failed pod is deleted two seconds after the second one.
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn pods_without_an_owner_are_adopted_and_others_released() {
    let site = Site::start().await;
    site.nodes.create_all(&["a", "b"]).await;
    let pods = Api::default_namespaced(site.managed.client.clone());
    create_pod(&pods, "agent", "bare", json!({})).await;
    let bind = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "bare" },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "a" },
    });
    pods.create_subresource::<_, Value>("binding", "bare", &Default::default(), &bind).await.unwrap();
    let set = site.create(&[], |spec| spec["updateStrategy"] = json!({ "type": "OnDelete" })).await;
    assert_eq!(set.has_one_on(&["a", "b"]).await[0], "bare");
    set.settles(json!({ "numberAvailable": 2, "updatedNumberScheduled": 1 })).await;

    let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "debug" } } }));
    set.pods.patch("bare", &PatchParams::default(), &patch).await.unwrap();
    eventually("it is released", || async {
        (!set.controls(&set.pods.get("bare").await.ok()?)).then_some(())
    })
    .await;
    assert_ne!(set.has_one_on(&["a", "b"]).await[0], "bare");
    set.settles(json!({ "numberAvailable": 2, "updatedNumberScheduled": 2 })).await;
}

#[tokio::test]
async fn a_set_orphaned_and_made_again_adopts_its_pods_and_revisions() {
    let site = Site::start().await;
    let set = site.create(&["a", "b"], |_| {}).await;
    set.settles(json!({ "numberAvailable": 2 })).await;
    let (pods, revisions) = (set.has_one_on(&["a", "b"]).await, set.revisions().await);
    // The garbage collector does not run here: the test removes the owners as it would.
    set.delete(PropagationPolicy::Background).await;
    eventually("it is gone", || async { set.api.get_opt("agent").await.ok()?.is_none().then_some(()) }).await;
    let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    for pod in &pods {
        set.pods.patch(pod, &PatchParams::default(), &orphan).await.unwrap();
    }
    let stored = Api::<k8s_openapi::api::apps::v1::ControllerRevision>::default_namespaced(
        site.managed.client.clone(),
    );
    stored.patch(&revisions[0].1, &PatchParams::default(), &orphan).await.unwrap();
    let again = site.create(&[], |_| {}).await;
    again.reports(json!({ "numberAvailable": 2, "updatedNumberScheduled": 2 })).await;
    assert_eq!(again.has_one_on(&["a", "b"]).await, pods);
    assert_eq!(again.revisions().await, revisions);
}

#[tokio::test]
async fn a_refused_pod_is_told_of_in_an_event() {
    let site = Site::start().await;
    let set =
        site.create(&["a"], |spec| spec["template"]["spec"]["priorityClassName"] = json!("no-such")).await;
    let events = Api::<k8s_openapi::api::core::v1::Event>::default_namespaced(site.managed.client.clone());
    eventually("the refusal is told", || async {
        let events = events.list(&Default::default()).await.ok()?.items;
        let told = events.iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
        let refusal = "is forbidden: no PriorityClass with name no-such was found";
        told.filter_map(|event| event.message.as_ref())
            .any(|text| text.starts_with("Error creating: pods \"agent-") && text.ends_with(refusal))
            .then_some(())
    })
    .await;
    set.reports(json!({ "desiredNumberScheduled": 1, "currentNumberScheduled": 0, "numberUnavailable": 1 }))
        .await;
}

#[tokio::test]
async fn a_set_that_has_its_pods_is_not_written_again() {
    let mut site = Site::start().await;
    let set = site.create(&["a", "b"], |spec| spec["minReadySeconds"] = json!(1)).await;
    set.settles(json!({ "numberAvailable": 2 })).await;
    let before = set.versions().await;
    // A manager that starts looks at every set; the new one shows that it has.
    site.managed.manager.stop().await;
    let _second = Manager::start(&site.managed.cluster.kubeconfig(), QUICK);
    site.nodes.create("c", json!({ "only": "later" })).await;
    site.nodes.taint("c", json!([{ "key": "x", "effect": "NoExecute" }])).await;
    let mut manifest = manifest("later");
    manifest["spec"]["template"]["spec"]["nodeSelector"] = json!({ "only": "later" });
    manifest["spec"]["template"]["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    let later = Daemons::create(&site.managed.client, manifest).await;
    later.settles(json!({ "numberAvailable": 1 })).await;
    let after = set.versions().await;
    assert!(before.iter().all(|(uid, version)| after.get(uid) == Some(version)), "{before:?} {after:?}");
}

#[tokio::test]
async fn a_manager_killed_in_the_middle_makes_no_pod_twice() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let nodes = Nodes::of(&client).await;
    let names: Vec<String> = (0..40).map(|at| format!("node-{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.create_all(&names).await;
    let history = PodHistory::start(&client);
    let mut first = Manager::start(&cluster.kubeconfig(), SLOW);
    let set = Daemons::create(&client, manifest("agent")).await;
    eventually("some pods are made", || async { (set.active().await.len() >= 8).then_some(()) }).await;
    first.kill();
    assert!(set.active().await.len() < 40, "it was in the middle");
    let _second = Manager::start(&cluster.kubeconfig(), QUICK);
    set.has_one_on(&names).await;
    set.reports(json!({ "currentNumberScheduled": 40 })).await;
    assert_eq!((history.count().await, set.revisions().await.len()), (40, 1));
}

#[tokio::test]
async fn of_two_managers_one_is_killed_and_the_other_goes_on() {
    let cluster = Cluster::start_alone().await;
    let client = cluster.client();
    let nodes = Nodes::of(&client).await;
    let names: Vec<String> = (0..30).map(|at| format!("node-{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.create_all(&names).await;
    let history = PodHistory::start(&client);
    let mut managers = Candidates::start(&cluster, SLOW).await;
    let set = Daemons::create(&client, manifest("agent")).await;
    eventually("some pods are made", || async { (set.active().await.len() >= 4).then_some(()) }).await;
    managers.kill_leader();
    set.has_one_on(&names).await;
    set.reports(json!({ "currentNumberScheduled": 30 })).await;
    assert!(managers.has_changed().await);
    assert_eq!((history.count().await, set.revisions().await.len()), (30, 1));
}
