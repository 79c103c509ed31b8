//! Budgets that go from one manager to the other in the middle of a drain.

use std::collections::BTreeSet;
use std::path::Path;

use kube::api::DeleteParams;
use serde_json::json;
use steersman_api::Time;

use support::Cluster;
use support::budgets::{Budget, evict};
use support::history::PodHistory;
use support::manager::Manager;
use support::replicas::{Kind, Owner, is_active, is_ready, mark, name_of};

const CONTROLLERS: &str = "--controllers=disruption-controller,replicaset-controller";
/// The number of pods, and how many of them the budget asks to be healthy.
const PODS: usize = 6;
const HEALTHY: usize = 4;

/// Starts a manager with these flags.
type Start<'a> = &'a dyn Fn(&Path, &[&str]) -> Manager;

/// A ReplicaSet whose pods are evicted from their node, and its budget. Nothing but the test ends the evicted pods.
struct Drain {
    client: kube::Client,
    set: Owner,
    budget: Budget,
}

impl Drain {
    /// Creates them, and waits until the budget allows two evictions.
    async fn begin(client: &kube::Client) -> Self {
        let mut manifest = Kind::ReplicaSet.manifest("web", 6);
        manifest["spec"]["template"]["spec"]["nodeName"] = json!("node-1");
        let set = Owner::create_from(client, Kind::ReplicaSet, manifest).await;
        let budget = Budget::create(client, "web", "web", json!({ "maxUnavailable": 2 })).await;
        let drain = Self { client: client.clone(), set, budget };
        drain.ready().await;
        drain.settles([2, 6, 4, 6], &[]).await;
        drain
    }

    /// Asks for the eviction of each of these pods once. Returns the names of those to which the API server agrees.
    async fn evict(&self, pods: &[String]) -> Vec<String> {
        let mut evicted = Vec::new();
        for pod in pods {
            match evict(&self.set.pods, pod).await {
                Ok(()) => evicted.push(pod.clone()),
                Err(refusal) => assert_eq!(refusal.code, 429, "{pod}: {refusal:?}"),
            }
        }
        evicted
    }

    /// Marks the pods that have taken the places of others as ready.
    async fn ready(&self) {
        self.set.has(PODS).await;
        for pod in self.set.active().await.iter().filter(|pod| !is_ready(pod)) {
            mark(&self.set.pods, &name_of(pod), "Running", "True", &Time::now()).await;
        }
        self.set.reports(json!({ "replicas": PODS, "readyReplicas": PODS })).await;
    }

    /// Ends pods that are being deleted, as their kubelet does.
    async fn end(&self, pods: &[String]) {
        for pod in pods {
            let now = DeleteParams::default().grace_period(0);
            self.set.pods.delete(pod, &now).await.expect("an evicted pod must be there until it ends");
        }
    }

    /// Waits until the status has these numbers, as [`Budget::reports`] lists them, and these disrupted pods.
    async fn settles(&self, numbers: [i64; 4], disrupted: &[String]) {
        let expected: BTreeSet<&String> = disrupted.iter().collect();
        self.budget
            .shows(&format!("{numbers:?} and the disrupted pods {disrupted:?}"), |budget| {
                let status = &budget.data["status"];
                let names = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
                let marked = status["disruptedPods"].as_object();
                marked.into_iter().flat_map(|pods| pods.keys()).collect::<BTreeSet<_>>() == expected
                    && names.into_iter().zip(numbers).all(|(name, number)| status[name] == number)
            })
            .await;
    }

    /// The version of the budget, the ReplicaSet and each of its pods.
    async fn versions(&self) -> BTreeSet<(String, String)> {
        let budget = self.budget.get().await.metadata.resource_version;
        let mut versions = self.set.versions().await;
        versions.insert(("the budget".to_owned(), budget.expect("a stored object has a version")));
        versions
    }

    /// Waits until the running manager has dealt with a new ReplicaSet and its budget, and then with another one. By then it
    /// has looked at the older ones.
    async fn is_looked_at(&self, marker: &str) {
        for name in [format!("{marker}-1"), format!("{marker}-2")] {
            let set = Owner::create(&self.client, Kind::ReplicaSet, &name, 1).await;
            set.reports(json!({ "replicas": 1 })).await;
            let budget = Budget::create(&self.client, &name, &name, json!({ "maxUnavailable": 1 })).await;
            budget.reports([0, 0, 0, 1]).await;
        }
    }
}

/// Checks that, since all pods were healthy for the first time, there were always as many as the budget asks for.
async fn enough_were_healthy(history: &PodHistory) {
    let (mut complete, mut least) = (false, PODS);
    history
        .replay("web", |pods| {
            let healthy = pods.values().filter(|pod| is_active(pod) && is_ready(pod)).count();
            complete |= healthy == PODS;
            if complete {
                least = least.min(healthy);
            }
        })
        .await;
    assert!(complete && least >= HEALTHY, "{least} pods were healthy");
}

/// Hands a budget from `first` to `second` and back, again and again, while its pods are evicted. Neither evicts beyond the
/// budget, or writes what it finds to be right.
pub(super) async fn in_a_drain(cluster: &Cluster, first: Start<'_>, second: Start<'_>) {
    let (client, kubeconfig, flags) = (cluster.client(), cluster.kubeconfig(), [CONTROLLERS]);
    let history = PodHistory::start(&client);
    let mut manager = first(&kubeconfig, &flags);
    let drain = Drain::begin(&client).await;
    let old = drain.set.has(PODS).await;
    assert_eq!(drain.evict(&old[..1]).await, old[..1]);
    drain.set.has(PODS).await;
    drain.settles([1, 5, 4, 6], &[]).await;
    manager.stop().await;

    // While no manager runs, the API server agrees to what the status still allows, and notes it there.
    assert_eq!(drain.evict(&old[1..]).await, old[1..2]);
    drain.settles([0, 5, 4, 6], &old[1..2]).await;
    manager = second(&kubeconfig, &flags);
    drain.settles([0, 4, 4, 6], &[]).await;
    assert!(drain.evict(&old[2..]).await.is_empty(), "the other pods are not ready yet");
    drain.end(&old[..2]).await;
    drain.ready().await;
    drain.settles([2, 6, 4, 6], &[]).await;

    // As after the end of an API server between its agreement and the deletion of the pod.
    let entry = json!({ &old[2]: Time::now() });
    drain.budget.patch_status(json!({ "disruptionsAllowed": 1, "disruptedPods": entry })).await;
    drain.settles([1, 5, 4, 6], &old[2..3]).await;
    let held = drain.versions().await;
    manager.stop().await;
    manager = first(&kubeconfig, &flags);
    drain.is_looked_at("first").await;
    assert_eq!(drain.versions().await, held, "the first manager changed what the second left");

    // The pod counts as evicted until it is. Then the pod that is evicted is another one.
    assert_eq!(drain.evict(&old[3..]).await, old[3..4]);
    drain.settles([0, 4, 4, 6], &old[2..3]).await;
    assert!(drain.evict(&old[4..]).await.is_empty(), "one of the healthy pods is to go");
    drain.set.pods.delete(&old[2], &DeleteParams::default()).await.expect("the pod must be there");
    drain.settles([0, 4, 4, 6], &[]).await;
    drain.end(&old[2..4]).await;
    drain.ready().await;
    drain.settles([2, 6, 4, 6], &[]).await;

    // Evictions go on while the managers change.
    let healthy: Vec<_> =
        drain.set.active().await.iter().map(name_of).filter(|pod| !old.contains(pod)).collect();
    assert_eq!(drain.evict(&old[4..5]).await, old[4..5]);
    manager.kill();
    manager = second(&kubeconfig, &flags);
    assert_eq!(drain.evict(&old[5..]).await, old[5..]);
    assert!(drain.evict(&healthy).await.is_empty(), "the budget is spent");
    drain.settles([0, 4, 4, 6], &[]).await;
    assert!(drain.evict(&healthy).await.is_empty(), "the budget is spent");
    drain.end(&old[4..]).await;
    drain.ready().await;
    drain.settles([2, 6, 4, 6], &[]).await;

    let ended = drain.versions().await;
    manager.stop().await;
    let _manager = first(&kubeconfig, &flags);
    drain.is_looked_at("last").await;
    assert_eq!(drain.versions().await, ended, "the first manager changed what the second left");
    assert_eq!(history.count_of_app("web").await, 2 * PODS, "each evicted pod was replaced once");
    enough_were_healthy(&history).await;
}
