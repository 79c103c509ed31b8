//! Taking ended containers away, with what the node keeps beside them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Kuberuntime, off_thread};
use crate::container::ContainerId;
use crate::kuberuntime::labels::LabelledInfo;
use crate::kuberuntime::log_path::legacy_log_symlink;
use crate::logs;

impl Kuberuntime {
    /// Removes a container that no longer runs, and its logs. One that is not there is fine.
    ///
    /// # Errors
    /// In words: files can't be removed, or the runtime failed. The container is kept while its logs are.
    pub async fn delete_container(&self, id: &ContainerId) -> Result<(), String> {
        self.remove_container(&id.id).await
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
                let log = Some(log).filter(|log| logs::is_below(&self.options.pod_logs, log));
                off_thread(move || remove_logs(log.as_deref(), &link))
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

/// Removes a log, if there is one, those that were rotated of it, and the link to it.
fn remove_logs(log: Option<&Path>, link: &Path) -> io::Result<()> {
    if let Some(log) = log {
        logs::remove_logs(log)?;
    }
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_logs_and_the_link_go_with_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["1.log", "1.log.20261121-105606", "1.log.20261121-105606.gz", "0.log", "11.log", "link"]
        {
            fs::write(path(name), "").unwrap();
        }
        remove_logs(Some(&path("1.log")), &path("link")).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "11.log"]);
        remove_logs(Some(&path("1.log")), &path("link")).unwrap();
        remove_logs(Some(&path("gone/1.log")), &path("link")).unwrap();
        remove_logs(None, &path("link")).unwrap();
    }
}
