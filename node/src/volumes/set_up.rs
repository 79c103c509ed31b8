//! One volume, from nothing to what a container can mount. Blocking.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use super::claims::{Persistent, Source};
use super::disk::ownership::{Access, give_to_group};
use super::disk::{DiskError, atomic_writer, make_dirs, mounts, nested};
use super::kinds::empty_dir::{self, Medium, Place};
use super::kinds::{Kind, group_of, host_path, local};
use super::one_pod::{IN_USE, OnePodVolumes};
use super::path_locks::PathLocks;
use super::payload::{File, Payload};
use super::refusal::{Refusal, Step};
use super::{MountedVolume, Rights};
use crate::events::Events;
use crate::root_dir::RootDir;

/// A volume to be made, or filled anew.
pub(super) struct SetUp {
    pub(super) pod: std::sync::Arc<Pod>,
    pub(super) volume: String,
    pub(super) kind: Kind,
    /// What it shall hold, for kinds that the pod does not fill.
    pub(super) payload: Option<Payload>,
    /// How large it may be, if it is in memory.
    pub(super) memory_size: u64,
    pub(super) now: Timestamp,
    pub(super) rights: Rights,
    pub(super) locks: std::sync::Arc<PathLocks>,
    pub(super) one_pod: std::sync::Arc<OnePodVolumes>,
    pub(super) events: Events,
}

impl SetUp {
    /// Makes the volume as it should be, whatever is there of it already.
    pub(super) fn run(&self, root: &RootDir, uid: &Uid) -> Result<MountedVolume, Refusal> {
        match &self.kind {
            Kind::Persistent(volume) if volume.one_pod_only => {
                let mount = || self.mount(volume, root, uid);
                self.one_pod.mount(&volume.name, uid, || self.failed(IN_USE), mount)
            }
            Kind::Persistent(volume) => self.mount(volume, root, uid),
            _ => self.make(root, uid).map_err(|error| self.failed(&error.to_string())),
        }
    }

    /// The volume could not be set up.
    pub(super) fn failed(&self, reason: &str) -> Refusal {
        Refusal::failed(Step::SetUp, self.kind.own_name().unwrap_or(&self.volume), reason)
    }

    /// Mounts a persistent volume.
    fn mount(&self, volume: &Persistent, root: &RootDir, uid: &Uid) -> Result<MountedVolume, Refusal> {
        match &volume.source {
            Source::HostPath(source) => {
                host_path::set_up(source).map_err(|error| self.failed(&error.to_string()))?;
                let path = source.path.clone().into();
                Ok(MountedVolume { path, read_only: volume.read_only, relabel: false })
            }
            Source::Local(source) => {
                let mounting =
                    local::Mounting { root, locks: &self.locks, events: &self.events, pod: &self.pod, uid };
                mounting.set_up(volume, &source.path)
            }
        }
    }

    /// Makes a volume of the pod's own, and fills it.
    fn make(&self, root: &RootDir, uid: &Uid) -> Result<MountedVolume, DiskError> {
        for folder in [root.pod(uid), root.pod_volumes(uid), root.pod(uid).join("plugins")] {
            make_dirs(&folder, 0o750)?;
        }
        if let Kind::HostPath(source) = &self.kind {
            host_path::set_up(source)?;
            return Ok(MountedVolume { path: source.path.clone().into(), read_only: false, relabel: false });
        }
        let place = place(root, uid, self.kind.plugin(), &self.volume);
        // Containers may have mounted what an earlier version of this agent made on the disk: what is mounted over it would
        // not reach them.
        let in_use = matches!(self.kind, Kind::DownwardApi(_)) && atomic_writer::wrote(&place.dir);
        let in_memory = self.kind.in_memory() && self.rights == Rights::All;
        let in_memory = in_memory && (!in_use || mounts::is_tmpfs(&place.dir)?);
        let medium = if in_memory { Medium::Memory(self.memory_size) } else { Medium::Disk };
        let group = group_of(&self.pod).filter(|_| self.rights == Rights::All);
        let is_new = !place.dir.exists();
        empty_dir::set_up(&place, medium, group)?;
        if let Some(payload) = &self.payload
            && let Err(error) = self.fill(&place, payload, group)
        {
            // What is there already may be in use.
            if is_new && let Err(error) = empty_dir::tear_down(&place) {
                tracing::warn!(volume = %self.volume, %error, "a volume that could not be filled is left");
            }
            return Err(error);
        }
        Ok(MountedVolume { path: place.dir, read_only: self.payload.is_some(), relabel: true })
    }

    fn fill(&self, place: &Place, payload: &Payload, group: Option<u32>) -> Result<(), DiskError> {
        nested::make_mount_points(&self.pod, &self.volume, &place.dir)?;
        let payload = match self.rights {
            Rights::All => Cow::Borrowed(payload),
            Rights::Ordinary => Cow::Owned(without_owners(payload)),
        };
        atomic_writer::write(&place.dir, &payload, self.now, || match group {
            Some(group) => give_to_group(&place.dir, group, Access::ReadOnly),
            None => Ok(()),
        })
    }
}

fn without_owners(payload: &Payload) -> Payload {
    payload.iter().map(|(path, file)| (path.clone(), File { owner: None, ..file.clone() })).collect()
}

/// Where a volume with a folder of its own is. Volumes that are filled from objects stand on an empty directory named
/// after them.
pub(super) fn place(root: &RootDir, uid: &Uid, plugin: &str, volume: &str) -> Place {
    let inner = if plugin == empty_dir::PLUGIN { volume.to_owned() } else { format!("wrapped_{volume}") };
    Place {
        dir: root.pod_volume(uid, plugin, volume),
        notes: root.pod_plugin(uid, empty_dir::PLUGIN, &inner),
    }
}
