//! The volumes of all pods of the node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Volume, VolumeMount};
use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use rand::Rng;
use steersman_api::Uid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::adoption::{self, ContainerMounts};
use super::back_off::BackOff;
use super::disk::{DiskError, names, nested, sub_path};
use super::error::{MountError, Orphans, UnmountError};
use super::kinds::{Kind, Sources, empty_dir};
use super::metrics::{ACTUAL, DESIRED, Metrics, Operation};
use super::payload;
use super::set_up::SetUp;
use super::tear_down;
use super::tokens::{TokenManager, WallClock};
use super::{MountedVolume, MountedVolumes, Rights};
use crate::blocking::blocking;
use crate::events::{EventType, Events, pod_reference};
use crate::node_info::NodeInfo;
use crate::objects::Objects;
use crate::root_dir::RootDir;

/// Files that should be as they are already are looked at again after this long to half as long again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Why [`VolumeManager::mount`] was not done: its events.
const FAILED_MOUNT: &str = "FailedMount";

/// What a volume manager works with.
pub struct Parts {
    /// Where pods' folders are.
    pub root: RootDir,
    /// Config maps and secrets. Pods are registered there by whoever syncs them, before their volumes are mounted.
    pub objects: Arc<dyn Objects>,
    /// Tokens of service accounts.
    pub tokens: Arc<TokenManager>,
    /// For the downward API, and the size of volumes in memory.
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
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    /// Those that were mounted since the start, until they are unmounted.
    pods: Mutex<HashMap<Uid, Arc<PodVolumes>>>,
    /// Pods that ended and left volumes of foreign plugins on disk. The log says so once.
    left: Mutex<HashSet<Uid>>,
}

#[derive(Default)]
struct PodVolumes {
    /// Held while something is done on disk for the pod.
    disk: Mutex<()>,
    /// By name.
    volumes: Mutex<BTreeMap<String, VolumeState>>,
}

#[derive(Default, Clone)]
struct VolumeState {
    /// Whose kind it is, where the kind is supported.
    plugin: Option<&'static str>,
    /// Set once it was made or adopted; it stays when files can't be refreshed.
    mounted: Option<MountedVolume>,
    /// What was written last.
    written: Option<Written>,
    back_off: BackOff,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    digest: u64,
    look_again: Instant,
}

/// Why one volume is not there.
struct Failure {
    volume: String,
    unsupported: bool,
    reason: String,
    retry_in: Duration,
}

impl VolumeManager {
    /// Of pods that it knows nothing of yet; their volumes may be on disk.
    pub fn new(parts: Parts) -> Self {
        Self { shared: Arc::new(Shared { parts, pods: Mutex::default(), left: Mutex::default() }) }
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
        let Some(retry_in) = failures.iter().map(|failure| failure.retry_in).min() else { return Ok(()) };
        let names =
            |failures: &mut dyn Iterator<Item = &Failure>| failures.map(|f| f.volume.clone()).collect();
        Err(MountError {
            unmounted: names(&mut failures.iter()),
            unsupported: names(&mut failures.iter().filter(|failure| failure.unsupported)),
            reasons: failures.into_iter().map(|failure| failure.reason).collect(),
            retry_in,
        })
    }

    async fn mount_one(
        &self,
        pod: &Arc<Pod>,
        uid: &Uid,
        state: &Arc<PodVolumes>,
        volume: &Volume,
    ) -> Result<(), Failure> {
        let before = state.volumes.lock().get(&volume.name).cloned().unwrap_or_default();
        let kind = Kind::of(volume);
        let is_adopted = kind.is_err() && before.mounted.is_some();
        if is_adopted {
            return Ok(());
        }
        let failure = |reason: String, retry_in: Duration| {
            let failure =
                Failure { volume: volume.name.clone(), unsupported: kind.is_err(), reason, retry_in };
            if before.mounted.is_some() { Ok(()) } else { Err(failure) }
        };
        if let Some((left, why)) = before.back_off.waits(Instant::now()) {
            return failure(why.to_owned(), left);
        }
        let outcome = match &kind {
            Ok(kind) => {
                let began = Instant::now();
                let done = self.refresh(pod, uid, state, (volume, kind), &before).await;
                if !matches!(done, Ok(None)) {
                    let metrics = &self.shared.parts.metrics;
                    metrics.done(Operation::Mount, kind.plugin_name(), done.is_ok(), began.elapsed());
                }
                done.map_err(|reason| {
                    // Upstream's form, blank and all.
                    let event = format!("MountVolume.SetUp failed for volume {:?} : {reason}", volume.name);
                    (event.clone(), event)
                })
            }
            Err(unsupported) => {
                let name = &volume.name;
                let event = format!(
                    "Unable to attach or mount volumes: unmounted volumes=[{name}], unattached volumes=[], \
                     failed to process volumes=[{name}]: {unsupported}"
                );
                Err((unsupported.clone(), event))
            }
        };
        let mut states = state.volumes.lock();
        let entry = states.entry(volume.name.clone()).or_default();
        entry.plugin = kind.as_ref().ok().map(Kind::plugin_name);
        match outcome {
            Ok(done) => {
                entry.back_off.succeeded();
                if let Some((mounted, written)) = done {
                    (entry.mounted, entry.written) = (Some(mounted), written);
                }
                Ok(())
            }
            Err((reason, event)) => {
                let now = Instant::now();
                entry.back_off.failed(now, reason.clone());
                let left = entry.back_off.waits(now).map_or(Duration::ZERO, |(left, _)| left);
                drop(states);
                tracing::warn!(pod = %uid, volume = %volume.name, error = %reason, "volume can't be mounted");
                self.shared.parts.events.event(&pod_reference(pod), EventType::Warning, FAILED_MOUNT, &event);
                failure(reason, left)
            }
        }
    }

    /// Makes the volume or brings it up to date. `None` if there was nothing to do.
    async fn refresh(
        &self,
        pod: &Arc<Pod>,
        uid: &Uid,
        state: &Arc<PodVolumes>,
        (volume, kind): (&Volume, &Kind),
        before: &VolumeState,
    ) -> Result<Option<(MountedVolume, Option<Written>)>, String> {
        for (what, text) in [("uid", uid.to_string()), ("volume", volume.name.clone())] {
            if matches!(text.as_str(), "" | "." | "..") || text.contains(['/', '\0']) {
                return Err(format!("{what} {text:?} can't name a folder"));
            }
        }
        let parts = &self.shared.parts;
        let sources = Sources { pod, objects: &*parts.objects, tokens: &parts.tokens, node: &*parts.node };
        let payload = kind.payload(&sources).await?;
        let now = Instant::now();
        let written = payload.as_ref().map(|payload| {
            let spread = LOOK_AGAIN.mul_f64(1.0 + rand::rng().random::<f64>() / 2.0);
            Written { digest: payload::digest(payload), look_again: now + spread }
        });
        if before.mounted.is_some() {
            let same = |(new, old): (Written, Written)| new.digest == old.digest && now < old.look_again;
            if written.is_none() || written.zip(before.written).is_some_and(same) {
                return Ok(None);
            }
        }
        let own = match kind {
            Kind::EmptyDir(source) => Some(source),
            _ => None,
        };
        let set_up = SetUp {
            pod: Arc::clone(pod),
            volume: volume.name.clone(),
            kind: kind.clone(),
            payload,
            memory_size: empty_dir::memory_size(own, pod, &*parts.node),
            now: (parts.now)(),
            rights: parts.rights,
        };
        // Dropped with this future: what has not begun by then must not begin.
        let dropped = CancellationToken::new();
        let _guard = dropped.clone().drop_guard();
        let (root, uid) = (parts.root.clone(), uid.clone());
        let mounted = on_disk(state, move || {
            if dropped.is_cancelled() {
                return Err(DiskError::Invalid("nobody waits for the volume any more".to_owned()));
            }
            set_up.run(&root, &uid)
        })
        .await?;
        Ok(Some((mounted, written)))
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
        self.shared.parts.events.event(&pod_reference(pod), EventType::Warning, FAILED_MOUNT, &message);
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
        let metrics = self.shared.parts.metrics.clone();
        let gone = on_disk(&state, move || tear_down::volumes(&root, &uid, &metrics)).await;
        let left = gone.map_err(|reason| UnmountError { pod: pod.to_string(), reason })?;
        self.note_left(pod, &left);
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
            let metrics = self.shared.parts.metrics.clone();
            let gone = on_disk(&state, move || {
                let left = tear_down::volumes(&root, &pod, &metrics)?;
                if left.is_empty() {
                    tear_down::pod_folder(&root, &pod)?;
                }
                Ok(left)
            })
            .await;
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

impl PodVolumes {
    fn path(&self, volume: &str) -> Option<PathBuf> {
        Some(self.volumes.lock().get(volume)?.mounted.as_ref()?.path.clone())
    }
}

/// Counts the volumes that are wanted, and those that are there, whenever somebody asks.
struct VolumeCount(VolumeManager);

impl Collector for VolumeCount {
    fn desc(&self) -> Vec<&Desc> {
        self.0.shared.parts.metrics.volumes.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let count = &self.0.shared.parts.metrics.volumes;
        count.reset();
        for pod in self.0.shared.pods.lock().values() {
            for volume in pod.volumes.lock().values() {
                let plugin = volume.plugin.unwrap_or("N/A");
                count.with_label_values(&[plugin, DESIRED]).inc();
                if volume.mounted.is_some() {
                    count.with_label_values(&[plugin, ACTUAL]).inc();
                }
            }
        }
        count.collect()
    }
}

impl MountedVolumes for VolumeManager {
    fn mounted(&self, pod: &Uid) -> BTreeMap<String, MountedVolume> {
        let Some(state) = self.shared.pods.lock().get(pod).cloned() else { return BTreeMap::new() };
        let volumes = state.volumes.lock();
        let mounted = |(name, state): (&String, &VolumeState)| Some((name.clone(), state.mounted.clone()?));
        volumes.iter().filter_map(mounted).collect()
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

/// Does something on disk for a pod, in a thread that may block, after whatever is being done there for it.
async fn on_disk<T: Send + 'static>(
    state: &Arc<PodVolumes>,
    work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, String> {
    let state = Arc::clone(state);
    let done = blocking(move || {
        let _disk = state.disk.lock();
        work()
    });
    done.await.map_err(|error| error.to_string())
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
