//! Workloads in real containers, steered with kubectl: a real control plane without its own controller manager, a kubelet, a
//! container runtime.
//!
//! These tests run where `KUBECONFIG` names such a cluster, `CONTAINER_RUNTIME_ENDPOINT` its runtime and `KUBEBUILDER_ASSETS` the
//! folder of Kubernetes' programs; elsewhere they say that they do not. The node must hold the images
//! `docker.io/library/busybox:1.36` and `docker.io/library/busybox:latest`, and see this machine's files.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "containers/drain.rs"]
mod drain;
#[path = "containers/jobs.rs"]
mod jobs;
#[path = "containers/rollouts.rs"]
mod rollouts;

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::eventually;
use support::kubectl::Kubectl;
use support::manager::Manager;
use support::replicas::{is_active, is_ready, name_of};
use tokio::sync::{Mutex, MutexGuard};

const IMAGE: &str = "docker.io/library/busybox:1.36";
/// Another name of the same image.
const OTHER_IMAGE: &str = "docker.io/library/busybox:latest";

/// All controllers but the one that binds claims to volumes, which is upstream's where a test needs it.
const CONTROLLERS: &str = "--controllers=*,-persistentvolume-binder-controller";

/// The cluster with a manager at work, and a namespace that no other test uses. Managers see all namespaces, so that one test
/// runs at a time.
struct Stage {
    _manager: Manager,
    kubectl: Kubectl,
    pods: Api<Pod>,
    kubeconfig: PathBuf,
    assets: PathBuf,
    namespace: String,
    node: String,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// Waits for its turn. `None`, with a message, if no cluster with containers is named.
    async fn enter(name: &str) -> Option<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        let Some((kubeconfig, assets)) = cluster() else {
            println!("no cluster with containers is named: not run");
            return None;
        };
        let turn = TURN.lock().await;
        let namespace = format!("{name}-{}", steersman_api::Time::now().seconds());
        let kubectl = Kubectl::find(&kubeconfig, &namespace)?;
        kubectl.run(&format!("create namespace {namespace}")).await;
        let mut config =
            steersman_client::config_from(Some(&kubeconfig), None).expect("the kubeconfig must be good");
        config.default_namespace.clone_from(&namespace);
        let client = kube::Client::try_from(config).expect("a client must be made");
        let node = ready_node(&client).await;
        let manager = Manager::start(&kubeconfig, &[CONTROLLERS]);
        let pods = Api::default_namespaced(client);
        Some(Self { _manager: manager, kubectl, pods, kubeconfig, assets, namespace, node, _turn: turn })
    }

    /// Deletes what the test has created, and waits until no container of it runs.
    async fn leave(self) {
        // Whether or not a garbage collector runs.
        for kinds in ["deployments,statefulsets,daemonsets,jobs,poddisruptionbudgets", "replicasets", "pods"]
        {
            self.kubectl.run(&format!("delete {kinds} --all --wait=false")).await;
        }
        eventually("all pods are gone", || async { self.all_pods().await.is_empty().then_some(()) }).await;
    }

    async fn all_pods(&self) -> Vec<Pod> {
        self.pods.list(&ListParams::default()).await.expect("pods must be listed").items
    }

    /// The uids of the pods that are ready and not being deleted, by name.
    async fn ready_pods(&self) -> Vec<(String, Option<String>)> {
        let pods = self.all_pods().await.into_iter().filter(|pod| is_active(pod) && is_ready(pod));
        pods.map(|pod| (name_of(&pod), pod.metadata.uid)).collect()
    }

    /// The value of a variable in the container of the first ready pod.
    async fn variable(&self, name: &str) -> String {
        let (pod, _) = self.ready_pods().await.remove(0);
        let value = self.kubectl.run(&format!("exec {pod} -- sh -c echo${{IFS}}${name}")).await;
        value.trim().to_owned()
    }
}

#[allow(clippy::disallowed_methods, reason = "that is how a cluster is named")]
fn cluster() -> Option<(PathBuf, PathBuf)> {
    std::env::var_os("CONTAINER_RUNTIME_ENDPOINT").filter(|endpoint| !endpoint.is_empty())?;
    let kubeconfig = std::env::var_os("KUBECONFIG").map(PathBuf::from)?;
    Some((kubeconfig, support::real::assets()?))
}

/// The name of the cluster's node, which takes pods once this returns: a node keeps its first taint until a node lifecycle
/// controller takes it off, and the manager may have none.
async fn ready_node(client: &kube::Client) -> String {
    let nodes = Api::<Node>::all(client.clone());
    let node = nodes.list(&ListParams::default()).await.expect("nodes must be listed").items.remove(0);
    let name = node.metadata.name.expect("a node has a name");
    let free = Patch::Merge(json!({ "spec": { "taints": null } }));
    nodes.patch(&name, &PatchParams::default(), &free).await.expect("a node must be patched");
    name
}

/// A template of pods with the label `app` of this value, whose containers run a shell command.
fn template(app: &str, command: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", command],
            }],
        },
    })
}

/// A workload of the group apps with such a [template].
fn workload(kind: &str, name: &str, spec: Value, command: &str) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    workload["spec"]["selector"] = json!({ "matchLabels": { "app": name } });
    workload["spec"]["template"] = template(name, command);
    workload
}
