//! What volumes are on the node's disk: folders, mounts, files and their owners. Blocking.

use std::io;
use std::path::{Path, PathBuf};

pub(super) mod atomic_writer;
pub(super) mod mounts;
pub(super) mod nested;
pub(super) mod ownership;
pub(super) mod sub_path;

/// Why something on disk was not done; it can be tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// The operating system said no.
    #[error("{operation} {path:?}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// Something is mounted where nothing may be.
    #[error("{mount:?} is still mounted, so {path:?} can't be removed")]
    Mounted {
        /// What is mounted.
        mount: PathBuf,
        /// What was to be removed.
        path: PathBuf,
    },
    /// What should be written can't be.
    #[error("{0}")]
    Invalid(String),
}

/// Says what an operating system's answer was about.
pub(super) trait During<T> {
    /// `operation` was tried with `path`.
    fn during(self, operation: &'static str, path: &Path) -> Result<T, DiskError>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, operation: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|source| DiskError::Io { operation, path: path.to_owned(), source: source.into() })
    }
}

/// Makes a folder and those above it, with that mode unless it is there.
pub(super) fn make_dirs(path: &Path, mode: u32) -> Result<(), DiskError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path).during("creating directory", path)
}

/// Sets the permissions of a file or folder, whatever the umask.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), DiskError> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).during("setting the mode of", path)
}

/// Whether an error says that there is nothing.
pub(super) fn is_missing<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Removes an empty folder, if it is there.
pub(super) fn remove_empty_dir(path: &Path) -> Result<(), DiskError> {
    let removed = std::fs::remove_dir(path);
    if is_missing(&removed) { Ok(()) } else { removed.during("removing directory", path) }
}

/// The names in a folder; none if it is not there.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DiskError> {
    let entries = std::fs::read_dir(path);
    if is_missing(&entries) {
        return Ok(Vec::new());
    }
    let entries = entries.during("reading directory", path)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>().during("reading directory", path)?;
    names.sort_unstable();
    Ok(names)
}
