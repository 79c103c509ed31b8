//! Rollouts while the API server restarts, and while all watches of the manager lag: nothing is made twice, nothing gets stuck,
//! and each workload keeps to its bounds.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use steersman_apiserver::Calls;
use support::budgets::{Budget, evict};
use support::daemons::{self, Daemons, Nodes, node_of};
use support::deployments::{self, Kubelet, Rollout};
use support::history::PodHistory;
use support::managed::Managed;
use support::manager::Manager;
use support::replicas::{Kind, Owner, image_of, is_active, is_ready, name_of};
use support::stateful_sets::{self, Set, revision_of};
use support::{Cluster, eventually};

/// An API server that ends while it deletes a pod may leave the pod marked: the garbage collector of pods ends it, in 20 s.
const CONTROLLERS: &str = "--controllers=deployment-controller,replicaset-controller,statefulset-controller,\
    daemonset-controller,disruption-controller,pod-garbage-collector-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second of each controller that the test sees its rollouts in the middle.
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=5", "--kube-api-burst=5"];

/// A rollout of at most this many pods beyond the wanted ones, and this many that are not available.
fn bounded(kind: &str, surge: u32, unavailable: u32) -> Value {
    let field = if kind == "Deployment" { "strategy" } else { "updateStrategy" };
    json!({ field: { "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } })
}

fn with(mut manifest: Value, spec: Value) -> Value {
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

/// What a workload's pods have been like since all of them were available for the first time.
#[derive(Debug)]
struct Seen {
    least_available: usize,
    /// The greatest number of pods that were not being deleted, from the beginning.
    most: usize,
    /// How many pods there ever were.
    ever: usize,
}

/// What the history shows of a workload that wants so many pods.
async fn seen(history: &PodHistory, app: &str, wanted: usize) -> Seen {
    let mut seen = Seen { least_available: usize::MAX, most: 0, ever: history.count_of_app(app).await };
    history
        .replay(app, |pods| {
            let active = pods.values().filter(|pod| is_active(pod));
            seen.most = seen.most.max(active.clone().count());
            let available = active.filter(|pod| is_ready(pod)).count();
            if available >= wanted || seen.least_available < usize::MAX {
                seen.least_available = seen.least_available.min(available);
            }
        })
        .await;
    seen
}

/// Checks that each pod of a StatefulSet was created when all pods of lower numbers were ready. Those that were created while
/// states are missing do not count: the others may have changed since.
async fn created_in_order(history: &PodHistory, set: &Set) {
    let mut before = BTreeSet::new();
    history
        .replay_with_gaps(&set.name, |pods, after_gap| {
            let now: BTreeSet<String> = pods.keys().cloned().collect();
            for new in now.difference(&before).filter(|_| !after_gap) {
                let number: u32 = new.rsplit('-').next().unwrap().parse().unwrap();
                for lower in (0..number).map(|number| set.pod(number)) {
                    let is_ready = pods.get(&lower).is_some_and(|pod| is_active(pod) && is_ready(pod));
                    assert!(is_ready, "{new} was created before {lower} was ready");
                }
            }
            before = now;
        })
        .await;
}

/// Checks that no node ever had two pods of a DaemonSet.
async fn one_on_each_node(history: &PodHistory, set: &Daemons) {
    history
        .replay(&set.name, |pods| {
            let mut by_node = BTreeMap::<String, Vec<String>>::new();
            for pod in pods.values().filter(|pod| is_active(pod)) {
                by_node.entry(node_of(pod)).or_default().push(name_of(pod));
            }
            assert!(by_node.values().all(|pods| pods.len() == 1), "{by_node:?}");
        })
        .await;
}

/// The number of the workload's pods with this image that are not being deleted.
async fn updated(pods: &Api<Pod>, app: &str, image: &str) -> usize {
    let params = ListParams::default().labels(&format!("app={app}"));
    // A connection may have ended with the API server.
    let pods = eventually("pods are listed", || async { pods.list(&params).await.ok() }).await;
    pods.iter().filter(|pod| is_active(pod) && image_of(pod) == image).count()
}

/// A Deployment of 8 pods, a StatefulSet of 5 and a DaemonSet of 6.
struct Workloads {
    web: Rollout,
    db: Set,
    agent: Daemons,
}

impl Workloads {
    const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    const SIZES: [usize; 3] = [8, 5, 6];
    /// The images of the first template, and of the second.
    const FIRST: [&str; 3] = ["v1", "image:1", "first"];
    const SECOND: [&str; 3] = ["v2", "image:2", "second"];

    async fn create(client: &kube::Client) -> Self {
        Nodes::of(client).await.create_all(&Self::NODES).await;
        let web = with(deployments::manifest("web", 8, "v1"), bounded("Deployment", 2, 2));
        Self {
            web: Rollout::create(client, web).await,
            db: Set::create(client, stateful_sets::manifest("db", 5)).await,
            agent: Daemons::create(client, daemons::manifest("agent")).await,
        }
    }

    async fn roll(&self) {
        self.web.roll_to("v2").await;
        self.db.update(2).await;
        self.agent.set_image("second").await;
    }

    /// Waits until each workload has that many pods of these images.
    async fn have(&self, images: [&str; 3], count: usize) {
        for (app, image) in ["web", "db", "agent"].into_iter().zip(images) {
            eventually(&format!("{app} has {count} pods of the image {image}"), || async {
                (updated(&self.web.pods, app, image).await >= count).then_some(())
            })
            .await;
        }
    }

    /// The workloads of which not all pods have these images.
    async fn unfinished(&self, images: [&str; 3]) -> usize {
        let mut unfinished = 0;
        for ((app, image), size) in ["web", "db", "agent"].into_iter().zip(images).zip(Self::SIZES) {
            unfinished += usize::from(updated(&self.web.pods, app, image).await < size);
        }
        unfinished
    }

    /// Waits until all pods are available and of the current template.
    async fn complete(&self) {
        self.web.complete(8).await;
        let all = json!({
            "replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 5, "currentReplicas": 5,
        });
        self.db.reports(all).await;
        let all = json!({ "desiredNumberScheduled": 6, "updatedNumberScheduled": 6, "numberAvailable": 6 });
        self.agent.reports(all).await;
    }
}

#[tokio::test]
async fn an_api_server_that_restarts_in_the_middle_of_rollouts_disturbs_none() {
    let Managed { client, manager, cluster } = Managed::on(Cluster::start_own().await, SLOW);
    let history = PodHistory::start(&client);
    let _kubelet = Kubelet::start(&client);
    let all = Workloads::create(&client).await;
    all.have(Workloads::FIRST, 1).await;
    assert!(all.unfinished(Workloads::FIRST).await > 0, "pods were being made");
    cluster.restart(Duration::from_millis(500)).await;
    all.complete().await;
    history.catch_up().await;

    all.roll().await;
    all.have(Workloads::SECOND, 1).await;
    assert!(all.unfinished(Workloads::SECOND).await > 1, "rollouts were in the middle");
    cluster.restart(Duration::from_secs(1)).await;
    eventually("the StatefulSet's rollout goes on", || async {
        (updated(&all.web.pods, "db", "image:2").await >= 3).then_some(())
    })
    .await;
    assert!(all.unfinished(Workloads::SECOND).await > 0, "a rollout was in the middle");
    cluster.restart(Duration::from_millis(100)).await;
    all.complete().await;

    all.web.has_sets(&[("v1", 0), ("v2", 8)]).await;
    let sets = all.web.sets.list(&ListParams::default()).await.unwrap().items;
    let revision = |deployment: &Value| {
        deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone()
    };
    assert_eq!((sets.len(), revision(&all.web.get().await)), (2, json!("2")));
    assert_eq!(all.db.history().await.into_keys().collect::<Vec<_>>(), [1, 2]);
    all.agent.has_revisions(&[(1, "first"), (2, "second")]).await;
    all.agent.has_one_on(&Workloads::NODES).await;
    for ((app, size), unavailable) in ["web", "db", "agent"].into_iter().zip(Workloads::SIZES).zip([2, 1, 1])
    {
        let seen = seen(&history, app, size).await;
        assert!(seen.least_available >= size - unavailable, "{app}: {seen:?}");
        // Upstream makes a pod again whose creation got no answer, and deletes the one too many.
        if manager.is_steersman() {
            assert_eq!(seen.ever, 2 * size, "{app}: {seen:?}");
        }
    }
    created_in_order(&history, &all.db).await;
}

async fn lagging_deployment(client: &kube::Client, history: &PodHistory, manager: &Manager) {
    let web = with(deployments::manifest("web", 3, "v1"), bounded("Deployment", 1, 1));
    let web = Rollout::create(client, web).await;
    web.complete(3).await;
    // The second rollout begins before the caches show the first.
    for image in ["v2", "v3"] {
        web.roll_to(image).await;
        eventually("the rollout has begun", || async {
            (updated(&web.pods, "web", image).await > 0).then_some(())
        })
        .await;
    }
    web.complete(3).await;
    web.has_sets(&[("v1", 0), ("v2", 0), ("v3", 3)]).await;
    let labelled = ListParams::default().labels("app=web");
    assert_eq!(web.sets.list(&labelled).await.unwrap().items.len(), 3);
    let seen = seen(history, "web", 3).await;
    assert!(seen.least_available >= 2, "{seen:?}");
    if manager.is_steersman() {
        assert!(seen.most <= 4, "{seen:?}");
    }
}

async fn lagging_stateful_set(client: &kube::Client, history: &PodHistory) {
    let set = Set::create(client, stateful_sets::manifest("db", 3)).await;
    set.reports(json!({ "readyReplicas": 3, "currentReplicas": 3 })).await;
    set.update(2).await;
    eventually("the rollout has begun", || async {
        (updated(&set.pods, "db", "image:2").await > 0).then_some(())
    })
    .await;
    set.update(3).await;
    let status = set.reports(json!({ "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3 })).await;
    for pod in set.has(&[0, 1, 2]).await.values() {
        assert_eq!((image_of(pod), json!(revision_of(pod))), ("image:3", status["updateRevision"].clone()));
    }
    assert_eq!(set.history().await.into_keys().collect::<Vec<_>>(), [1, 2, 3]);
    let seen = seen(history, "db", 3).await;
    assert!(seen.least_available >= 2 && seen.most <= 3, "{seen:?}");
    created_in_order(history, &set).await;
}

async fn lagging_daemon_set(client: &kube::Client, history: &PodHistory) {
    let nodes = Nodes::of(client).await;
    nodes.create_all(&["a", "b", "c"]).await;
    let set = with(daemons::manifest("agent"), bounded("DaemonSet", 0, 2));
    let set = Daemons::create(client, set).await;
    set.reports(json!({ "desiredNumberScheduled": 3, "numberAvailable": 3 })).await;
    set.set_image("second").await;
    nodes.create("d", json!({})).await;
    eventually("the rollout has begun", || async {
        (updated(&set.pods, "agent", "second").await > 0).then_some(())
    })
    .await;
    set.set_image("third").await;
    let all = json!({ "desiredNumberScheduled": 4, "updatedNumberScheduled": 4, "numberAvailable": 4 });
    set.reports(all).await;
    set.has_revisions(&[(1, "first"), (2, "second"), (3, "third")]).await;
    set.has_one_on(&["a", "b", "c", "d"]).await;
    one_on_each_node(history, &set).await;
    let seen = seen(history, "agent", 3).await;
    assert!(seen.least_available >= 1, "{seen:?}");
}

async fn lagging_budget(client: &kube::Client, history: &PodHistory) {
    let set = Owner::create(client, Kind::ReplicaSet, "guarded", 3).await;
    let first = set.has(3).await;
    let budget = Budget::create(client, "guarded", "guarded", json!({ "maxUnavailable": 1 })).await;
    budget.reports([1, 3, 2, 3]).await;
    for pod in &first {
        eventually(&format!("{pod} is evicted"), || async { evict(&set.pods, pod).await.ok() }).await;
    }
    let last = set.has(3).await;
    assert!(!first.iter().any(|pod| last.contains(pod)), "{first:?} {last:?}");
    budget.reports([1, 3, 2, 3]).await;
    let seen = seen(history, "guarded", 3).await;
    assert!(seen.least_available >= 2 && seen.ever == 6, "{seen:?}");
}

#[tokio::test]
async fn watches_that_lag_five_seconds_lead_to_nothing_twice_and_to_nothing_stuck() {
    let Managed { client, manager, cluster } = Managed::on(Cluster::start_embedded().await, QUICK);
    let history = PodHistory::start(&client);
    let _kubelet = Kubelet::start(&client);
    let agent = if manager.is_steersman() { "steersman/" } else { "kube-controller-manager/" };
    let faults = cluster.embedded().faults();
    faults.delay_watches(Calls::all().user_agent(agent), Duration::from_secs(5));
    tokio::join!(
        lagging_deployment(&client, &history, &manager),
        lagging_stateful_set(&client, &history),
        lagging_daemon_set(&client, &history),
        lagging_budget(&client, &history),
    );
}
