//! The node's own logins.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::docker_config::{self, Logins};
use super::keyring::Keyring;

/// Logins of the node, which all its pods may use: Docker's `config.json`, or else `.dockercfg`, in one folder, as upstream
/// reads them in `--root-dir`. (Upstream looks in the working folder and the home folder of its user as well.)
///
/// The file is read again every five minutes. One that can't be read is warned of and counts as empty.
#[derive(Debug)]
pub struct NodeFile {
    folder: PathBuf,
    cached: Mutex<Option<(Instant, Arc<Keyring>)>>,
}

/// How long what was read is good.
const LIFETIME: Duration = Duration::from_secs(300);

impl NodeFile {
    /// The logins in that folder; read when first asked for.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), cached: Mutex::new(None) }
    }

    /// The logins. Blocking.
    pub fn keyring(&self) -> Arc<Keyring> {
        let mut cached = self.cached.lock();
        let now = Instant::now();
        match &*cached {
            Some((read, keyring)) if now - *read < LIFETIME => Arc::clone(keyring),
            _ => {
                let mut keyring = Keyring::default();
                keyring.add(None, self.read());
                let keyring = Arc::new(keyring);
                *cached = Some((now, Arc::clone(&keyring)));
                keyring
            }
        }
    }

    fn read(&self) -> Logins {
        let json = read(&self.folder.join("config.json"), docker_config::parse_config_json);
        let old = || read(&self.folder.join(".dockercfg"), docker_config::parse_dockercfg);
        json.or_else(old).unwrap_or_default()
    }
}

fn read(path: &Path, parse: fn(&[u8]) -> Result<Logins, docker_config::Error>) -> Option<Logins> {
    let parsed = match std::fs::read(path) {
        Ok(bytes) => parse(&bytes).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    parsed
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), error, "The node's registry logins can't be read"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(file: &NodeFile) -> Vec<String> {
        file.keyring().lookup("reg.io/app").into_iter().map(|found| found.login.username).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_nodes_file_is_read_every_five_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let file = NodeFile::new(folder.path());
        assert!(users(&file).is_empty());
        std::fs::write(folder.path().join(".dockercfg"), r#"{"reg.io": {"username": "old"}}"#).unwrap();
        assert!(users(&file).is_empty());
        tokio::time::advance(LIFETIME).await;
        assert_eq!(users(&file), ["old"]);
        std::fs::write(folder.path().join("config.json"), r#"{"auths": {"reg.io": {"username": "new"}}}"#)
            .unwrap();
        tokio::time::advance(LIFETIME).await;
        assert_eq!(users(&file), ["new"]);
        std::fs::write(folder.path().join("config.json"), "{").unwrap();
        tokio::time::advance(LIFETIME).await;
        assert_eq!(users(&file), ["old"]);
    }
}
