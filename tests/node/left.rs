//! What pods leave behind: nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use steersman_node::cri::v1;
use steersman_node::runtime::RuntimeService as _;
use tokio::time::Instant;

use crate::cgroups::Cgroups;
use crate::world::World;
use support::{eventually, lines, patience};

/// Where a CNI plugin's results are kept, with the network namespaces they are of.
const NETWORK_RESULTS: &str = "/var/lib/cni/results";

/// Where addresses are kept, each with the sandbox that has it.
const ADDRESSES: &str = "/var/lib/cni/networks";

const NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// What was seen of the sandboxes of this run.
#[derive(Default)]
pub struct Seen {
    sandboxes: BTreeSet<String>,
    network_namespaces: BTreeSet<PathBuf>,
}

impl Seen {
    /// Remembers what is there now.
    pub async fn look(&mut self, world: &World) {
        let sandboxes = sandboxes(world).await;
        self.sandboxes.extend(sandboxes.into_iter().map(|sandbox| sandbox.id));
        for file in files(Path::new(NETWORK_RESULTS)) {
            let Ok(result) = fs::read(&file) else { continue };
            let Ok(result) = serde_json::from_slice::<serde_json::Value>(&result) else { continue };
            let of = result["containerId"].as_str().unwrap_or_default();
            if self.sandboxes.contains(of) {
                let interfaces = result["result"]["interfaces"].as_array().into_iter().flatten();
                let namespaces = interfaces.filter_map(|interface| interface["sandbox"].as_str());
                self.network_namespaces.extend(namespaces.filter(|path| !path.is_empty()).map(PathBuf::from));
            }
        }
    }

    /// Waits until nothing of the test's pods and of all that was seen is left. Dead sandboxes go some seconds after.
    pub async fn wait_until_gone(&self, world: &World) {
        let deadline = Instant::now() + patience() * 5 / 2;
        loop {
            let left = self.left(world).await;
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "what is left after the last pod:\n{}", lines(left));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn left(&self, world: &World) -> Vec<String> {
        let mut left = Vec::new();
        let sandboxes = sandboxes(world).await;
        left.extend(sandboxes.iter().map(|sandbox| format!("sandbox {}", sandbox.id)));
        left.extend(containers(world).await.iter().map(|container| format!("container {}", container.id)));
        let agent = &world.agent;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let root = agent.root();
        left.extend(
            // The agent's folder itself is a mount for good.
            mounts
                .filter(|path| Path::new(path).starts_with(&root) && Path::new(path) != root)
                .map(|path| format!("mount {path}")),
        );
        for folder in [root.join("pods"), agent.logs()] {
            left.extend(files(&folder).iter().map(|path| format!("folder {}", path.display())));
        }
        let links = files(Path::new("/var/log/containers"));
        let mine = links
            .iter()
            .filter(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(agent.logs())));
        left.extend(mine.map(|link| format!("link {}", link.display())));
        left.extend(world.cgroups.slices_of_pods().iter().map(|slice| format!("slice {slice}")));
        for group in world.cgroups.folders() {
            let mut below = Vec::new();
            descend(&group, &mut below);
            let pods = below.iter().filter(|path| {
                path.file_name().is_some_and(|name| world.cgroups.is_of_pod(&name.to_string_lossy()))
            });
            left.extend(pods.map(|path| format!("control group {}", path.display())));
        }
        let namespaces = self.network_namespaces.iter().filter(|path| path.exists());
        left.extend(namespaces.map(|path| format!("network namespace {}", path.display())));
        let mut network = files(Path::new(NETWORK_RESULTS));
        files(Path::new(ADDRESSES)).iter().for_each(|folder| network.extend(files(folder)));
        for file in network {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if self.sandboxes.iter().any(|sandbox| text.contains(sandbox)) {
                left.push(format!("of the network {}", file.display()));
            }
        }
        left
    }
}

/// When the last test has ended, its pods and those of all others leave nothing.
pub async fn nothing_is_left_when_all_pods_are_gone(world: &World) {
    let mut seen = Seen::default();
    seen.look(world).await;
    let pods = Api::<Pod>::all(world.client("default"));
    eventually("all pods are gone", || async {
        let pods = pods.list(&ListParams::default()).await.ok()?;
        pods.items.is_empty().then_some(())
    })
    .await;
    seen.wait_until_gone(world).await;
}

/// Makes the group that is all tests' own.
pub fn make_cgroup(cgroups: &Cgroups) {
    for group in cgroups.folders() {
        fs::create_dir_all(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        let parent = group.parent().expect("it is in a hierarchy");
        // A group of processors is empty until somebody fills it in, and takes no process before.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(all) = fs::read_to_string(parent.join(file))
                && !group.join("cgroup.controllers").exists()
            {
                let _ = fs::write(group.join(file), all);
            }
        }
    }
}

/// Takes away, past the agent, what is left of this run, so that a failure does no harm to the next one.
pub async fn remove(world: &World) {
    let pods = Api::<Pod>::all(world.client("default"));
    for pod in pods.list(&ListParams::default()).await.into_iter().flatten() {
        let own = Api::<Pod>::namespaced(world.client("default"), pod.metadata.namespace.as_deref().unwrap());
        let now = DeleteParams::default().grace_period(0);
        let _ = own.delete(pod.metadata.name.as_deref().unwrap(), &now).await;
    }
    for container in containers(world).await {
        let _ = world.runtime.remove_container(&container.id).await;
    }
    for sandbox in sandboxes(world).await {
        let _ = world.runtime.stop_pod_sandbox(&sandbox.id).await;
        let _ = world.runtime.remove_pod_sandbox(&sandbox.id).await;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = world.agent.root();
    for path in mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)) {
        if Path::new(path).starts_with(&root) {
            let _ = std::process::Command::new("umount").args(["-l", path]).status();
        }
    }
    world.cgroups.stop();
    for group in world.cgroups.folders() {
        let mut below = Vec::new();
        descend(&group, &mut below);
        below.iter().rev().chain([&group]).for_each(|path| drop(fs::remove_dir(path)));
    }
}

async fn sandboxes(world: &World) -> Vec<v1::PodSandbox> {
    let all = world.runtime.list_pod_sandbox(&v1::PodSandboxFilter::default()).await;
    let mut all = all.expect("the runtime must answer");
    all.retain(|sandbox| is_mine(world, sandbox.labels.get(NAMESPACE)));
    all
}

async fn containers(world: &World) -> Vec<v1::Container> {
    let all = world.runtime.list_containers(&v1::ContainerFilter::default()).await;
    let mut all = all.expect("the runtime must answer");
    all.retain(|container| is_mine(world, container.labels.get(NAMESPACE)));
    all
}

fn is_mine(world: &World, namespace: Option<&String>) -> bool {
    namespace.is_some_and(|namespace| namespace.starts_with(&format!("{}-", world.prefix)))
}

/// The folders below one, each after the one it is in.
fn descend(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in files(folder) {
        if path.is_dir() && !path.is_symlink() {
            found.push(path.clone());
            descend(&path, found);
        }
    }
}

/// What is in a folder; nothing where there is none.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
