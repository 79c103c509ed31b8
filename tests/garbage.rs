//! Garbage collected by the manager, as a process.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "garbage/custom.rs"]
mod custom;
#[path = "garbage/failures.rs"]
mod failures;
#[path = "garbage/wrong.rs"]
mod wrong;

use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use serde_json::{Value, json};
use support::manager::Manager;
use support::owned::{KEPT, Object, config_maps, count, resource};
use support::{Cluster, eventually};

const CONTROLLERS: &str = "--controllers=garbage-collector-controller";
const QUICK: &[&str] = &[CONTROLLERS, "--kube-api-qps=1000", "--kube-api-burst=1000"];
/// So few calls a second that a test sees the manager in the middle of its work. (The collector gets twice as many.)
const SLOW: &[&str] = &[CONTROLLERS, "--kube-api-qps=10", "--kube-api-burst=5"];

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    manager: Manager,
    cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        Self::on(Cluster::start_alone().await).await
    }

    async fn on(cluster: Cluster) -> Self {
        let manager = Manager::start(&cluster.kubeconfig(), QUICK);
        let managed = Self { client: cluster.client(), manager, cluster };
        managed.works("first").await;
        managed
    }

    /// Waits until the manager has collected an object that was made for this.
    async fn works(&self, name: &str) {
        let owner = Object::config_map(&self.client, &format!("{name}-owner"), &[]).await;
        let dependent = Object::config_map(&self.client, name, &[owner.reference()]).await;
        owner.delete(Background).await;
        dependent.goes().await;
    }

    async fn config_map(&self, name: &str, owners: &[Value]) -> Object {
        Object::config_map(&self.client, name, owners).await
    }

    async fn kept(&self, name: &str, owners: &[Value]) -> Object {
        Object::kept_config_map(&self.client, name, owners).await
    }
}

#[tokio::test]
async fn dependents_go_with_the_last_of_their_owners() {
    let managed = Managed::start().await;
    let [one, two] = [managed.config_map("one", &[]).await, managed.config_map("two", &[]).await];
    let of_one = managed.config_map("of-one", &[one.blocking()]).await;
    let of_both = managed.config_map("of-both", &[one.blocking(), two.reference()]).await;
    let below = managed.config_map("below", &[of_one.reference()]).await;
    one.delete(Background).await;
    one.goes().await;
    of_one.goes().await;
    below.goes().await;
    of_both.has_owners(&[&two]).await;
    two.delete(Background).await;
    of_both.goes().await;
}

#[tokio::test]
async fn released_dependents_stay_and_keep_their_other_owners() {
    let managed = Managed::start().await;
    let [owner, other] = [managed.config_map("owner", &[]).await, managed.config_map("other", &[]).await];
    let mut dependents = Vec::new();
    for at in 0..20 {
        dependents.push(managed.config_map(&format!("dependent-{at}"), &[owner.blocking()]).await);
    }
    let shared = managed.config_map("shared", &[owner.blocking(), other.reference()]).await;
    // Only the graph of the manager tells it of the dependents.
    managed.works("later").await;
    owner.delete(Orphan).await;
    owner.goes().await;
    for dependent in &dependents {
        dependent.has_owners(&[]).await;
    }
    shared.has_owners(&[&other]).await;
    managed.works("last").await;
    for dependent in dependents {
        assert!(dependent.stays().await, "{}", dependent.name);
    }
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_stays_until_those_that_block_it_are_gone() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let blocking = managed.kept("blocking", &[owner.blocking()]).await;
    let other = managed.kept("other", &[owner.reference()]).await;
    managed.works("later").await;
    owner.delete(Foreground).await;
    blocking.is_deleted().await;
    other.is_deleted().await;
    managed.works("last").await;
    assert_eq!(owner.finalizers().await, ["foregroundDeletion"]);
    blocking.release().await;
    owner.goes().await;
    assert!(other.get().await.is_some(), "it does not block");
    other.release().await;
    other.goes().await;
}

#[tokio::test]
async fn a_foreground_deletion_goes_down_to_the_last_dependent() {
    let managed = Managed::start().await;
    let top = managed.config_map("top", &[]).await;
    let middle = managed.config_map("middle", &[top.blocking()]).await;
    let bottom = managed.kept("bottom", &[middle.blocking()]).await;
    managed.works("later").await;
    top.delete(Foreground).await;
    bottom.is_deleted().await;
    for waiting in [&top, &middle] {
        waiting.has_finalizers(&["foregroundDeletion"]).await;
    }
    bottom.release().await;
    middle.goes().await;
    top.goes().await;
}

#[tokio::test]
async fn an_owner_that_stays_saves_a_dependent_from_one_that_waits() {
    let managed = Managed::start().await;
    let [waits, stays] = [managed.config_map("waits", &[]).await, managed.config_map("stays", &[]).await];
    let mut shared = Vec::new();
    for at in 0..5 {
        let owners = [waits.blocking(), stays.reference()];
        shared.push(managed.config_map(&format!("shared-{at}"), &owners).await);
    }
    let own = managed.config_map("own", &[waits.blocking()]).await;
    managed.works("later").await;
    waits.delete(Foreground).await;
    waits.goes().await;
    own.goes().await;
    for dependent in shared {
        dependent.has_owners(&[&stays]).await;
        assert!(dependent.stays().await);
    }
}

#[tokio::test]
async fn a_dependent_that_stops_blocking_lets_its_owner_go() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let dependent = managed.kept("dependent", &[owner.blocking()]).await;
    managed.works("later").await;
    owner.delete(Foreground).await;
    dependent.is_deleted().await;
    dependent.patch(json!({ "metadata": { "ownerReferences": [owner.reference()] } })).await;
    owner.goes().await;
    dependent.release().await;
    dependent.goes().await;
}

#[tokio::test]
async fn a_circle_of_dependents_goes_as_a_whole() {
    for policy in [Foreground, Background] {
        let managed = Managed::start().await;
        let mut circle = Vec::new();
        for at in 0..3 {
            circle.push(managed.config_map(&format!("in-circle-{at}"), &[]).await);
        }
        for at in 0..3 {
            let owner: &Object = &circle[(at + 1) % 3];
            circle[at].patch(json!({ "metadata": { "ownerReferences": [owner.blocking()] } })).await;
        }
        managed.works("later").await;
        circle[0].delete(policy).await;
        for object in circle {
            object.goes().await;
        }
    }
}

#[tokio::test]
async fn the_finalizer_of_a_collected_object_says_what_becomes_of_its_dependents() {
    let managed = Managed::start().await;
    let owner = managed.config_map("owner", &[]).await;
    let metadata =
        json!({ "name": "orphaning", "ownerReferences": [owner.reference()], "finalizers": ["orphan"] });
    let orphaning = Object::create(&managed.client, &config_maps(), json!({ "metadata": metadata })).await;
    let dependent = managed.config_map("dependent", &[orphaning.reference()]).await;
    managed.works("later").await;
    owner.delete(Background).await;
    orphaning.goes().await;
    dependent.has_owners(&[]).await;
    managed.works("last").await;
    assert!(dependent.stays().await);
}

#[tokio::test]
async fn an_object_that_another_finalizer_keeps_is_deleted_twice_in_the_foreground() {
    let managed = Managed::start().await;
    let held = managed.kept("held", &[]).await;
    for _ in 0..2 {
        held.delete(Foreground).await;
        held.has_finalizers(&[KEPT]).await;
    }
    held.release().await;
    held.goes().await;
}

#[tokio::test]
async fn many_dependents_go() {
    let managed = Managed::start().await;
    let mut owners = Vec::new();
    for owner in 0..3 {
        let object = managed.config_map(&format!("owner-{owner}"), &[]).await;
        for at in 0..40 {
            managed.config_map(&format!("dependent-{owner}-{at}"), &[object.blocking()]).await;
        }
        owners.push(object);
    }
    managed.works("later").await;
    owners[0].delete(Background).await;
    owners[1].delete(Foreground).await;
    owners[2].delete(Orphan).await;
    for owner in &owners {
        owner.goes().await;
    }
    for (owner, left) in [(0, 0), (1, 0), (2, 40)] {
        let prefix = format!("dependent-{owner}-");
        eventually(&prefix, || async { (count(&managed.client, &prefix).await == left).then_some(()) }).await;
    }
    managed.works("last").await;
    assert_eq!(count(&managed.client, "dependent-").await, 40);
}

/// A Deployment of two pods, which runs.
async fn deployment(client: &kube::Client) -> (Object, kube::api::ApiResource, kube::api::ApiResource) {
    let labels = json!({ "app": "web" });
    let template = json!({
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
    });
    let spec = json!({ "replicas": 2, "selector": { "matchLabels": labels }, "template": template });
    let deployments = resource("apps", "v1", "Deployment", "deployments");
    let manifest = json!({ "metadata": { "name": "web" }, "spec": spec });
    let deployment = Object::create(client, &deployments, manifest).await;
    (deployment, resource("apps", "v1", "ReplicaSet", "replicasets"), resource("", "v1", "Pod", "pods"))
}

/// The number of objects in the client's namespace.
async fn number(client: &kube::Client, of: &kube::api::ApiResource) -> usize {
    let api = kube::Api::<kube::api::DynamicObject>::default_namespaced_with(client.clone(), of);
    api.list_metadata(&kube::api::ListParams::default()).await.unwrap().items.len()
}

#[tokio::test]
async fn what_belongs_to_a_deleted_deployment_goes_or_stays_as_the_deletion_asks() {
    for policy in [Background, Foreground, Orphan] {
        let cluster = Cluster::start_alone().await;
        let client = cluster.client();
        let flags =
            ["--controllers=garbage-collector-controller,deployment-controller,replicaset-controller"];
        let _manager = Manager::start(&cluster.kubeconfig(), &flags);
        let (deployment, sets, pods) = deployment(&client).await;
        eventually("two pods", || async { (number(&client, &pods).await == 2).then_some(()) }).await;
        deployment.delete(policy.clone()).await;
        deployment.goes().await;
        let left = if policy == Orphan { (1, 2) } else { (0, 0) };
        eventually(&format!("{left:?} are left"), || async {
            ((number(&client, &sets).await, number(&client, &pods).await) == left).then_some(())
        })
        .await;
    }
}
