//! Killing the processes of groups.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

use super::group::write;
use super::{CgroupVersion, Error};

const PROCESSES: &str = "cgroup.procs";
/// Has the kernel kill a group of version 2 with the groups within it, since Linux 5.14.
const KILL: &str = "cgroup.kill";
/// How many processes are killed between two looks at a group: each takes a file descriptor for that time.
const AT_A_TIME: usize = 128;

/// Kills every process of the groups in `folders`. Of nested groups the outer one comes first.
///
/// # Errors
/// This process is in one of the groups: then no other is killed. Or a group can't be read, or a process not be killed.
pub(super) fn kill_all(version: CgroupVersion, folders: &[PathBuf]) -> Result<(), Error> {
    let mut members = Vec::new();
    for folder in folders {
        let listed = processes_in(folder)?;
        if listed.contains(&getpid()) {
            return Err(failed(getpid(), io::Error::other("it is this process")));
        }
        members.push((folder, listed));
    }
    if version == CgroupVersion::V2 && kill_by_kernel(folders)? {
        return Ok(());
    }
    for (folder, listed) in members {
        kill_members(&listed, || processes_in(folder))?;
    }
    Ok(())
}

/// Has the kernel kill the outermost group with all groups within it. Returns false where the kernel can't, or the group is
/// gone.
fn kill_by_kernel(folders: &[PathBuf]) -> Result<bool, Error> {
    let Some(outermost) = folders.first() else { return Ok(true) };
    match write(&outermost.join(KILL), "1") {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.os_error(), Some(Errno::NOENT | Errno::NODEV | Errno::NOTSUP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Kills those of the `listed` processes that are still in their group, which `list` reads again. By the time of the
/// kill an id may be another process's: so each process is opened first, which its id names for certain if the group
/// has the id afterwards.
fn kill_members(listed: &[Pid], list: impl Fn() -> Result<Vec<Pid>, Error>) -> Result<(), Error> {
    for some in listed.chunks(AT_A_TIME) {
        let mut opened = Vec::with_capacity(some.len());
        for process in some {
            match pidfd_open(*process, PidfdFlags::empty()) {
                Ok(handle) => opened.push((*process, Handle::Open(handle))),
                // Kernels before 5.3 have no such call, and sandboxes may withhold it.
                Err(Errno::NOSYS | Errno::PERM) => opened.push((*process, Handle::Id)),
                Err(Errno::SRCH) => {}
                Err(errno) => return Err(failed(*process, errno.into())),
            }
        }
        let still: HashSet<Pid> = list()?.into_iter().collect();
        for (process, handle) in opened.into_iter().filter(|(process, _)| still.contains(process)) {
            let killed = match handle {
                Handle::Open(handle) => pidfd_send_signal(handle, Signal::KILL),
                Handle::Id => kill_process(process, Signal::KILL),
            };
            match killed {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(failed(process, errno.into())),
            }
        }
    }
    Ok(())
}

/// What a process is killed by.
enum Handle {
    Open(OwnedFd),
    /// Its id, which may name another process by then.
    Id,
}

/// The processes of one group; none where the group is gone, or where its processes are shown in the group above it.
fn processes_in(folder: &Path) -> Result<Vec<Pid>, Error> {
    let path = folder.join(PROCESSES);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NODEV | Errno::NOTSUP) => return Ok(Vec::new()),
            _ => return Err(Error::Read { path, source: error }),
        },
    };
    // A process outside of this process's namespace shows as 0, which names none.
    Ok(text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect())
}

fn failed(process: Pid, source: io::Error) -> Error {
    Error::Kill { process: process.as_raw_nonzero().get(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_left_the_group_meanwhile_is_not_killed() {
        let mut children = [0; 2].map(|_| Command::new("sleep").arg("600").spawn().unwrap());
        let ids = children.each_ref().map(|child| Pid::from_raw(child.id().try_into().unwrap()).unwrap());
        kill_members(&ids, || Ok(vec![ids[1]])).unwrap();
        assert_eq!(children[1].wait().unwrap().signal(), Some(9));
        assert_eq!(children[0].try_wait().unwrap(), None);
        kill_members(&ids[..1], || Ok(ids.to_vec())).unwrap();
        assert_eq!(children[0].wait().unwrap().signal(), Some(9));
    }
}
