//! A temporary folder that is removed even if the test never drops it: Rust drops no static values, and nothing of a killed process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A shell script that removes the folder `$0` after its standard input is closed, at the latest by the end of the test's process.
/// Unmounts everything in the folder first. Retries for some seconds, since etcd may still be writing to the folder.
const REMOVE: &str = r#"
trap '' HUP INT TERM
read -r _
awk -v inside="$0/" 'index($2, inside) == 1 {print $2}' /proc/self/mounts | sort -r | xargs -r umount -l
for _ in 1 2 3 4 5; do
  rm -rf --one-file-system "$0" && break
  sleep 1
done
"#;

/// A temporary folder. It is removed when it is dropped or when this process ends, whichever comes first; everything mounted in it
/// is unmounted before. (A [`tempfile::TempDir`] is removed only when it is dropped.)
pub struct TemporaryFolder {
    path: PathBuf,
    remover: Child,
}

impl TemporaryFolder {
    /// Creates a folder in the system's folder for temporary files.
    ///
    /// # Panics
    /// If the folder can't be created, or the shell can't be spawned.
    pub fn create() -> Self {
        let path = tempfile::tempdir().expect("a temporary folder must be had").keep();
        let mut command = Command::new("sh");
        command.args(["-c", REMOVE]).arg(&path).stdin(Stdio::piped());
        let remover =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell must start");
        Self { path, remover }
    }

    /// Returns the folder's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // `wait` first closes the script's standard input, which makes the script remove the folder.
        let _ = self.remover.wait();
    }
}
