//! `steersman standalone` as a newcomer meets it: one command, and a second terminal.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

#[path = "standalone/claims.rs"]
mod claims;
#[path = "standalone/linearizability.rs"]
mod linearizability;
#[path = "standalone/snapshots.rs"]
mod snapshots;
#[path = "standalone/usage.rs"]
mod usage;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Event, Namespace, Node, Pod, Secret, Service};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, Patch, PatchParams,
    PostParams, PropagationPolicy,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use steersman_node::cri;
use steersman_node::runtime::RuntimeService as _;
use support::budgets::{Budget, evict};
use support::identities::{self, Identities};
use support::jobs::has_condition;
use support::replicas::{Kind, Owner};
use support::{TemporaryFolder, eventually, real};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The process. It is killed when this is dropped.
struct Standalone {
    child: Child,
    greeting: Vec<String>,
    log: tempfile::NamedTempFile,
}

impl Standalone {
    /// Starts it, and returns once it says that it is there.
    async fn start(data: &Path) -> Self {
        Self::start_as(command(data)).await
    }

    async fn start_as(command: Command) -> Self {
        tokio::task::spawn_blocking(move || Self::start_blocking(command)).await.unwrap()
    }

    fn start_blocking(mut command: Command) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut greeting = Vec::new();
        for line in lines {
            let last = line.starts_with("Ctrl-C");
            greeting.push(line);
            if last {
                break;
            }
        }
        let started = Self { child, greeting, log };
        assert!(!started.greeting.is_empty(), "it must start");
        started
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    async fn stop(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        eventually("it ends", || std::future::ready(self.child.try_wait().unwrap())).await
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("its log:\n{}", self.log());
        }
    }
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steersman"));
    command.args(["standalone", "--https-address=127.0.0.1:0", "--node-name=n", "--data-dir"]).arg(data);
    command
}

async fn config(data: &Path) -> kube::Config {
    let kubeconfig = Kubeconfig::read_from(data.join("kubeconfig")).unwrap();
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

async fn client(data: &Path) -> kube::Client {
    kube::Client::try_from(config(data).await).unwrap()
}

/// The Job of the README.
fn example() -> Job {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/job.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

async fn complete(client: &kube::Client, name: &str) -> Job {
    let jobs = Api::<Job>::namespaced(client.clone(), "default");
    eventually("the job is complete", || async {
        let job = jobs.get(name).await.ok()?;
        has_condition(&job, "Complete").then_some(job)
    })
    .await
}

#[tokio::test]
async fn the_example_completes_and_a_second_start_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let kubeconfig = data.join("kubeconfig");
    let greeting = all.greeting.join("\n");
    for part in
        [&*kubeconfig.display().to_string(), "-f examples/job.yaml", "kubectl rollout status deployment/web"]
    {
        assert!(greeting.contains(part), "{part} in {greeting}");
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&kubeconfig)), (0o700, 0o600));

    let before = client(&data).await;
    let jobs = Api::<Job>::namespaced(before.clone(), "default");
    let made = jobs.create(&PostParams::default(), &example()).await.unwrap();
    complete(&before, "four").await;
    let pods = Api::<Pod>::namespaced(before.clone(), "default");
    let of_job = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(of_job.len(), 4);
    let node = Api::<Node>::all(before.clone()).get("n").await.unwrap();
    assert_eq!(node.metadata.labels.unwrap()["kubernetes.io/hostname"], "n");
    let warned: Vec<_> = Api::<Event>::all(before.clone()).list(&ListParams::default()).await.unwrap().items;
    let warned: Vec<_> = warned.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    assert!(warned.is_empty(), "{warned:?}");
    let name = of_job[0].metadata.name.clone().unwrap();
    let log = pods.logs(&name, &LogParams::default()).await.unwrap();
    assert!(log.contains("one of four"), "{log}");
    let events = Api::<Event>::namespaced(before, "default");
    let scheduled = format!("Successfully assigned default/{name} to n");
    eventually("the event of its place", || async {
        let all = events.list(&ListParams::default()).await.ok()?.items;
        all.into_iter().find(|event| event.message.as_deref() == Some(&scheduled))
    })
    .await;
    assert!(all.stop().await.success());
    let log = all.log();
    let alarms = log.lines().filter(|line| line.starts_with(['W', 'E']));
    assert_eq!(alarms.collect::<Vec<_>>(), Vec::<&str>::new(), "a newcomer is not alarmed");

    let mut again = Standalone::start(&data).await;
    let found = complete(&client(&data).await, "four").await;
    assert_eq!(found.metadata.uid, made.metadata.uid);
    assert!(again.stop().await.success());
}

#[tokio::test]
async fn a_pod_without_room_says_so_and_gets_its_place_later() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let pod = json!({
        "metadata": {"name": "picky"},
        "spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "a", "image": "busybox"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let expected = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    eventually("the pod says why it waits", || async {
        let status = pods.get("picky").await.ok()?.status?;
        let told = status.conditions?.into_iter().find(|condition| condition.type_ == "PodScheduled")?;
        (told.status == "False" && told.message.as_deref() == Some(expected)).then_some(())
    })
    .await;
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client);
    let label = kube::api::Patch::Merge(json!({"metadata": {"labels": {"disk": "fast"}}}));
    nodes.patch("n", &Default::default(), &label).await.unwrap();
    eventually("the pod runs", || async {
        (pods.get("picky").await.ok()?.status?.phase? == "Running").then_some(())
    })
    .await;
    assert!(all.stop().await.success());
}

/// A container runtime and kubectl, for root; `None` where one is missing.
#[allow(clippy::disallowed_methods, reason = "that is how a runtime is named")]
fn containers() -> Option<(String, PathBuf)> {
    let endpoint =
        std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty())?;
    let kubectl = real::assets()?.join("kubectl");
    rustix::process::geteuid().is_root().then_some((endpoint, kubectl))
}

/// The container runtime, for one test at a time: an agent ends all pods that it does not know.
static RUNTIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// It must not run beside another agent of that runtime, which would end all pods that it does not know. The runtime must
/// hold the image `docker.io/library/busybox:1.36`.
#[tokio::test]
async fn ordinary_pods_run_in_containers_and_a_second_start_finds_them_running() {
    let Some((endpoint, kubectl)) = containers() else {
        println!("no container runtime and kubectl are named, or this is not root: not run");
        return;
    };
    let _alone = RUNTIME.lock().await;
    let folder = TemporaryFolder::create();
    let data = folder.path().join("data");
    let start = || {
        let mut command = command(&data);
        command.arg("--container-runtime-endpoint").arg(&endpoint);
        Standalone::start_as(command)
    };
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg("--kubeconfig").arg(data.join("kubeconfig")).args(arguments);
        async move {
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }
    };
    let mut all = start().await;
    let before = client(&data).await;
    let jobs = Api::<Job>::namespaced(before.clone(), "default");
    jobs.create(&PostParams::default(), &example()).await.unwrap();
    complete(&before, "four").await;
    let logs = kubectl(&["logs", "-l", "job-name=four"]).await;
    assert!((0..4).all(|index| logs.contains(&format!("index {index} on four-{index}"))), "{logs}");

    let pods = Api::<Pod>::namespaced(before, "default");
    let pod = json!({
        "metadata": {"name": "stays"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "a", "image": "docker.io/library/busybox:1.36", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", "echo up; exec sleep 1000"],
            }],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    kubectl(&["wait", "--for=condition=Ready", "pod/stays", "--timeout=60s"]).await;
    let account = "cd /var/run/secrets/kubernetes.io/serviceaccount && cat namespace && test -s token && test -s ca.crt";
    assert_eq!(kubectl(&["exec", "stays", "--", "sh", "-c", account]).await, "default");
    let found = pods.get("stays").await.unwrap().status.unwrap().container_statuses.unwrap();
    assert!(all.stop().await.success());

    let mut again = start().await;
    assert_eq!(kubectl(&["exec", "stays", "--", "sh", "-c", account]).await, "default");
    assert_eq!(kubectl(&["logs", "stays"]).await, "up\n");
    let pods = Api::<Pod>::namespaced(client(&data).await, "default");
    let still = pods.get("stays").await.unwrap().status.unwrap().container_statuses.unwrap();
    assert_eq!((&still[0].container_id, still[0].restart_count), (&found[0].container_id, 0));
    kubectl(&["delete", "pod/stays", "job/four"]).await;
    eventually("all pods are gone", || async {
        pods.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
    })
    .await;
    assert!(again.stop().await.success());
    clear(&endpoint).await;
}

/// Removes the sandboxes that an agent leaves to its garbage collection.
async fn clear(endpoint: &str) {
    let endpoint = endpoint.parse().expect("the runtime's endpoint must be good");
    let runtime = cri::Client::new(&endpoint, cri::ClientConfig::default()).unwrap();
    for sandbox in runtime.list_pod_sandbox(&Default::default()).await.unwrap() {
        runtime.stop_pod_sandbox(&sandbox.id).await.unwrap();
        runtime.remove_pod_sandbox(&sandbox.id).await.unwrap();
    }
}

#[tokio::test]
async fn a_namespace_has_its_account_and_a_secret_gets_a_token_that_the_server_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let identities = Identities::of(&client);
    let account = eventually("the account `default` exists", || async {
        identities.accounts.get_opt("default").await.ok()?
    })
    .await;
    identities.create_secret("token", "default", json!({})).await;
    let secret = identities.filled("token").await;
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let root_ca =
        eventually("there is a root CA", || async { maps.get_opt("kube-root-ca.crt").await.ok()? }).await;
    assert_eq!(identities::text(&secret, "ca.crt"), root_ca.data.unwrap().remove("ca.crt"));
    let reviewed = identities.review(&identities::text(&secret, "token").unwrap()).await;
    assert_eq!(reviewed.user.and_then(|user| user.uid), account.metadata.uid);
    let labels = identities.secrets.get("token").await.unwrap().metadata.labels.unwrap();
    assert!(labels.contains_key("kubernetes.io/legacy-token-last-used"), "{labels:?}");

    // Labels of an earlier use do not keep the Secret from going with its account, and the account comes back.
    identities.accounts.delete("default", &DeleteParams::default()).await.unwrap();
    identities.gone("token").await;
    eventually("another account", || async {
        let again = identities.accounts.get_opt("default").await.ok()??;
        (again.metadata.uid != account.metadata.uid).then_some(())
    })
    .await;
    assert!(all.stop().await.success());
}

/// What `kubectl create job` and `kubectl create namespace` make, and what becomes of it when it is deleted.
#[tokio::test]
async fn what_is_deleted_goes_with_all_that_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    let team: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    namespaces.create(&PostParams::default(), &team).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "team");
    let root_ca = eventually("pods can be told whom to believe", || async {
        maps.get_opt("kube-root-ca.crt").await.ok().flatten()
    })
    .await;
    assert!(root_ca.data.unwrap()["ca.crt"].starts_with("-----BEGIN CERTIFICATE-----"));

    let jobs = Api::<Job>::namespaced(client.clone(), "team");
    let pods = Api::<Pod>::namespaced(client.clone(), "team");
    let running = || async {
        let found = pods.list(&ListParams::default()).await.ok()?.items;
        let runs =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        found.iter().any(runs).then_some(found)
    };
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
        let job = json!({
            "metadata": {"name": "endless"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox"}],
            }}},
        });
        jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        let found = eventually("its pod runs", running).await;
        let token = found[0].spec.as_ref().unwrap().volumes.iter().flatten().next();
        assert!(token.is_some_and(|volume| volume.projected.is_some()), "pods have a token: {found:?}");
        let orphaned = matches!(policy, PropagationPolicy::Orphan);
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        jobs.delete("endless", &params).await.unwrap();
        eventually("the job is gone", || async {
            jobs.get_opt("endless").await.ok()?.is_none().then_some(())
        })
        .await;
        if orphaned {
            let left = pods.list(&ListParams::default()).await.unwrap().items;
            let owners = left.iter().flat_map(|pod| pod.metadata.owner_references.iter().flatten());
            assert_eq!((left.len(), owners.count()), (1, 0), "it is let go, and stays");
        } else {
            eventually("its pod is gone", || async {
                pods.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
            })
            .await;
        }
    }

    let secrets = Api::<Secret>::namespaced(client.clone(), "team");
    let secret = serde_json::from_value(json!({"metadata": {"name": "s"}})).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    eventually("the namespace is gone", || async {
        namespaces.get_opt("team").await.ok()?.is_none().then_some(())
    })
    .await;
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(all.stop().await.success());
}

/// The Deployment and the Service of the README.
fn web() -> (Deployment, Service) {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/web.yaml")).unwrap();
    let (deployment, service) = text.split_once("\n---\n").unwrap();
    (serde_saphyr::from_str(deployment).unwrap(), serde_saphyr::from_str(service).unwrap())
}

/// Waits until all pods of the Deployment `web` have its current template, and are available.
async fn rolled_out(deployments: &Api<Deployment>) {
    eventually("web is rolled out", || async {
        let web = deployments.get("web").await.ok()?;
        let status = web.status?;
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        (status.observed_generation == web.metadata.generation && counts == [Some(3); 3]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_example_is_rolled_out_and_its_deletion_takes_all_that_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let sets = Api::<ReplicaSet>::default_namespaced(client.clone());
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let (web, service) = web();
    let services = Api::<Service>::default_namespaced(client.clone());
    services.create(&PostParams::default(), &service).await.unwrap();
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
        deployments.create(&PostParams::default(), &web).await.unwrap();
        rolled_out(&deployments).await;
        let endpoints = Api::<Endpoints>::default_namespaced(client.clone());
        eventually("the Service has three endpoints", || async {
            let subsets = endpoints.get("web").await.ok()?.subsets?;
            let addresses = subsets.iter().flat_map(|subset| subset.addresses.iter().flatten());
            (addresses.count() == 3).then_some(())
        })
        .await;
        let restarted = json!({"example.com/restarted": "now"});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": restarted}}}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        rolled_out(&deployments).await;
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
        if let Some(kubectl) =
            real::assets().map(|assets| assets.join("kubectl")).filter(|path| path.exists())
        {
            let mut command = Command::new(kubectl);
            command.arg("--kubeconfig").arg(data.join("kubeconfig"));
            command.args(["rollout", "status", "deployment/web", "--timeout=60s"]);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("deployment \"web\" successfully rolled out"), "{output:?}");
        }

        let is_orphaned = matches!(policy, PropagationPolicy::Orphan);
        let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
        deployments.delete("web", &params).await.unwrap();
        eventually("web is gone", || async {
            deployments.get_opt("web").await.ok()?.is_none().then_some(())
        })
        .await;
        if is_orphaned {
            let left = sets.list(&ListParams::default()).await.unwrap().items;
            let owners = left.iter().flat_map(|set| set.metadata.owner_references.iter().flatten());
            assert_eq!((left.len(), owners.count()), (2, 0), "the ReplicaSets are released, and stay");
            assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 3);
            continue;
        }
        eventually(&format!("{policy:?}: its ReplicaSets and pods are gone"), || async {
            let sets = sets.list(&ListParams::default()).await.ok()?.items;
            let pods = pods.list(&ListParams::default()).await.ok()?.items;
            (sets.is_empty() && pods.is_empty()).then_some(())
        })
        .await;
    }
    assert!(all.stop().await.success());
}

#[tokio::test]
async fn the_revisions_and_pods_of_a_deleted_set_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let revisions = Api::<ControllerRevision>::default_namespaced(client.clone());
    let pods = Api::<Pod>::default_namespaced(client.clone());
    for (kind, own, ready) in [
        ("StatefulSet", json!({"replicas": 2, "serviceName": "db"}), json!({"readyReplicas": 2})),
        // One for the only node.
        ("DaemonSet", json!({}), json!({"numberReady": 1})),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
        let sets = Api::<DynamicObject>::default_namespaced_with(client.clone(), &resource);
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db"}, "spec": own,
        });
        set["spec"]["selector"] = json!({"matchLabels": {"app": "db"}});
        set["spec"]["template"] = json!({
            "metadata": {"labels": {"app": "db"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "a", "image": "busybox"}]},
        });
        let set: DynamicObject = serde_json::from_value(set).unwrap();
        let (field, count) = ready.as_object().unwrap().iter().next().unwrap();
        for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
            sets.create(&PostParams::default(), &set).await.unwrap();
            eventually(&format!("the pods of the {kind} are ready"), || async {
                (sets.get("db").await.ok()?.data["status"][field] == *count).then_some(())
            })
            .await;
            assert_eq!(revisions.list(&ListParams::default()).await.unwrap().items.len(), 1);
            let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
            sets.delete("db", &params).await.unwrap();
            eventually(&format!("{policy:?}: the {kind}, its revision and its pods are gone"), || async {
                let set = sets.get_opt("db").await.ok()?;
                let revisions = revisions.list(&ListParams::default()).await.ok()?.items;
                let pods = pods.list(&ListParams::default()).await.ok()?.items;
                (set.is_none() && revisions.is_empty() && pods.is_empty()).then_some(())
            })
            .await;
        }
    }
    assert!(all.stop().await.success());
}

#[tokio::test]
async fn a_drain_waits_for_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web().0).await.unwrap();
    rolled_out(&deployments).await;
    let budget = Budget::create(&client, "web", "web", json!({"maxUnavailable": 1})).await;
    budget.reports([1, 3, 2, 3]).await;
    let pods = Api::<Pod>::default_namespaced(client);
    let found = pods.list(&ListParams::default()).await.unwrap().items;
    for pod in &found {
        eventually("the budget allows the eviction", || async {
            evict(&pods, pod.metadata.name.as_ref()?).await.ok()
        })
        .await;
    }
    budget.reports([1, 3, 2, 3]).await;
    assert!(all.stop().await.success());
}

/// The pods of owners that keep their number: no pod is made to replace one that goes with its owner.
#[tokio::test]
async fn the_pods_of_a_deleted_replica_set_go_or_stay_as_its_deletion_asks() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    for kind in Kind::ALL {
        for policy in
            [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan]
        {
            let name = format!("{}-{policy:?}", kind.name()).to_lowercase();
            let owner = Owner::create(&client, kind, &name, 2).await;
            let pods = owner.has(2).await;
            owner.reports(json!({"replicas": 2, "readyReplicas": 2})).await;
            owner.delete(policy.clone()).await;
            eventually(&format!("{name} is gone"), || async {
                owner.api.get_opt(&name).await.ok()?.is_none().then_some(())
            })
            .await;
            if !matches!(policy, PropagationPolicy::Orphan) {
                eventually(&format!("the pods of {name} are gone"), || async {
                    owner.labelled().await.is_empty().then_some(())
                })
                .await;
                continue;
            }
            // Another owner of the same name takes over the pods that were released.
            let heir = Owner::create(&client, kind, &name, 2).await;
            assert_eq!(heir.has(2).await, pods);
        }
    }
    assert!(all.stop().await.success());
}

#[tokio::test]
async fn what_was_acknowledged_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut made: Vec<String> = Vec::new();
    for round in 0..3 {
        let mut all = Standalone::start(&data).await;
        let maps = Api::<ConfigMap>::namespaced(client(&data).await, "default");
        let there = maps.list(&ListParams::default()).await.unwrap().items;
        let there: Vec<_> = there.into_iter().filter_map(|map| map.metadata.name).collect();
        let lost: Vec<_> = made.iter().filter(|name| !there.contains(name)).collect();
        assert!(lost.is_empty(), "lost in round {round}: {lost:?}");
        for number in 0.. {
            let name = format!("r{round}-{number}");
            let map = json!({"metadata": {"name": name}, "data": {"k": "v"}});
            let map = serde_json::from_value(map).unwrap();
            match maps.create(&PostParams::default(), &map).await {
                Ok(_) => made.push(name),
                Err(_) => break,
            }
            if number == 20 {
                // It dies at some moment of those that follow.
                kill_process(Pid::from_child(&all.child), Signal::KILL).unwrap();
            }
        }
        let _ = all.child.wait();
    }
    assert!(made.len() >= 60);
}

/// A disk of 32 MiB, unmounted when this is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where the user may not mount.
    fn mount() -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(at.path()).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(at))
    }

    /// Another program takes all that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.path().join("log")).unwrap();
        let mut piece = vec![1; 1 << 20];
        while !piece.is_empty() {
            if file.write(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn it_starts_on_a_full_disk_so_that_something_can_be_deleted() {
    let Some(disk) = SmallDisk::mount() else {
        println!("no disk can be mounted, which takes root: not run");
        return;
    };
    let data = disk.0.path().join("data");
    let map = |name: String| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v".repeat(500_000)}}))
            .unwrap()
    };
    let mut all = Standalone::start(&data).await;
    let maps = Api::<ConfigMap>::namespaced(client(&data).await, "default");
    maps.create(&PostParams::default(), &map("old".to_owned())).await.unwrap();
    assert!(all.stop().await.success());
    disk.fill();

    let mut again = Standalone::start(&data).await;
    let maps = Api::<ConfigMap>::namespaced(client(&data).await, "default");
    let mut number = 0;
    let refused = loop {
        number += 1;
        match maps.create(&PostParams::default(), &map(format!("new-{number}"))).await {
            Ok(_) => assert!(number < 100, "the disk must be full at some time"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("etcdserver: mvcc: database space exceeded"), "{refused}");
    maps.delete("old", &DeleteParams::default()).await.unwrap();
    assert!(again.stop().await.success());
}

#[tokio::test]
async fn what_keeps_it_from_starting_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let refused = |mut command: Command| async move {
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let second = refused(command(&data)).await;
    assert!(second.contains("another server is using it"), "{second}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut other = Command::new(env!("CARGO_BIN_EXE_steersman"));
    other.args(["standalone", "--https-address", &address, "--data-dir"]).arg(folder.path().join("other"));
    let port = refused(other).await;
    assert!(port.contains(&format!("serving at {address}: Address already in use")), "{port}");
    assert!(all.stop().await.success());

    let database = redb::Database::open(data.join("store.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let facts: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("facts");
    transaction.open_table(facts).unwrap().insert("format", 1000).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let newer = refused(command(&data)).await;
    assert!(newer.contains("it was written by a newer version (format 1000, this one knows "), "{newer}");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Standalone::start(&folder.path().join("data")).await;
    // Stopped, so that both signals are there when it goes on.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(Pid::from_child(&all.child), signal).unwrap();
    }
    let ended = eventually("it ends", || std::future::ready(all.child.try_wait().unwrap())).await;
    assert_eq!(ended.code(), Some(1));
    assert!(all.log().contains("Ending at once"), "{}", all.log());
}

#[tokio::test]
async fn metrics_and_health_are_served_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&folder.path().join("data"));
    command.arg("--http-address=127.0.0.1:0");
    let mut all = Standalone::start_as(command).await;
    let log = all.log();
    let (_, rest) = log.split_once("address=\"").expect("it says where");
    let address = rest.split('"').next().unwrap().to_owned();
    let get = |path: &'static str| {
        let address = address.clone();
        async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    };
    assert!(get("/healthz").await.contains(" 200 OK"));
    let ready = || async { get("/readyz").await.contains(" 200 OK").then_some(()) };
    eventually("the controllers are ready", ready).await;
    let metrics = get("/metrics").await;
    for name in
        ["workqueue_adds_total", "rest_client_requests_total", "kubelet_", "process_resident_memory_bytes"]
    {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    assert!(all.stop().await.success());
}

#[tokio::test]
async fn simulated_containers_end_with_the_process_and_a_second_start_restarts_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let pods = Api::<Pod>::namespaced(client(&data).await, "default");
    let pod = steersman_testing::pod("p").build();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let running = || async { (pods.get("p").await.ok()?.status?.phase? == "Running").then_some(()) };
    eventually("the pod runs", running).await;
    let restarts =
        |pod: &Pod| pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count;
    assert_eq!(restarts(&pods.get("p").await.unwrap()), 0);
    assert!(all.stop().await.success());

    // Simulated containers end with the process: the next one restarts them, as after a reboot of the machine.
    let mut again = Standalone::start(&data).await;
    let pods = Api::<Pod>::namespaced(client(&data).await, "default");
    eventually("the pod runs again", || async {
        let pod = pods.get("p").await.ok()?;
        let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?.clone();
        (status.restart_count == 1 && status.ready).then_some(())
    })
    .await;
    assert!(again.stop().await.success());
}
