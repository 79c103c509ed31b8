//! One group as it is in the file system.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::param::page_size;
use tracing::debug;

use super::cpu::{milli_cpu_of_quota, milli_cpu_of_shares, shares_of_weight, weight_of_shares};
use super::limits::{HUGE_PAGES, Limits, Setting};
use super::systemd::{self, Slices};
use super::{CgroupVersion, Error, Hierarchies, PodMemory, killing};
use crate::container::ContainerResources;

/// Controllers without which pods can't be held to their limits, where the machine has them at all.
const NEEDED: [&str; 3] = ["cpu", "memory", "pids"];
/// Controllers of version 1 that a group is there in, if it is there (those that the kubelet looks at).
const TELLING: [&str; 7] = ["cpu", "cpuacct", "cpuset", "hugetlb", "memory", "pids", "systemd"];
/// Limits of memory on version 1 from here on are none: the kernel rounds them down to pages.
const UNLIMITED_V1: i64 = 1 << 62;
const CONTROLLERS: &str = "cgroup.controllers";
const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// What is done with files in place of the kernel.
pub(super) trait Files: Send + Sync + 'static {
    /// Makes one folder. One that is there already is fine.
    fn make(&self, folder: &Path) -> io::Result<()>;
    /// Removes one folder, in which there must be none.
    fn remove(&self, folder: &Path) -> io::Result<()>;
}

/// The kernel puts files into folders, and removes them with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel;

impl Files for Kernel {
    fn make(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }
}

/// The group at `path` (with a leading `/`) in all hierarchies.
pub(super) struct Group<'a> {
    pub(super) hierarchies: &'a Hierarchies,
    pub(super) files: &'a dyn Files,
    pub(super) path: String,
    /// Who keeps it, where that is systemd.
    pub(super) slices: Option<&'a Slices>,
}

impl Group<'_> {
    /// Its folder in the hierarchy of this controller; none where the machine has no such controller.
    fn folder(&self, controller: &str) -> Option<PathBuf> {
        Some(below(self.hierarchies.controllers.get(controller)?, &self.path))
    }

    /// All its folders, whether they are there or not, those that a runtime may have made among them.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let places = self.hierarchies.places().into_iter().chain(self.hierarchies.beside.as_deref());
        places.map(|place| below(place, &self.path))
    }

    /// Whether it is there, wholly.
    pub(super) fn exists(&self) -> bool {
        match self.hierarchies.version {
            CgroupVersion::V1 => {
                TELLING.iter().filter_map(|controller| self.folder(controller)).all(|folder| folder.is_dir())
            }
            CgroupVersion::V2 => self.folders().all(|folder| folder.is_dir()),
        }
    }

    /// Whether it is there and has the controllers that limits need. On version 2 it may lose them: to systemd, for one, when that
    /// keeps the group above and knows of nobody in there who wants them.
    pub(super) fn is_whole(&self) -> bool {
        self.exists() && self.missing().is_ok_and(|missing| missing.is_empty())
    }

    /// The controllers that limits need, that the machine has, and that were not handed down to it.
    fn missing(&self) -> Result<Vec<&'static str>, Error> {
        if self.hierarchies.version == CgroupVersion::V1 {
            return Ok(Vec::new());
        }
        let needed = NEEDED.into_iter().filter_map(|name| Some((name, self.folder(name)?)));
        let mut missing = Vec::new();
        for (name, folder) in needed {
            if !read(&folder.join(CONTROLLERS))?.split_whitespace().any(|own| own == name) {
                missing.push(name);
            }
        }
        Ok(missing)
    }

    /// Makes it and all above it where they are missing.
    pub(super) fn make(&self) -> Result<(), Error> {
        if let Some(slices) = self.slices {
            slices.start(&self.path).map_err(|source| self.of_systemd(source))?;
        }
        match self.hierarchies.version {
            CgroupVersion::V1 => {
                for place in self.hierarchies.places() {
                    self.descend(place, |above, folder| self.inherit_cpu_set(above, folder))?;
                }
                Ok(())
            }
            CgroupVersion::V2 => self.make_v2(),
        }
    }

    /// From where a hierarchy is mounted down to this group, each folder is made in `above` and given to `with`.
    fn descend(
        &self,
        place: &Path,
        mut with: impl FnMut(&Path, &Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut above = place.to_path_buf();
        for part in self.path.split('/').filter(|part| !part.is_empty()) {
            let folder = above.join(part);
            self.files.make(&folder).map_err(|source| Error::Make { path: folder.clone(), source })?;
            with(&above, &folder)?;
            above = folder;
        }
        Ok(())
    }

    /// On version 1 a new group has no processors and no memory until it is given some, and can't hold a process before.
    fn inherit_cpu_set(&self, above: &Path, folder: &Path) -> Result<(), Error> {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = folder.join(file);
            if fs::read_to_string(&own).is_ok_and(|own| own.trim().is_empty()) {
                write(&own, read(&above.join(file))?.trim())?;
            }
        }
        Ok(())
    }

    /// On version 2 a group has the controllers that the one above it hands down.
    fn make_v2(&self) -> Result<(), Error> {
        for place in self.hierarchies.places() {
            let all: Vec<String> =
                self.hierarchies.controllers.keys().map(|name| format!("+{name}")).collect();
            let hand_down = |above: &Path| {
                let control = above.join(SUBTREE_CONTROL);
                if write(&control, &all.join(" ")).is_err() {
                    // One that can't be handed down takes all others with it.
                    for one in &all {
                        if let Err(error) = write(&control, one) {
                            debug!(%error, "Controller is not handed down");
                        }
                    }
                }
            };
            let mut above = place.to_path_buf();
            for part in self.path.split('/').filter(|part| !part.is_empty()) {
                hand_down(&above);
                above.push(part);
                self.files.make(&above).map_err(|source| Error::Make { path: above.clone(), source })?;
            }
            let missing = self.missing()?;
            if !missing.is_empty() {
                return Err(Error::NoControllers { path: above, missing: missing.join(", ") });
            }
        }
        Ok(())
    }

    /// Sets the limits of a group: all of them, or it is an error. Nothing is killed for it: a limit below what is in use is
    /// one.
    pub(super) fn limit_all(&self, limits: &Limits) -> Result<(), Error> {
        self.tell(limits, is_taken_gently)?;
        self.set(limits, put_gently, |_, _, error| Err(error))
    }

    /// Sets the limits of a group that is in use and that somebody else has: all of them, or it is an error. Version 2 takes a
    /// limit below what is in use, and makes it so, by killing at last; version 1 says no.
    pub(super) fn limit_existing(&self, limits: &Limits) -> Result<(), Error> {
        self.tell(limits, |_, _| true)?;
        self.set(limits, put, |_, _, error| Err(error))
    }

    /// Sets the limits of a group that is in use. What is more than before is so at once. What is less waits, for the next
    /// call, as long as groups within have more, or more is in use: nothing is killed for a change of limits.
    pub(super) fn limit(&self, limits: &Limits) -> Result<(), Error> {
        self.tell(limits, is_taken_gently)?;
        self.set(limits, put_gently, |setting, folder, error| {
            let waits = match (setting.controller, error.os_error()) {
                ("cpu", Some(Errno::INVAL)) | ("memory", Some(Errno::BUSY)) => true,
                _ => return Err(error),
            };
            debug!(folder = %folder.display(), file = setting.file, value = setting.value, waits, "Limit stays");
            Ok(())
        })
    }

    /// Tells systemd, where it keeps the group, those limits that are `taken`: what it is told, it sets.
    fn tell(&self, limits: &Limits, taken: fn(&Path, &Setting) -> bool) -> Result<(), Error> {
        let Some(slices) = self.slices else { return Ok(()) };
        let mut limits = limits.clone();
        let mut is_so = true;
        for setting in limits.files(self.hierarchies.version) {
            let Some(folder) = self.folder(setting.controller) else { continue };
            if !taken(&folder, &setting) {
                limits.memory = None;
            } else if setting.controller != HUGE_PAGES {
                is_so &= shown(&folder, &setting).is_ok_and(|now| is_value(&now, &setting));
            }
        }
        let properties = systemd::of_limits(&limits, self.hierarchies.version);
        slices.set(&self.path, &properties, is_so).map_err(|source| self.of_systemd(source))
    }

    fn of_systemd(&self, source: systemd::Error) -> Error {
        Error::Systemd { path: self.path.clone(), source: source.into() }
    }

    fn set(
        &self,
        limits: &Limits,
        put: fn(&Path, &Setting) -> Result<(), Error>,
        refused: impl Fn(&Setting, &Path, Error) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut again = Vec::new();
        for setting in limits.files(self.hierarchies.version) {
            let Some(folder) = self.folder(setting.controller) else { continue };
            match put(&folder, &setting) {
                // Quota and period depend on each other: which can be set first depends on what is set.
                Err(error) if error.os_error() == Some(Errno::INVAL) => again.push((folder, setting)),
                Err(error) => refused(&setting, &folder, error)?,
                Ok(()) => {}
            }
        }
        for (folder, setting) in again {
            if let Err(error) = put(&folder, &setting) {
                refused(&setting, &folder, error)?;
            }
        }
        Ok(())
    }

    /// What a file of one of its controllers says, trimmed; `None` where there is no such.
    pub(super) fn get(&self, controller: &str, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder(controller)?.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// What it has of processor time and memory, as far as it is limited or asked for. `shares` is what it is to have of the
    /// former: weights of version 2 are coarser, and where they come to the same that is what it has.
    pub(super) fn given(&self, shares: Option<u64>) -> ContainerResources {
        let number = |controller, file| self.get(controller, file)?.parse::<i64>().ok();
        let unsigned = |file| self.get("cpu", file)?.parse::<u64>().ok();
        let (shares, quota, memory) = match self.hierarchies.version {
            CgroupVersion::V1 => (
                unsigned("cpu.shares"),
                number("cpu", "cpu.cfs_quota_us").zip(number("cpu", "cpu.cfs_period_us")),
                number("memory", "memory.limit_in_bytes").filter(|limit| *limit < UNLIMITED_V1),
            ),
            CgroupVersion::V2 => {
                let weight = unsigned("cpu.weight");
                let meant = shares.filter(|shares| weight == Some(weight_of_shares(*shares)));
                let quota = self.get("cpu", "cpu.max").and_then(|text| {
                    let (quota, period) = text.split_once(' ')?;
                    Some((quota.parse().ok()?, period.parse().ok()?))
                });
                (meant.or(weight.map(shares_of_weight)), quota, number("memory", "memory.max"))
            }
        };
        let asked = shares.map(milli_cpu_of_shares);
        let limit = quota.map(|(quota, period)| milli_cpu_of_quota(quota, period));
        ContainerResources {
            cpu_request_milli: asked.filter(|asked| *asked > 0),
            cpu_limit_milli: limit.filter(|limit| *limit > 0),
            memory_request: None,
            memory_limit: memory.filter(|limit| *limit > 0),
        }
    }

    /// What memory it uses and may use. What it is to have is not for it to know.
    pub(super) fn memory(&self) -> PodMemory {
        let (used, limit) = match self.hierarchies.version {
            CgroupVersion::V1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
            CgroupVersion::V2 => ("memory.current", "memory.max"),
        };
        let number = |file| self.get("memory", file)?.parse::<u64>().ok();
        // Both without limit: `max` is no number, and version 1 has one for it.
        let limit = number(limit).filter(|limit| *limit < UNLIMITED_V1.unsigned_abs());
        PodMemory { used: number(used), limit, wanted: None }
    }

    /// Kills every process in the group and in the groups within it, and removes all of them.
    ///
    /// # Errors
    /// This process is in one of the groups: then nothing is killed. Or the file system's.
    pub(super) fn remove(&self) -> Result<(), Error> {
        let mut folders = Vec::new();
        for folder in self.folders() {
            walk(&folder, &mut folders)?;
        }
        killing::kill_all(self.hierarchies.version, &folders)?;
        // Before the folders: while there is one, somebody comes back to it.
        if let Some(slices) = self.slices {
            slices.stop(&self.path).map_err(|source| self.of_systemd(source))?;
        }
        // Those within come after those they are in.
        for folder in folders.iter().rev() {
            match self.files.remove(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Remove { path: folder.clone(), source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

fn below(place: &Path, path: &str) -> PathBuf {
    place.join(path.trim_start_matches('/'))
}

/// Writes what is not so yet.
fn put(folder: &Path, setting: &Setting) -> Result<(), Error> {
    let path = folder.join(&setting.file);
    let now = shown(folder, setting);
    if now.as_ref().is_ok_and(|now| is_value(now, setting)) {
        return Ok(());
    }
    if setting.optional && now.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    write(&path, &setting.value)
}

/// Likewise, but no limit below what is in use: version 2 would take it, and kill for it.
fn put_gently(folder: &Path, setting: &Setting) -> Result<(), Error> {
    if is_taken_gently(folder, setting) {
        return put(folder, setting);
    }
    let source = Errno::BUSY.into();
    Err(Error::Write { path: folder.join(&setting.file), value: setting.value.clone(), source })
}

/// Whether nothing has to be killed for it.
fn is_taken_gently(folder: &Path, setting: &Setting) -> bool {
    setting.file != "memory.max"
        || setting.value.parse().is_ok_and(|limit| in_use(folder) <= limit)
        || !shown(folder, setting).is_ok_and(|now| !is_value(&now, setting))
}

/// Whether what the kernel shows is what is to be set. It rounds memory down to pages.
fn is_value(now: &str, setting: &Setting) -> bool {
    let now = now.trim();
    now == setting.value
        || setting.controller == "memory"
            && now.parse().ok().zip(setting.value.parse().ok()).is_some_and(|(now, value): (u64, u64)| {
                now == value - value % u64::try_from(page_size()).unwrap_or(1).max(1)
            })
}

/// What is set now.
fn shown(folder: &Path, setting: &Setting) -> io::Result<String> {
    fs::read_to_string(folder.join(&setting.file))
}

/// The memory, in bytes, that a group of version 2 uses and that the kernel can't just take back, as it can what it keeps of
/// files; 0 where it is not told.
fn in_use(folder: &Path) -> u64 {
    let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let stat = file("memory.stat");
    let of_files = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        ["active_file", "inactive_file"].contains(&name).then(|| bytes.parse::<u64>().ok())?
    });
    file("memory.current").trim().parse::<u64>().unwrap_or_default().saturating_sub(of_files.sum())
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })
}

pub(super) fn write(path: &Path, value: &str) -> Result<(), Error> {
    // Never made: a file that the kernel does not have is an error.
    let written = OpenOptions::new().write(true).truncate(true).open(path);
    written.and_then(|mut file| file.write_all(value.as_bytes())).map_err(|source| Error::Write {
        path: path.into(),
        value: value.to_owned(),
        source,
    })
}

/// The folder and those within, from the top down; nothing where it is not there.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read { path: folder.into(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    found.push(folder.to_path_buf());
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&entry.path(), found)?;
        }
    }
    Ok(())
}
