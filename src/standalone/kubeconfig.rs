//! The kubeconfig that is written for whoever uses the server.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

/// Why it can't be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    /// The file is somebody else's.
    #[error("kubeconfig {}: it has other clusters in it; name another file by --write-kubeconfig", .0.display())]
    Others(PathBuf),
    /// The system does not let us.
    #[error("kubeconfig {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Writes it for the owner alone, whole or not at all unless the disk is full. A file with other clusters stays as it is.
///
/// # Errors
/// See [`KubeconfigError`].
pub(super) fn write(path: &Path, kubeconfig: &Kubeconfig) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { path: path.to_owned(), source };
    if path.exists() && !is_ours(path, kubeconfig) {
        return Err(KubeconfigError::Others(path.to_owned()));
    }
    let text = serde_json::to_string_pretty(kubeconfig).map_err(|error| failed(error.into()))?;
    // Not again: a disk that has become full must not keep the server from starting.
    if fs::read_to_string(path).is_ok_and(|written| written.trim_end() == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
    match written.and_then(|()| fs::rename(&beside, path)) {
        // The old one has the space that the new one needs.
        Err(error) if error.kind() == io::ErrorKind::StorageFull && path.exists() => {
            let _ = fs::remove_file(&beside);
            overwrite(path, &text).map_err(failed)
        }
        done => done.map_err(failed),
    }
}

/// Writes a file anew where it is. A crash meanwhile leaves a part of both contents.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// Whether the file has nothing but what we would write.
fn is_ours(path: &Path, new: &Kubeconfig) -> bool {
    let Ok(old) = Kubeconfig::read_from(path) else { return false };
    let names = |config: &Kubeconfig| -> Vec<String> {
        config.clusters.iter().map(|cluster| cluster.name.clone()).collect()
    };
    names(&old).iter().all(|name| names(new).contains(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn of(cluster: &str) -> Kubeconfig {
        let text = format!("{{clusters: [{{name: {cluster}, cluster: {{server: 'https://h:1'}}}}]}}");
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn a_kubeconfig_is_for_its_owner_and_replaces_its_like_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config");
        write(&path, &of("steersman")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        write(&path, &of("steersman")).unwrap();
        let refused = write(&path, &of("other")).unwrap_err().to_string();
        assert!(refused.contains("has other clusters in it"), "{refused}");
        assert_eq!(Kubeconfig::read_from(&path).unwrap().clusters[0].name, "steersman");
    }
}
