//! Files that change all at once.
//!
//! A volume's visible names are links into `..data`, itself a link to a folder named by the time it was written:
//!
//! ```text
//! volume/token                  -> ..data/token
//! volume/..data                 -> ..2024_02_03_04_05_06.123456
//! volume/..2024_02_03_04_05_06.123456/token
//! ```
//!
//! New files are written to a new folder, and take effect when `..data` is replaced. A reader that keeps a file open, or
//! reads it through `..data`, never sees a mixture.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rand::Rng;

use super::{DiskError, During, is_missing, make_dirs, mounts, names, set_mode};
use crate::volumes::payload::{File, Payload};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 4096;

/// Makes a volume's files those of `payload`; does nothing if they are. `seal` is called once new files are written and
/// before they are seen. What an attempt that broke off left behind goes.
pub(in crate::volumes) fn write(
    dir: &Path,
    payload: &Payload,
    now: Timestamp,
    seal: impl FnOnce() -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let files = clean(payload)?;
    let data = dir.join(DATA);
    let link = std::fs::read_link(&data);
    let old = if is_missing(&link) { None } else { Some(link.during("reading link", &data)?) };
    sweep(dir, old.as_deref())?;
    // The folder that `..data` names may be gone: then all is written anew.
    let old = old.map(|name| dir.join(name)).filter(|path| path.is_dir());
    let stale = match &old {
        Some(old) => stale_names(old, &files)?,
        None => BTreeSet::new(),
    };
    let fresh = match &old {
        Some(old) => stale.is_empty() && is_current(old, &files)?,
        None => false,
    };
    if !fresh {
        let name = write_folder(dir, &files, now)?;
        let publish = || {
            seal()?;
            let new_data = dir.join(NEW_DATA);
            symlink(&name, &new_data).during("making link", &new_data)?;
            std::fs::rename(&new_data, &data).during("replacing link", &data)
        };
        if let Err(error) = publish() {
            // The next attempt would sweep it too.
            let _ = mounts::remove_tree(&dir.join(&name));
            return Err(error);
        }
    }
    link_names(dir, &files)?;
    // Only names at the top are links of the volume's own; others went with the old folder.
    for name in stale.iter().filter(|path| path.components().count() == 1) {
        let link = dir.join(name);
        let removed = std::fs::remove_file(&link);
        if !is_missing(&removed) {
            removed.during("removing link", &link)?;
        }
    }
    match old {
        Some(old) if !fresh => mounts::remove_tree(&old),
        _ => Ok(()),
    }
}

/// The files by their paths without `.`; paths that lead out, or that hide in the writer's own names, are refused.
fn clean(payload: &Payload) -> Result<BTreeMap<PathBuf, &File>, DiskError> {
    let refuse = |why: String| DiskError::Invalid(format!("invalid path: {why}"));
    let check = |path: &str| {
        if path.is_empty() {
            return Err(refuse("must not be empty: \"\"".to_owned()));
        }
        if path.starts_with('/') {
            return Err(refuse(format!("must be relative path: {path}")));
        }
        if path.len() > MAX_PATH {
            return Err(refuse(format!("must be less than or equal to {MAX_PATH} characters")));
        }
        let mut parts = path.split('/');
        if parts.clone().any(|part| part == "..") {
            return Err(refuse(format!("must not contain '..': {path}")));
        }
        if parts.clone().any(|part| part.len() > MAX_NAME) {
            return Err(refuse(format!("filenames must be less than or equal to {MAX_NAME} characters")));
        }
        let clean: PathBuf = Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
        let hidden = |part: &str| part.starts_with("..");
        if parts.next().is_some_and(hidden) || clean.to_str().is_some_and(hidden) {
            return Err(refuse(format!("must not start with '..': {path}")));
        }
        if clean.as_os_str().is_empty() {
            return Err(refuse(format!("must name a file: {path}")));
        }
        Ok(clean)
    };
    payload.iter().map(|(path, file)| Ok((check(path)?, file))).collect()
}

/// Whether anything was written to a folder.
pub(in crate::volumes) fn wrote(dir: &Path) -> bool {
    dir.join(DATA).is_symlink()
}

/// Removes folders that were written and never took effect, and a link that never replaced `..data`.
fn sweep(dir: &Path, current: Option<&Path>) -> Result<(), DiskError> {
    for name in names(dir)? {
        let leftover = name == NEW_DATA || (name.starts_with("..2") && current != Some(Path::new(&name)));
        if leftover {
            mounts::remove_tree(&dir.join(name))?;
        }
    }
    Ok(())
}

/// The paths in the old folder that no new file has, nor lies below.
fn stale_names(old: &Path, files: &BTreeMap<PathBuf, &File>) -> Result<BTreeSet<PathBuf>, DiskError> {
    let wanted: BTreeSet<&Path> = files.keys().flat_map(|path| path.ancestors()).collect();
    let mut stale = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for name in names(&old.join(&folder))? {
            let path = folder.join(name);
            let full = old.join(&path);
            if std::fs::symlink_metadata(&full).during("looking at", &full)?.is_dir() {
                folders.push(path.clone());
            }
            if !wanted.contains(path.as_path()) {
                stale.insert(path);
            }
        }
    }
    Ok(stale)
}

/// Whether the old folder's files hold what the new ones shall.
fn is_current(old: &Path, files: &BTreeMap<PathBuf, &File>) -> Result<bool, DiskError> {
    for (path, file) in files {
        let path = old.join(path);
        let data = std::fs::read(&path);
        if is_missing(&data) || data.during("reading", &path)? != file.data {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes all files to a new folder and gives its name.
fn write_folder(dir: &Path, files: &BTreeMap<PathBuf, &File>, now: Timestamp) -> Result<String, DiskError> {
    let stamp = now.to_zoned(TimeZone::UTC).strftime("..%Y_%m_%d_%H_%M_%S.");
    let name = format!("{stamp}{}", rand::rng().random_range(0..u32::MAX));
    let folder = dir.join(&name);
    std::fs::create_dir(&folder).during("creating directory", &folder)?;
    let written = set_mode(&folder, 0o755)
        .and_then(|()| files.iter().try_for_each(|(path, file)| write_file(&folder.join(path), file)));
    match written {
        Ok(()) => Ok(name),
        Err(error) => {
            let _ = mounts::remove_tree(&folder);
            Err(error)
        }
    }
}

fn write_file(path: &Path, file: &File) -> Result<(), DiskError> {
    if let Some(parent) = path.parent() {
        make_dirs(parent, 0o755)?;
    }
    let open = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut open = open.during("creating file", path)?;
    open.write_all(&file.data).during("writing", path)?;
    if file.owner.is_some() {
        lchown(path, file.owner, None).during("changing the owner of", path)?;
    }
    set_mode(path, file.mode)
}

/// Makes the links by which the files' first names are seen.
fn link_names(dir: &Path, files: &BTreeMap<PathBuf, &File>) -> Result<(), DiskError> {
    for (path, file) in files {
        let Some(first) = path.components().next() else { continue };
        let link = dir.join(first);
        if !is_missing(&std::fs::symlink_metadata(&link)) {
            continue;
        }
        symlink(Path::new(DATA).join(first), &link).during("making link", &link)?;
        if file.owner.is_some() {
            lchown(&link, file.owner, None).during("changing the owner of", &link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |data: &str| File { data: data.into(), mode: 0o440, owner: None };
        files.iter().map(|(path, data)| ((*path).to_owned(), file(data))).collect()
    }

    fn put(dir: &Path, files: &[(&str, &str)]) -> Result<(), DiskError> {
        write(dir, &payload(files), Timestamp::UNIX_EPOCH, || Ok(()))
    }

    /// All that can be seen, links followed.
    fn seen(dir: &Path) -> Vec<(String, String)> {
        let mut seen = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for name in names(&dir.join(&folder)).unwrap() {
                let path = folder.join(&name);
                if name.starts_with("..") {
                } else if dir.join(&path).is_dir() {
                    folders.push(path);
                } else {
                    let data = std::fs::read_to_string(dir.join(&path)).unwrap();
                    seen.push((path.display().to_string(), data));
                }
            }
        }
        seen.sort();
        seen
    }

    fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(path, data)| ((*path).to_owned(), (*data).to_owned())).collect()
    }

    /// The writer's own names in a volume.
    fn inner(dir: &Path) -> Vec<String> {
        names(dir).unwrap().into_iter().filter(|name| name.starts_with("..")).collect()
    }

    #[test]
    fn files_are_seen_through_links_to_a_folder_named_by_the_time() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &[("a", "1"), ("sub/dir/b", "2"), ("sub/c", "3")]).unwrap();
        assert_eq!(seen(dir.path()), pairs(&[("a", "1"), ("sub/c", "3"), ("sub/dir/b", "2")]));
        let link = |name: &str| std::fs::read_link(dir.path().join(name)).unwrap().display().to_string();
        assert_eq!((link("a"), link("sub")), ("..data/a".to_owned(), "..data/sub".to_owned()));
        assert!(link("..data").starts_with("..1970_01_01_00_00_00."), "{}", link("..data"));
        let mode = std::fs::metadata(dir.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o440);
    }

    #[test]
    fn files_change_all_at_once_and_what_is_gone_is_not_seen() {
        let dir = tempfile::tempdir().unwrap();
        for files in [
            &[("a", "1"), ("b", "1"), ("sub/c", "1")][..],
            &[("a", "2"), ("sub/c", "1")],
            &[("sub/d", "1"), ("sub/e/f", "2")],
            &[("sub", "now a file")],
            &[],
            &[("a", "3")],
        ] {
            put(dir.path(), files).unwrap();
            assert_eq!(seen(dir.path()), pairs(files));
            assert_eq!(inner(dir.path()).len(), 2, "{files:?}: {:?}", inner(dir.path()));
        }
    }

    #[test]
    fn what_is_written_already_is_left_but_for_missing_links() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("a", "1"), ("b", "2")];
        put(dir.path(), &files).unwrap();
        let before = inner(dir.path());
        std::fs::remove_file(dir.path().join("a")).unwrap();
        write(dir.path(), &payload(&files), Timestamp::UNIX_EPOCH, || panic!("nothing is new")).unwrap();
        assert_eq!((inner(dir.path()), seen(dir.path())), (before, pairs(&files)));
    }

    #[test]
    fn what_an_attempt_that_broke_off_left_behind_goes() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &[("a", "1")]).unwrap();
        std::fs::create_dir(dir.path().join("..2020_01_01_00_00_00.1")).unwrap();
        symlink("..2020_01_01_00_00_00.1", dir.path().join("..data_tmp")).unwrap();
        put(dir.path(), &[("a", "2")]).unwrap();
        assert_eq!((inner(dir.path()).len(), seen(dir.path())), (2, pairs(&[("a", "2")])));
        // The folder that is current is lost.
        let data = std::fs::read_link(dir.path().join("..data")).unwrap();
        std::fs::remove_dir_all(dir.path().join(data)).unwrap();
        put(dir.path(), &[("a", "2")]).unwrap();
        assert_eq!(seen(dir.path()), pairs(&[("a", "2")]));
    }

    #[test]
    fn files_that_can_not_be_sealed_are_never_seen() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &[("a", "1")]).unwrap();
        let broken = || Err(DiskError::Invalid("no".to_owned()));
        assert!(write(dir.path(), &payload(&[("a", "2")]), Timestamp::UNIX_EPOCH, broken).is_err());
        assert_eq!((seen(dir.path()), inner(dir.path()).len()), (pairs(&[("a", "1")]), 2));
    }

    #[test]
    fn paths_that_lead_out_or_hide_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (long, deep) = ("x".repeat(256), "x/".repeat(2050));
        for (path, why) in [
            ("", "must not be empty"),
            ("/a", "must be relative"),
            ("a/../b", "must not contain '..'"),
            ("../b", "must not contain '..'"),
            ("..data", "must not start with '..'"),
            ("./..data/x", "must not start with '..'"),
            ("./", "must name a file"),
            (long.as_str(), "filenames must be less"),
            (deep.as_str(), "must be less than or equal to 4096"),
        ] {
            let refused = put(dir.path(), &[(path, "x")]).unwrap_err().to_string();
            assert!(refused.starts_with("invalid path: ") && refused.contains(why), "{path}: {refused}");
        }
        assert!(names(dir.path()).unwrap().is_empty());
        put(dir.path(), &[("a..b", "1"), ("x/..y", "2"), ("./z//w", "3")]).unwrap();
        assert!(dir.path().join("z/w").is_file());
    }
}
