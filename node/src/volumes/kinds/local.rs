//! `local` persistent volumes: a folder of this node, mounted into the folder of each pod that has a claim to it. Blocking.
//!
//! The volume's data is never removed: where a pod had it mounted, only the mount and the empty folder under it go.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{Mode, OFlags, open};
use steersman_api::Uid;
use tokio::time::Instant;

use super::group_of;
use crate::events::{EventType, Events, pod_reference};
use crate::root_dir::RootDir;
use crate::volumes::MountedVolume;
use crate::volumes::claims::Persistent;
use crate::volumes::disk::ownership::{Access, give_all_to_group, is_given};
use crate::volumes::disk::{DiskError, During, is_missing, make_dirs, mounts, remove_empty_dir};
use crate::volumes::one_pod::IN_USE;
use crate::volumes::path_locks::PathLocks;
use crate::volumes::refusal::{Refusal, Step};

/// As upstream names it.
pub(in crate::volumes) const PLUGIN: &str = "kubernetes.io/local-volume";

/// The change of a volume's group is told of after this long, and then each [`NEXT_PROGRESS`].
const FIRST_PROGRESS: Duration = Duration::from_secs(30);
const NEXT_PROGRESS: Duration = Duration::from_secs(60);

/// What a local volume is mounted with.
pub(in crate::volumes) struct Mounting<'a> {
    pub(in crate::volumes) root: &'a RootDir,
    pub(in crate::volumes) locks: &'a PathLocks,
    pub(in crate::volumes) events: &'a Events,
    pub(in crate::volumes) pod: &'a Pod,
    pub(in crate::volumes) uid: &'a Uid,
}

impl Mounting<'_> {
    /// Mounts the volume, whose folder on the node is `path`, for the pod, unless that is done. Gives its files to the pod's
    /// group if no other pod has the volume mounted.
    ///
    /// # Errors
    /// In upstream's words. The volume is not mounted then.
    pub(in crate::volumes) fn set_up(
        &self,
        volume: &Persistent,
        path: &str,
    ) -> Result<MountedVolume, Refusal> {
        let failed = |step, reason: String| Refusal::failed(step, &volume.name, reason);
        let source = self.folder_of(volume, path)?;
        if path.split('/').any(|part| part == "..") {
            return Err(failed(Step::SetUp, format!("invalid path: {path} must not contain '..'")));
        }
        let dir = self.root.pod_volume(self.uid, PLUGIN, &volume.name);
        let mounted = self.locks.with(&source, || {
            // A mount from before a restart is in the machine's table only.
            if volume.one_pod_only && self.is_mounted_elsewhere(&volume.name)? {
                return Err(DiskError::Invalid(IN_USE.to_owned()));
            }
            self.mount(volume, &source, &dir)
        });
        mounted.map_err(|error| failed(Step::SetUp, error.to_string()))?;
        Ok(MountedVolume { path: dir, read_only: volume.read_only, relabel: true })
    }

    /// The folder to mount for pods: `path` itself, or where an earlier kubelet mounted the block device `path`.
    fn folder_of(&self, volume: &Persistent, path: &str) -> Result<PathBuf, Refusal> {
        let failed = |step, reason: String| Err(Refusal::failed(step, &volume.name, reason));
        if path.is_empty() {
            return failed(
                Step::NewMounter,
                "local volume source is nil or local path is not set".to_owned(),
            );
        }
        let kind = match std::fs::metadata(path) {
            Ok(meta) => meta.file_type(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return failed(Step::NewMounter, format!("path {path:?} does not exist"));
            }
            Err(error) => return failed(Step::NewMounter, format!("stat {path}: {error}")),
        };
        if kind.is_dir() {
            return Ok(Path::new("/").join(path));
        }
        if !kind.is_block_device() {
            return failed(Step::NewMounter, "only directory and block device are supported".to_owned());
        }
        let global = device_mount(self.root, &volume.name);
        match mounts::is_mount_point(&global) {
            Ok(true) => Ok(global),
            Ok(false) => {
                let reason = format!(
                    "{path} is a block device, which this node does not mount; mount its file system at a folder, \
                     and name that folder in the volume"
                );
                failed(Step::MountDevice, reason)
            }
            Err(error) => failed(Step::MountDevice, error.to_string()),
        }
    }

    fn mount(&self, volume: &Persistent, source: &Path, dir: &Path) -> Result<(), DiskError> {
        if mounts::is_mount_point(dir)? {
            return Ok(());
        }
        let group = group_of(self.pod);
        let is_shared = group.is_some() && self.is_shared(source)?;
        if let (Some(group), true) = (group, is_shared) {
            let there = std::fs::metadata(source).during("looking at", source)?.gid();
            if group != there {
                self.warn(
                    "AlreadyMountedVolume",
                    &format!(
                        "The requested fsGroup is {group}, but the volume {} has GID {there}. The volume may not be \
                         shareable.",
                        volume.name
                    ),
                );
            }
        }
        make_dirs(dir, 0o750)?;
        let done = bind(volume, source, dir).and_then(|()| match group {
            Some(group) if !volume.read_only && !is_shared => self.give(dir, group),
            _ => Ok(()),
        });
        if done.is_err()
            && let Err(error) = tear_down(dir)
        {
            tracing::warn!(volume = %volume.name, %error, "a volume that could not be set up stays mounted");
        }
        done
    }

    /// Gives the volume, which is mounted at `dir`, to the pod's group. Says by events that it takes long.
    fn give(&self, dir: &Path, group: u32) -> Result<(), DiskError> {
        let context = self.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
        if policy == Some("OnRootMismatch") && is_given(dir, group, Access::ReadWrite) {
            return Ok(());
        }
        let below = dir.strip_prefix(self.root.pods()).unwrap_or(dir);
        let (began, mut progress) = (Instant::now(), Progress::new(below));
        give_all_to_group(dir, group, Access::ReadWrite, &mut || {
            if let Some(message) = progress.changed(began.elapsed()) {
                self.warn("VolumePermissionChangeInProgress", &message);
            }
        })
    }

    /// Whether any pod has the folder `source` mounted as a local volume, of whatever name.
    fn is_shared(&self, source: &Path) -> Result<bool, DiskError> {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let own = identity(std::fs::metadata(source).during("looking at", source)?);
        let mounted = mounted_of_pods(self.root)?;
        Ok(mounted.iter().any(|mount| std::fs::metadata(&mount.path).is_ok_and(|meta| identity(meta) == own)))
    }

    /// Whether another pod has the volume mounted.
    fn is_mounted_elsewhere(&self, volume: &str) -> Result<bool, DiskError> {
        let own = self.uid.to_string();
        Ok(mounted_of_pods(self.root)?.iter().any(|mount| mount.volume == volume && mount.pod != own))
    }

    fn warn(&self, reason: &'static str, message: &str) {
        self.events.event(&pod_reference(self.pod), EventType::Warning, reason, message);
    }
}

/// How far the change of a volume's group is, and when that is told next.
struct Progress<'a> {
    /// The pod's folder of the volume, below the folder of all pods.
    folder: &'a Path,
    /// Files and folders that were changed.
    changed: u64,
    tell_after: Duration,
}

impl<'a> Progress<'a> {
    fn new(folder: &'a Path) -> Self {
        Self { folder, changed: 0, tell_after: FIRST_PROGRESS }
    }

    /// Counts a file or folder that was changed after `elapsed`. Returns the message of an event if one is due.
    fn changed(&mut self, elapsed: Duration) -> Option<String> {
        self.changed += 1;
        if elapsed < self.tell_after {
            return None;
        }
        let is_first = self.tell_after == FIRST_PROGRESS;
        self.tell_after = elapsed + NEXT_PROGRESS;
        let folder = self.folder.display();
        Some(if is_first {
            format!(
                "Setting volume ownership for {folder} is taking longer than expected, consider using OnRootMismatch - \
                 https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
                 #configure-volume-permission-and-ownership-change-policy-for-pods"
            )
        } else {
            format!("Setting volume ownership for {folder}, processed {} files.", self.changed)
        })
    }
}

fn bind(volume: &Persistent, source: &Path, dir: &Path) -> Result<(), DiskError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened: OwnedFd = open(source, flags, Mode::empty()).during("opening volume", source)?;
    mounts::bind(&opened, dir)?;
    let read_only = volume.read_only.then_some("ro");
    // Those of the volume first: a pod that may only read stays so.
    let options = volume.mount_options.iter().map(String::as_str).chain(read_only);
    if options.clone().next().is_some() { mounts::remount_with(dir, options) } else { Ok(()) }
}

/// Unmounts a pod's volume and removes the folder that it was mounted on, which must be empty.
pub(in crate::volumes) fn tear_down(dir: &Path) -> Result<(), DiskError> {
    mounts::unmount_all(dir)?;
    remove_empty_dir(dir)
}

/// Unmounts the device of a volume that no pod has mounted any more. Only an earlier kubelet mounts devices.
pub(in crate::volumes) fn tear_down_device(
    root: &RootDir,
    locks: &PathLocks,
    volume: &str,
) -> Result<(), DiskError> {
    let global = device_mount(root, volume);
    if !mounts::is_mount_point(&global)? {
        return Ok(());
    }
    locks.with(&global, || {
        if mounted_of_pods(root)?.iter().any(|mount| mount.volume == volume) {
            return Ok(());
        }
        tear_down(&global)
    })
}

/// Where a kubelet mounts the device of a volume for all pods.
fn device_mount(root: &RootDir, volume: &str) -> PathBuf {
    root.path().join("plugins").join(PLUGIN).join("mounts").join(volume)
}

/// A local volume that a pod has mounted.
struct MountOfPod {
    /// The pod's uid.
    pod: String,
    volume: String,
    path: PathBuf,
}

/// All local volumes that pods have mounted, by the machine's table of mounts: also those from before a restart.
fn mounted_of_pods(root: &RootDir) -> Result<Vec<MountOfPod>, DiskError> {
    let pods = root.pods();
    let real = std::fs::canonicalize(&pods);
    if is_missing(&real) {
        return Ok(Vec::new());
    }
    let real = real.during("resolving", &pods)?;
    let plugin = PLUGIN.replace('/', "~");
    let of_pod = |path: PathBuf| {
        let below = path.strip_prefix(&real).ok()?;
        let parts: Vec<&str> = below.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        let [pod, "volumes", folder, volume] = parts.as_slice() else { return None };
        let (pod, volume) = (pod.to_string(), volume.to_string());
        (*folder == plugin).then_some(MountOfPod { pod, volume, path })
    };
    Ok(mounts::below(&pods)?.into_iter().filter_map(of_pod).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_group_that_takes_long_is_told_of_after_half_a_minute_and_then_each_minute() {
        let mut progress = Progress::new(Path::new("u-1/volumes/kubernetes.io~local-volume/pv"));
        let first = "Setting volume ownership for u-1/volumes/kubernetes.io~local-volume/pv is taking longer than expected, \
                     consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/\
                     security-context/#configure-volume-permission-and-ownership-change-policy-for-pods";
        let later = |files: u64| {
            format!(
                "Setting volume ownership for u-1/volumes/kubernetes.io~local-volume/pv, processed {files} files."
            )
        };
        for (seconds, expected) in [
            (0, None),
            (29, None),
            (31, Some(first.to_owned())),
            (32, None),
            (90, None),
            (91, Some(later(6))),
            (150, None),
            (200, Some(later(8))),
        ] {
            assert_eq!(progress.changed(Duration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
