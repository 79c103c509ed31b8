//! The volumes of all pods of the node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, VolumeMount};
use parking_lot::Mutex;
use prometheus::Registry;
use steersman_api::Uid;

use super::adoption::{self, ContainerMounts};
use super::claims::Claims;
use super::count::VolumeCount;
use super::disk::{DiskError, names, nested, sub_path};
use super::error::{MountError, Orphans, UnmountError};
use super::metrics::Metrics;
use super::mounting::{mount_error, unprocessed_message};
use super::one_pod::OnePodVolumes;
use super::path_locks::PathLocks;
use super::state::{PodVolumes, VolumeState, on_disk};
use super::tear_down;
use super::tokens::{TokenManager, WallClock};
use super::{MountedVolume, MountedVolumes, Rights};
use crate::events::{EventType, Events, pod_reference};
use crate::node_info::NodeInfo;
use crate::objects::Objects;
use crate::root_dir::RootDir;

/// Why [`VolumeManager::mount`] was not done: its events.
const FAILED_MOUNT: &str = "FailedMount";

/// What a volume manager works with.
pub struct Parts {
    /// Where pods' folders are.
    pub root: RootDir,
    /// Config maps and secrets. Pods are registered there by whoever syncs them, before their volumes are mounted.
    pub objects: Arc<dyn Objects>,
    /// Claims of pods, and the volumes that they are bound to.
    pub claims: Arc<dyn Claims>,
    /// Tokens of service accounts.
    pub tokens: Arc<TokenManager>,
    /// For the downward API, the size of volumes in memory, and the node affinity of persistent volumes.
    pub node: Arc<dyn NodeInfo>,
    /// Told of failures.
    pub events: Events,
    /// Names the folders of files that change.
    pub now: WallClock,
    /// Where it is counted.
    pub metrics: Metrics,
    /// What may be done on disk.
    pub rights: Rights,
}

/// Makes, fills, refreshes and removes the volumes of pods. Cheap to clone.
///
/// A pod is synced by one caller at a time. All that happens on disk for one pod happens one after the other, in threads
/// that may block; what a dropped [`mount`](Self::mount) had not begun there is not done any more, so that nothing comes
/// after an [`unmount`](Self::unmount).
#[derive(Clone)]
pub struct VolumeManager {
    pub(super) shared: Arc<Shared>,
}

/// What all clones of a volume manager share.
pub(super) struct Shared {
    pub(super) parts: Parts,
    /// Those that were mounted since the start, until they are unmounted.
    pub(super) pods: Mutex<HashMap<Uid, Arc<PodVolumes>>>,
    /// Pods that ended and left volumes of foreign plugins on disk. The log says so once.
    left: Mutex<HashSet<Uid>>,
    /// For folders that several pods have mounted.
    pub(super) locks: Arc<PathLocks>,
    /// Persistent volumes that only one pod may have mounted.
    pub(super) one_pod: Arc<OnePodVolumes>,
}

impl VolumeManager {
    /// Of pods that it knows nothing of yet; their volumes may be on disk.
    pub fn new(parts: Parts) -> Self {
        let shared = Shared {
            parts,
            pods: Mutex::default(),
            left: Mutex::default(),
            locks: Arc::default(),
            one_pod: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Makes and fills the volumes that the pod's containers mount, and brings files up to date whose objects changed. To be
    /// called at each sync. A volume that failed is left alone for its back-off; one that was made and can't be refreshed
    /// is told of by events only.
    ///
    /// # Errors
    /// Not all volumes are there; events say why.
    pub async fn mount(&self, pod: &Arc<Pod>) -> Result<(), MountError> {
        let uid = uid_of(pod);
        let used: BTreeSet<&str> = used_volumes(pod);
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let volumes: Vec<_> = volumes.filter(|volume| used.contains(volume.name.as_str())).collect();
        if volumes.is_empty() {
            return Ok(());
        }
        let state = Arc::clone(self.shared.pods.lock().entry(uid.clone()).or_default());
        let mounts = volumes.into_iter().map(|volume| self.mount_one(pod, &uid, &state, volume));
        let results = futures::future::join_all(mounts).await;
        let mut failures: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        failures.sort_by(|a, b| a.volume.cmp(&b.volume));
        if let Some(message) = unprocessed_message(&failures) {
            self.warn(pod, &message);
        }
        mount_error(failures.iter()).map_or(Ok(()), Err)
    }

    /// Says by an event that a volume of the pod is not mounted, or not up to date.
    pub(super) fn warn(&self, pod: &Pod, message: &str) {
        self.shared.parts.events.event(&pod_reference(pod), EventType::Warning, FAILED_MOUNT, message);
    }

    /// Takes over volumes that this manager can't mount from containers that have them mounted, and tells so by an event.
    /// `wanted` are the volumes' names. Returns whether any was found; [`mount`](Self::mount) then takes those for mounted.
    pub fn adopt(&self, pod: &Arc<Pod>, wanted: &[String], found: &[ContainerMounts]) -> bool {
        let uid = uid_of(pod);
        let adopted = adoption::volumes(pod, wanted, found, &self.shared.parts.root.pod(&uid));
        if adopted.is_empty() {
            return false;
        }
        let names = adopted.keys().cloned().collect::<Vec<_>>().join(" ");
        let message = format!(
            "Volumes [{names}] are of kinds that this node does not support: the pod keeps what a kubelet mounted here \
             before, until it ends. Drain a node before steersman takes it over"
        );
        tracing::warn!(pod = %uid, message);
        self.warn(pod, &message);
        let state = Arc::clone(self.shared.pods.lock().entry(uid).or_default());
        let mut volumes = state.volumes.lock();
        for (name, mounted) in adopted {
            volumes.insert(name, VolumeState { mounted: Some(mounted), ..VolumeState::default() });
        }
        true
    }

    /// Removes all volumes of a pod whose containers have ended, whether this manager mounted them or they are only on disk:
    /// first parts that are mounted, then volumes. Volumes of plugins that this manager does not have stay. Forgets the pod's
    /// tokens.
    ///
    /// # Errors
    /// Something is still there, such as a mount that is in use.
    pub async fn unmount(&self, pod: &Uid) -> Result<(), UnmountError> {
        let state = Arc::clone(self.shared.pods.lock().entry(pod.clone()).or_default());
        state.volumes.lock().clear();
        let (root, uid) = (self.shared.parts.root.clone(), pod.clone());
        let (metrics, locks) = (self.shared.parts.metrics.clone(), Arc::clone(&self.shared.locks));
        let gone = on_disk(&state, move || tear_down::volumes(&root, &uid, &locks, &metrics)).await;
        let left = gone.map_err(|error| UnmountError { pod: pod.to_string(), reason: error.to_string() })?;
        self.note_left(pod, &left);
        self.shared.one_pod.release(pod);
        self.shared.parts.tokens.forget(&pod.to_string());
        self.shared.pods.lock().remove(pod);
        Ok(())
    }

    /// Says once that volumes of foreign plugins stay on disk though their pod has ended.
    fn note_left(&self, pod: &Uid, left: &[PathBuf]) {
        if !left.is_empty() && self.shared.left.lock().insert(pod.clone()) {
            tracing::warn!(
                %pod,
                volumes = ?left,
                "The pod has ended, but its volumes of kinds that this node does not support stay mounted. A kubelet gives \
                 them back once it takes the node over again. Drain a node before steersman takes it over"
            );
        }
    }

    /// Removes what these pods left on disk: their volumes, and then their folders. Each must still be `gone` when its
    /// turn comes. Pods with volumes that this manager mounted are left to [`unmount`](Self::unmount).
    pub async fn clean_orphans(&self, pods: &[Uid], gone: impl Fn(&Uid) -> bool) -> Orphans {
        let mut orphans = Orphans::default();
        for uid in pods {
            let Some(state) = gone(uid).then(|| self.unused(uid)).flatten() else { continue };
            orphans.found += 1;
            let (root, pod) = (self.shared.parts.root.clone(), uid.clone());
            let (metrics, locks) = (self.shared.parts.metrics.clone(), Arc::clone(&self.shared.locks));
            let gone = on_disk(&state, move || {
                let left = tear_down::volumes(&root, &pod, &locks, &metrics)?;
                if left.is_empty() {
                    tear_down::pod_folder(&root, &pod)?;
                }
                Ok::<_, DiskError>(left)
            })
            .await;
            if gone.is_ok() {
                self.shared.one_pod.release(uid);
            }
            match gone {
                Ok(left) if left.is_empty() => tracing::info!(pod = %uid, "Orphaned pod found, removing"),
                Ok(left) => {
                    orphans.failed += 1;
                    self.note_left(uid, &left);
                }
                Err(error) => {
                    orphans.failed += 1;
                    tracing::error!(pod = %uid, %error, "orphaned pod found, but its folder can't be removed");
                }
            }
            let mut pods = self.shared.pods.lock();
            // Nobody else took it meanwhile: this map and this function hold it.
            if Arc::strong_count(&state) == 2 {
                pods.remove(uid);
            }
        }
        self.shared.left.lock().retain(|pod| pods.contains(pod));
        self.shared.parts.metrics.swept(orphans.found, orphans.failed);
        orphans
    }

    /// The state of a pod of which nothing is mounted and for which nothing is being done.
    fn unused(&self, pod: &Uid) -> Option<Arc<PodVolumes>> {
        let mut pods = self.shared.pods.lock();
        let state = pods.entry(pod.clone()).or_default();
        let unused = Arc::strong_count(state) == 1 && state.volumes.lock().is_empty();
        unused.then(|| Arc::clone(state))
    }

    /// The uids of pods that have a folder on the node. Blocking, but short.
    ///
    /// # Errors
    /// The folder of pods can't be read.
    pub fn pods_on_disk(&self) -> io::Result<Vec<Uid>> {
        let names = names(&self.shared.parts.root.pods()).map_err(io::Error::other)?;
        Ok(names.iter().map(|name| Uid::from(name.as_str())).collect())
    }

    /// Puts what is measured into `registry`.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        self.shared.parts.metrics.register(registry)?;
        registry.register(Box::new(VolumeCount(self.clone())))
    }
}

impl MountedVolumes for VolumeManager {
    fn mounted(&self, pod: &Uid) -> BTreeMap<String, MountedVolume> {
        let Some(state) = self.shared.pods.lock().get(pod).cloned() else { return BTreeMap::new() };
        let volumes = state.volumes.lock();
        let mounted = |(name, state): (&String, &VolumeState)| Some((name.clone(), state.mounted.clone()?));
        volumes.iter().filter_map(mounted).collect()
    }

    fn groups(&self, pod: &Uid) -> BTreeSet<i64> {
        let Some(state) = self.shared.pods.lock().get(pod).cloned() else { return BTreeSet::new() };
        state.volumes.lock().values().filter_map(|volume| volume.group).collect()
    }

    fn prepare_sub_path(
        &self,
        pod: &Pod,
        container: &str,
        mount_index: usize,
        mount: &VolumeMount,
        sub_path: &str,
    ) -> Result<PathBuf, String> {
        let (uid, name) = (uid_of(pod), &mount.name);
        let missing = || format!("cannot find volume {name:?} to mount into container {container:?}");
        let state = self.shared.pods.lock().get(&uid).cloned().ok_or_else(missing)?;
        // Held before the volume is looked for: nobody may wait for this any more, and the volumes may be taken away.
        let _disk = state.disk.lock();
        let path = state.path(name).ok_or_else(missing)?;
        // What exactly is wrong is for the node's log: it could tell the pod of what is on the node.
        let hide = |doing: &str, error: DiskError| {
            tracing::error!(pod = %uid, container, volume = %name, %error, "subPath can't be mounted");
            format!("failed to {doing} for volumeMount {name:?} of container {container:?}")
        };
        let part = sub_path::open_or_make(&path, sub_path)
            .map_err(|error| hide("create subPath directory", error))?;
        let folder = self.shared.parts.root.pod_sub_paths(&uid).join(name).join(container);
        let target = folder.join(mount_index.to_string());
        sub_path::mount_at(&part, &target).map_err(|error| hide("prepare subPath", error))?;
        Ok(target)
    }
}

fn uid_of(pod: &Pod) -> Uid {
    Uid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// The volumes that any container mounts, or has as a device.
fn used_volumes(pod: &Pod) -> BTreeSet<&str> {
    let names = nested::volumes_of_containers(pod).flat_map(|(mounts, devices)| {
        let mounts = mounts.iter().map(|mount| mount.name.as_str());
        mounts.chain(devices.iter().map(|device| device.name.as_str()))
    });
    names.collect()
}
