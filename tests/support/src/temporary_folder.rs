//! Temporary folders of tests that outlive their test: static values are never dropped, and a killed process drops nothing.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits until nobody can write to its standard input, and then removes the folder `$0`, with all that is mounted in it. It
/// tries for some seconds, since a program that ends at the same time may still write to the folder.
const REMOVE: &str = r#"
trap '' HUP INT TERM
read -r _
awk -v inside="$0/" 'index($2, inside) == 1 {print $2}' /proc/self/mounts | sort -r | xargs -r umount -l
for _ in 1 2 3 4 5; do
  rm -rf --one-file-system "$0" && break
  sleep 1
done
"#;

/// A folder that is removed when it is dropped, or when this process ends, whichever comes first. What is mounted in it is
/// unmounted before. A [`tempfile::TempDir`] stays if the process ends first.
pub struct TemporaryFolder {
    path: PathBuf,
    remover: Child,
}

impl TemporaryFolder {
    /// Creates it.
    ///
    /// # Panics
    /// If there can be no such folder, or no shell.
    pub fn create() -> Self {
        let path = tempfile::tempdir().expect("a temporary folder must be had").keep();
        let mut command = Command::new("sh");
        command.args(["-c", REMOVE]).arg(&path).stdin(Stdio::piped());
        let remover =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell must start");
        Self { path, remover }
    }

    /// Its path, which is absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The standard input is closed before `wait` waits.
        let _ = self.remover.wait();
    }
}
