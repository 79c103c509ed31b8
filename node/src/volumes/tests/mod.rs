//! Volumes on a real disk, with real mounts where the machine lets us.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::Uid;
use tempfile::TempDir;

use super::claims::Claims;
use super::disk::mounts;
use super::tokens::{TokenManager, TokenSource};
use super::*;
use crate::events::testing::Kept;
use crate::node_info::NodeInfo;
use crate::objects::{ObjectError, Objects};
use crate::root_dir::RootDir;

mod contents;
mod failures;
mod local_volumes;
mod persistent;
mod removal;
mod sub_paths;

/// Whether mounts and owners can be tested; says so if not.
pub(in crate::volumes) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not root: what needs mounts or other owners is skipped");
    }
    root
}

/// A folder for a test, without mounts at its end.
struct Folder(TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        for mount in mounts::below(self.0.path()).unwrap_or_default().into_iter().rev() {
            let _ = mounts::unmount_all(&mount);
        }
    }
}

/// A node with objects that the test says.
struct Bench {
    folder: Folder,
    root: RootDir,
    objects: Arc<Scripted>,
    events: Arc<Kept>,
    volumes: VolumeManager,
}

/// Objects, tokens and node.
#[derive(Default)]
struct Scripted {
    config_maps: Mutex<HashMap<String, Arc<ConfigMap>>>,
    secrets: Mutex<HashMap<String, Arc<Secret>>>,
    claims: Mutex<HashMap<String, PersistentVolumeClaim>>,
    volumes: Mutex<HashMap<String, PersistentVolume>>,
    /// How many claims and volumes were read.
    reads: AtomicUsize,
}

#[async_trait]
impl Claims for Scripted {
    async fn claim(&self, _: &str, name: &str) -> Result<PersistentVolumeClaim, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let claim = self.claims.lock().get(name).cloned();
        claim.ok_or_else(|| missing("persistentvolumeclaims", name).to_string())
    }
    async fn volume(&self, name: &str) -> Result<PersistentVolume, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let volume = self.volumes.lock().get(name).cloned();
        volume.ok_or_else(|| missing("persistentvolumes", name).to_string())
    }
}

fn missing(kind: &str, name: &str) -> ObjectError {
    ObjectError::NotFound(format!("{kind} {name:?} not found"))
}

#[async_trait]
impl Objects for Scripted {
    async fn config_map(&self, _: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        self.config_maps.lock().get(name).cloned().ok_or_else(|| missing("configmap", name))
    }
    async fn secret(&self, _: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        self.secrets.lock().get(name).cloned().ok_or_else(|| missing("secret", name))
    }
    fn register(&self, _: &Pod) {}
    fn unregister(&self, _: &Pod) {}
}

#[async_trait]
impl TokenSource for Scripted {
    async fn request(&self, _: &str, account: &str, asked: &TokenRequest) -> Result<TokenRequest, String> {
        let mut answer = serde_json::to_value(asked).unwrap();
        let audience = answer["spec"]["audiences"][0].as_str().unwrap_or("api").to_owned();
        answer["status"] = json!({ "token": format!("{account} for {audience}"), "expirationTimestamp": "2100-01-01T00:00:00Z" });
        Ok(serde_json::from_value(answer).unwrap())
    }
}

impl NodeInfo for Scripted {
    fn name(&self) -> &str {
        "n1"
    }
    fn node(&self) -> Option<Arc<Node>> {
        let node = json!({ "metadata": { "name": "n1", "labels": { "kubernetes.io/hostname": "n1" } } });
        Some(Arc::new(read(node)))
    }
    fn host_ips(&self) -> Vec<String> {
        Vec::new()
    }
    fn allocatable(&self) -> BTreeMap<String, Quantity> {
        [("cpu", "2"), ("memory", "64Mi")]
            .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
            .into()
    }
}

impl Bench {
    fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        let root = RootDir::new(folder.0.path().join("kubelet"));
        let (objects, events) = (Arc::new(Scripted::default()), Arc::new(Kept::default()));
        let volumes = manager(&root, &objects, &events, Rights::All);
        Self { folder, root, objects, events, volumes }
    }

    /// As after a restart of the agent.
    fn restart(&mut self) {
        self.volumes = manager(&self.root, &self.objects, &self.events, Rights::All);
    }

    /// As started by an ordinary user.
    fn without_rights(&mut self) {
        self.volumes = manager(&self.root, &self.objects, &self.events, Rights::Ordinary);
    }

    /// A folder outside of the node's own.
    fn outside(&self, name: &str) -> PathBuf {
        let path = self.folder.0.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn set_config_map(&self, name: &str, data: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        self.objects
            .config_maps
            .lock()
            .insert(name.to_owned(), Arc::new(read(json!({ "metadata": {}, "data": data }))));
    }

    fn set_secret(&self, name: &str, data: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        let mut secret: Secret = read(json!({ "metadata": {} }));
        secret.data = Some(
            data.into_iter()
                .map(|(key, text)| (key.to_owned(), k8s_openapi::ByteString(text.into())))
                .collect(),
        );
        self.objects.secrets.lock().insert(name.to_owned(), Arc::new(secret));
    }

    /// A claim `name`, bound to a volume `pv-<name>` with that source and more members of its spec.
    fn set_claim(&self, name: &str, source: Value, members: Value) {
        let claim = json!({
            "metadata": { "name": name, "namespace": "default", "uid": format!("uid-of-{name}") },
            "spec": { "volumeName": format!("pv-{name}") },
            "status": { "phase": "Bound" },
        });
        let mut spec = json!({ "claimRef": { "uid": format!("uid-of-{name}") } });
        for more in [source, members] {
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        let volume = json!({ "metadata": { "name": format!("pv-{name}") }, "spec": spec });
        self.objects.claims.lock().insert(name.to_owned(), read(claim));
        self.objects.volumes.lock().insert(format!("pv-{name}"), read(volume));
    }

    /// Where a volume of the pod is.
    fn path(&self, volume: &str) -> PathBuf {
        self.volumes.mounted(&uid())[volume].path.clone()
    }

    fn text(&self, volume: &str, file: &str) -> String {
        std::fs::read_to_string(self.path(volume).join(file)).unwrap()
    }

    fn messages(&self) -> Vec<String> {
        self.events.all().into_iter().map(|said| format!("{} {}", said.reason, said.message)).collect()
    }
}

fn manager(root: &RootDir, objects: &Arc<Scripted>, events: &Arc<Kept>, rights: Rights) -> VolumeManager {
    let now: tokens::WallClock = Arc::new(|| Timestamp::UNIX_EPOCH);
    VolumeManager::new(Parts {
        root: root.clone(),
        objects: objects.clone(),
        claims: objects.clone(),
        tokens: Arc::new(TokenManager::new(objects.clone(), now.clone())),
        node: objects.clone(),
        events: events.clone(),
        now,
        metrics: Metrics::new(),
        rights,
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON of a test must fit its type")
}

fn uid() -> Uid {
    Uid::from("u-1")
}

/// A pod whose container mounts all of the volumes, under their own names.
fn pod(volumes: Value) -> Arc<Pod> {
    pod_with(volumes, json!({}))
}

/// Likewise, with more members of its spec.
fn pod_with(volumes: Value, members: Value) -> Arc<Pod> {
    let names = volumes.as_array().unwrap().iter().map(|volume| &volume["name"]);
    let mounts: Vec<_> = names.map(|name| json!({ "name": name, "mountPath": name })).collect();
    let mut spec = json!({
        "serviceAccountName": "robot",
        "containers": [{ "name": "c", "volumeMounts": mounts, "resources": { "requests": { "cpu": "250m" } } }],
        "volumes": volumes,
    });
    spec.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Arc::new(read(json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "u-1", "labels": { "app": "web" } },
        "spec": spec,
    })))
}

/// A pod of that uid whose container mounts the claim as `data`, with more members of its spec.
fn claiming(uid: &str, claim: &str, members: Value) -> Arc<Pod> {
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    let mut pod = pod_with(volumes, members);
    Arc::make_mut(&mut pod).metadata.uid = Some(uid.to_owned());
    pod
}

/// Permissions of a file or folder.
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Owner and group.
fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(path).unwrap();
    (meta.uid(), meta.gid())
}
