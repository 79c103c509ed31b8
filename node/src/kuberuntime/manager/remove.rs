//! Taking ended containers away, with what the node keeps beside them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::{Kuberuntime, off_thread};
use crate::container::{ContainerId, ContainerState, PodStatus};
use crate::kuberuntime::labels::LabelledInfo;
use crate::kuberuntime::log_path::legacy_log_symlink;

/// The ended containers of a pod that need not be kept, the newest first: all but the `keep` newest of those that have the
/// name of the container `ended`, or of all of them where none is given.
pub fn containers_to_delete(
    status: &PodStatus,
    ended: Option<&ContainerId>,
    keep: usize,
) -> Vec<ContainerId> {
    let name = match ended {
        None => None,
        Some(ended) => match status.containers.iter().find(|container| container.id == *ended) {
            Some(container) => Some(&container.name),
            None => return Vec::new(),
        },
    };
    let exited = status.containers.iter().filter(|container| container.state == ContainerState::Exited);
    let of_name = exited.filter(|container| name.is_none_or(|name| container.name == *name));
    of_name.skip(keep).map(|container| container.id.clone()).collect()
}

impl Kuberuntime {
    /// Removes a container that no longer runs, and its logs. One that is not there is fine.
    ///
    /// # Errors
    /// In words: files can't be removed, or the runtime failed. The container is kept while its logs are.
    pub async fn delete_container(&self, id: &ContainerId) -> Result<(), String> {
        self.remove_container(&id.id).await
    }

    /// Removes [`containers_to_delete`], side by side. Failures are logged: garbage collection tries again.
    pub async fn delete_containers(&self, status: &PodStatus, ended: Option<&ContainerId>, keep: usize) {
        let removed = containers_to_delete(status, ended, keep).into_iter().map(|id| async move {
            if let Err(error) = self.delete_container(&id).await {
                warn!(container = %id, error, "a container could not be removed");
            }
        });
        futures::future::join_all(removed).await;
    }

    pub(super) async fn remove_container(&self, id: &str) -> Result<(), String> {
        match self.runtime.container_status(id).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(format!("failed to get container status {id:?}: {error}")),
            Ok(answer) => {
                let status = answer.status.unwrap_or_default();
                let info = LabelledInfo::from_labels(&status.labels);
                let (root, log) = (self.options.container_log_links.clone(), PathBuf::from(status.log_path));
                let link =
                    legacy_log_symlink(&root, &info.pod_namespace, &info.pod_name, &info.container_name, id);
                off_thread(move || remove_logs(&log, &link))
                    .await
                    .map_err(|error| format!("failed to remove container {id:?} log: {error}"))?;
            }
        }
        self.remove_container_keeping_logs(id).await
    }

    /// The logs then stay until the pod is gone.
    pub(super) async fn remove_container_keeping_logs(&self, id: &str) -> Result<(), String> {
        match self.runtime.remove_container(id).await {
            Err(error) if !error.is_not_found() => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Removes a log, the rotated ones beside it, whose names go on from its own, and the link to it.
fn remove_logs(log: &Path, link: &Path) -> io::Result<()> {
    if let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                for entry in entries? {
                    let entry = entry?;
                    if entry.file_name().to_str().is_some_and(|entry| entry.starts_with(name)) {
                        remove(&entry.path())?;
                    }
                }
            }
        }
    }
    remove(link)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::actions::testing::{base, container, id};

    #[test]
    fn all_but_the_newest_of_a_name_may_go() {
        let mut status = base().status;
        status.containers = vec![
            container("a3", "a", ContainerState::Running),
            container("b2", "b", ContainerState::Exited),
            container("a2", "a", ContainerState::Exited),
            container("a1", "a", ContainerState::Exited),
            container("b1", "b", ContainerState::Exited),
        ];
        let delete = |ended: Option<&str>, keep| -> Vec<String> {
            let ended = ended.map(id);
            containers_to_delete(&status, ended.as_ref(), keep).into_iter().map(|id| id.id).collect()
        };
        assert_eq!(delete(Some("a2"), 1), ["a1"]);
        assert_eq!(delete(Some("b2"), 0), ["b2", "b1"]);
        assert_eq!(delete(Some("gone"), 0), [""; 0]);
        assert_eq!(delete(None, 0), ["b2", "a2", "a1", "b1"]);
        assert_eq!(delete(None, 1), ["a2", "a1", "b1"]);
    }

    #[test]
    fn rotated_logs_and_the_link_go_with_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["1.log", "1.log.20261121-105606", "1.log.20261121-105606.gz", "0.log", "11.log", "link"]
        {
            fs::write(path(name), "").unwrap();
        }
        remove_logs(&path("1.log"), &path("link")).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "11.log"]);
        remove_logs(&path("1.log"), &path("link")).unwrap();
        remove_logs(&path("gone/1.log"), &path("link")).unwrap();
    }
}
