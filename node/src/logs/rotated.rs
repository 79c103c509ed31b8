//! The files of one log: the one being written, and those that were rotated away.

use std::io;
use std::path::{Path, PathBuf};

/// What a rotated file's name gets when it is compressed.
pub(super) const COMPRESSED: &str = ".gz";
/// What a file's name has while it is being compressed.
pub(super) const TEMPORARY: &str = ".tmp";

/// The regular files whose names are that of `log`, a dot and more, oldest first, in use or not. Links, pipes and the like are
/// none of a log's files. Blocks.
pub(super) fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a log's path must name a file"));
    };
    let prefix = format!("{name}.");
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix))
            && entry.file_type()?.is_file()
        {
            files.push(entry.path());
        }
    }
    // Their names end with the time of rotation.
    files.sort();
    Ok(files)
}

/// Parts files into those that hold lines that no other does, and those that a compression is at or left when it broke off:
/// unfinished compressed files, and files that have been compressed.
pub(super) fn part_unused(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let all = files.clone();
    files.into_iter().partition(|file| {
        let name = file.to_string_lossy();
        let compressed = PathBuf::from(format!("{name}{COMPRESSED}"));
        !name.ends_with(TEMPORARY) && (name.ends_with(COMPRESSED) || !all.contains(&compressed))
    })
}

/// All files that hold what a container said, oldest first; the last is `log` itself. Blocks.
///
/// # Errors
/// The folder can't be read.
pub fn all_logs(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, _) = part_unused(rotated(log)?);
    files.push(log.to_owned());
    Ok(files)
}

/// Removes a log and all that was rotated of it; none need be there. Blocks.
///
/// # Errors
/// One that is there can't be removed; others may be gone by then.
pub fn remove_logs(log: &Path) -> io::Result<()> {
    let files = match rotated(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files.iter().map(PathBuf::as_path).chain([log]) {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
